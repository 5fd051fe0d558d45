//! The cookies of accounts between calls: one jar for each account, shared by all cores, read with
//! the account and stored in the background.
//!
//! A change waits for at most a second until it is stored, and no call waits for that. Several
//! nodes may store changes of the same jar: each merges its own into what is stored.

use std::sync::{Arc, Weak};

use accounts::sealed_credentials::{self, OpenedSeal, SealOwner};
use domain::account::CreatorId;
use domain::id::{CustomerId, DataKeyId};
use domain::platform::Platform;
use failures::Failure;
use parking_lot::Mutex;
use platform_client::{CookieJar, CookieSet, PlatformTarget};
use runtime::vault::VaultError;
use store::account_cookies::{self, CookieUpdate, JarVersion, StoredCookies};
use store::accounts::Account;

use crate::resealing;
use crate::state::{GatewayState, SharedGateway};

/// The most jars in memory.
const JARS_MAX: usize = 100_000;
/// The most accounts whose cookies are stored in one transaction.
const STORED_AT_ONCE: usize = 200;
/// How often a change is merged into what other nodes stored meanwhile, before it waits for the
/// next round.
const MERGES_MAX: u32 = 5;

/// The jar of one account.
pub(crate) struct AccountCookies {
    customer: CustomerId,
    creator: CreatorId,
    platform: Platform,
    jar: Arc<CookieJar>,
    stored: Mutex<KnownCookies>,
}

/// What is known to be stored.
struct KnownCookies {
    jar: JarVersion,
    data_key: DataKeyId,
    cookies: CookieSet,
}

/// The account and the id of its jar.
type JarKey = (CustomerId, CreatorId, i64);

/// The jars of recently used accounts, and which of them have changed.
pub(crate) struct CookieBook {
    jars: quick_cache::sync::Cache<JarKey, Arc<AccountCookies>>,
    changed: Arc<ChangedJars>,
}

type ChangedJars = Mutex<Vec<Arc<AccountCookies>>>;

impl AccountCookies {
    /// The jar.
    pub(crate) const fn jar(&self) -> &Arc<CookieJar> {
        &self.jar
    }

    fn new(account: &Account, stored: KnownCookies, changed: &Arc<ChangedJars>) -> Arc<Self> {
        Arc::new_cyclic(|own: &Weak<Self>| {
            let (own, changed) = (Weak::clone(own), Arc::clone(changed));
            let tell = move || {
                // Whoever uses the jar holds the account.
                if let Some(own) = own.upgrade() {
                    changed.lock().push(own);
                }
            };
            Self {
                customer: account.customer,
                creator: account.creator_id.clone(),
                platform: account.platform,
                jar: Arc::new(CookieJar::telling(tell)),
                stored: Mutex::new(stored),
            }
        })
    }

    const fn owner(&self) -> SealOwner<'_> {
        (self.customer, self.platform, &self.creator)
    }
}

impl CookieBook {
    /// Starts empty.
    pub(crate) fn new() -> Self {
        Self { jars: quick_cache::sync::Cache::new(JARS_MAX), changed: Arc::default() }
    }

    fn of(&self, account: &Account, stored: KnownCookies) -> Arc<AccountCookies> {
        let key = (account.customer, account.creator_id.clone(), stored.jar.id);
        let fresh = || {
            Ok::<_, std::convert::Infallible>(AccountCookies::new(account, stored, &self.changed))
        };
        match self.jars.get_or_insert_with(&key, fresh) {
            Ok(jar) => jar,
        }
    }
}

/// The jar of an account whose platform sets cookies, with what is stored now.
pub(crate) async fn open(
    gateway: &GatewayState,
    account: &Account,
) -> Result<Option<Arc<AccountCookies>>, Failure> {
    let keeps =
        gateway.accounts().target(account.platform).is_ok_and(PlatformTarget::keeps_cookies);
    if !keeps {
        return Ok(None);
    }
    let (shared, sought) = (gateway.clone(), account.clone());
    let reading = async move { read(&shared, &sought).await };
    let stored = gateway.tasks.on_control(reading).await??;
    let (now, version) = (gateway.clock.now(), stored.jar.version);
    let cookies = stored.cookies.clone();
    let account = gateway.cookies.of(account, KnownCookies { cookies: cookies.clone(), ..stored });
    let mut known = account.stored.lock();
    if known.jar.version <= version {
        known.jar.version = version;
        account.jar.load(&cookies, now);
        known.cookies = cookies;
    }
    drop(known);
    Ok(Some(account))
}

/// What is stored for an account.
async fn read(gateway: &SharedGateway, account: &Account) -> Result<KnownCookies, Failure> {
    let (customer, creator) = (account.customer, &account.creator_id);
    let Some(stored) = account_cookies::find(&gateway.store, customer, creator).await? else {
        return Ok(KnownCookies {
            jar: JarVersion { id: account.connected_at.unix_micros(), version: 0 },
            data_key: account.credentials.data_key,
            cookies: CookieSet::default(),
        });
    };
    let owner = (customer, account.platform, creator);
    let OpenedSeal { value: cookies, is_under_wire_name } = opened(gateway, owner, &stored).await?;
    let jar = if is_under_wire_name {
        resealing::cookies(gateway, owner, &stored, &cookies).await
    } else {
        stored.jar
    };
    Ok(KnownCookies { jar, data_key: stored.data_key, cookies })
}

/// Opens stored cookies. With some that cannot be opened, the account must be connected again, as
/// with such credentials: without its cookies it would be another device at the platform.
async fn opened(
    gateway: &SharedGateway,
    owner: SealOwner<'_>,
    stored: &StoredCookies,
) -> Result<OpenedSeal<CookieSet>, Failure> {
    match sealed_credentials::open_cookies(&gateway.vault, owner, stored).await {
        Ok(opened) => Ok(opened),
        Err(VaultError::Store(error)) => Err(error.into()),
        Err(error) => {
            let (customer, account) = (owner.0, owner.2.as_str());
            tracing::error!(%error, customer.id = %customer, account, "an account's cookies could not be opened; its customer must connect it again");
            Err(Failure::CredentialError)
        }
    }
}

/// Stores the cookies that have changed since the last round. What cannot be stored now waits for
/// the next round.
pub async fn store_changed(gateway: &SharedGateway) {
    let mut changed = std::mem::take(&mut *gateway.cookies.changed.lock());
    // In the same order on all nodes, so that their transactions do not wait for each other in
    // turn.
    changed.sort_by(|one, other| {
        (one.customer.to_string(), &one.creator).cmp(&(other.customer.to_string(), &other.creator))
    });
    changed.dedup_by(|one, other| Arc::ptr_eq(one, other));
    for together in changed.chunks(STORED_AT_ONCE) {
        if let Err(error) = store_together(gateway, together).await {
            tracing::warn!(%error, accounts = together.len(), "cookies of accounts could not be stored; they stay in memory");
            gateway.cookies.changed.lock().extend(together.iter().cloned());
        }
    }
}

/// Stores the cookies of these accounts, merged with what other nodes stored.
async fn store_together(
    gateway: &SharedGateway,
    accounts: &[Arc<AccountCookies>],
) -> Result<(), Failure> {
    let mut waiting: Vec<Arc<AccountCookies>> = accounts.to_vec();
    for _ in 0..MERGES_MAX {
        let mut prepared = Vec::with_capacity(waiting.len());
        for account in waiting.drain(..) {
            match PreparedUpdate::of(gateway, Arc::clone(&account)).await {
                Ok(update) => prepared.extend(update),
                Err(Failure::Store(error)) => return Err(error.into()),
                Err(error) => {
                    let (customer, creator) = (account.customer, account.creator.as_str());
                    tracing::error!(%error, customer.id = %customer, account = creator, "an account's cookies could not be sealed; they stay in memory");
                }
            }
        }
        if prepared.is_empty() {
            return Ok(());
        }
        let updates: Vec<CookieUpdate> = prepared.iter().map(|it| it.update.clone()).collect();
        let now = gateway.clock.now();
        let stored = account_cookies::update_all(&gateway.store, &updates, now).await?;
        for (update, is_stored) in prepared.into_iter().zip(stored) {
            if is_stored {
                update.finish(gateway);
            } else if update.account.reread(gateway).await? {
                waiting.push(update.account);
            }
        }
    }
    gateway.cookies.changed.lock().extend(waiting);
    Ok(())
}

/// Changes of one account on their way to the database.
struct PreparedUpdate {
    account: Arc<AccountCookies>,
    changes: CookieSet,
    all: CookieSet,
    update: CookieUpdate,
}

impl PreparedUpdate {
    /// Nothing if there is nothing to be stored.
    async fn of(
        gateway: &SharedGateway,
        account: Arc<AccountCookies>,
    ) -> Result<Option<Self>, Failure> {
        let changes = account.jar.changes();
        if changes.is_empty() {
            return Ok(None);
        }
        let (jar, data_key, all, is_news) = {
            let known = account.stored.lock();
            let all = known.cookies.merged(&changes, gateway.clock.now());
            let is_news = all.differs_from(&known.cookies);
            (known.jar, known.data_key, all, is_news)
        };
        let place = sealed_credentials::cookie_place(account.owner(), jar.id);
        let key = gateway.vault.find(data_key).await?;
        let sealed = key.seal(&all.to_json(), &place, &gateway.random);
        let sealed = sealed.ok_or(VaultError::Sealing)?;
        let (customer, creator) = (account.customer, account.creator.clone());
        let update = CookieUpdate { customer, creator, jar, sealed, data_key, is_news };
        Ok(Some(Self { account, changes, all, update }))
    }

    /// The changes are stored.
    fn finish(self, gateway: &SharedGateway) {
        let mut known = self.account.stored.lock();
        let version = self.update.jar.version + 1;
        if known.jar.version < version {
            known.jar.version = version;
            self.account.jar.stored(&self.changes, &self.all, gateway.clock.now());
            known.cookies = self.all;
        }
    }
}

impl AccountCookies {
    /// Reads what is stored now. False if this jar is there no more: the account was disconnected,
    /// or connected with another identity. Also if it cannot be opened: then no call can use it.
    async fn reread(&self, gateway: &SharedGateway) -> Result<bool, Failure> {
        let found = account_cookies::find(&gateway.store, self.customer, &self.creator).await?;
        let id = self.stored.lock().jar.id;
        let Some(stored) = found.filter(|stored| stored.jar.id == id) else { return Ok(false) };
        let cookies = match opened(gateway, self.owner(), &stored).await {
            Ok(opened) => opened.value,
            Err(Failure::CredentialError) => return Ok(false),
            Err(error) => return Err(error),
        };
        let mut known = self.stored.lock();
        if known.jar.version <= stored.jar.version {
            self.jar.load(&cookies, gateway.clock.now());
            *known = KnownCookies { jar: stored.jar, data_key: stored.data_key, cookies };
        }
        drop(known);
        Ok(true)
    }
}
