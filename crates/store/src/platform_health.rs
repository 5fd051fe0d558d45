//! Platforms that refuse all credentials, detected from refusals of several accounts on any nodes.
//!
//! A platform that is broken, or no longer accepts our signatures, refuses valid credentials. The
//! accounts are not at fault, so none stays marked.

use domain::account::{AccountState, CreatorId};
use domain::id::CustomerId;
use domain::platform::Platform;
use domain::time::Timestamp;

use crate::tx::Tx;
use crate::{Store, StoreError, dialect, notices};

/// A platform that refuses all credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefusingPlatform {
    /// The platform.
    pub platform: Platform,
    /// When it began.
    pub since: Timestamp,
}

/// Credentials that a platform refused, as confirmed by its identity check.
#[derive(Debug, Clone)]
pub struct CredentialRefusal {
    /// The platform.
    pub platform: Platform,
    /// The customer who owns the account.
    pub customer: CustomerId,
    /// The account.
    pub creator: CreatorId,
    /// The account's version that was refused.
    pub version: i64,
    /// When it happened.
    pub at: Timestamp,
    /// What the token endpoint reported.
    pub cause: RefusalCause,
    /// The latest success of any account on the platform that this node knows of.
    pub last_success_at: Timestamp,
}

/// What is known about why credentials are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalCause {
    /// The token endpoint refused the account's refresh token (`invalid_grant`), so it cannot be
    /// refreshed. The account is marked, whatever the platform does with others; this says nothing
    /// about the platform.
    RefreshToken,
    /// The token endpoint refuses this service, or gives no reason. This says nothing about the
    /// account, which is never marked for it.
    TokenEndpoint,
    /// The platform refuses far more accounts than usual. This is counted, but the account is not
    /// marked.
    PlatformDrift,
    /// Only the refusal itself is known.
    Unknown,
}

/// When refusals are the platform's fault and not the accounts'. All conditions must hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefusalRule {
    /// The minimum number of refused accounts.
    pub accounts: i64,
    /// The minimum number of customers who own them. If fewer customers have active accounts on the
    /// platform: all of them, but at least two.
    pub customers: i64,
    /// The period, in seconds, in which they are refused without a success of any account in
    /// between.
    pub within_s: i64,
}

/// The outcome of recording a refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RefusalOutcome {
    /// The account is marked as needing to be reconnected.
    AccountMarked,
    /// The refusal is counted; the account is unchanged.
    Counted,
    /// The platform refuses all credentials; the account is not marked.
    PlatformRefusing {
        /// When it began.
        since: Timestamp,
        /// The accounts that had been marked for it and no longer are.
        unmarked: Vec<(CustomerId, CreatorId)>,
    },
    /// The account was changed meanwhile, or its token is being refreshed, so the refusal says
    /// nothing about it.
    AccountChanged,
}

/// Records a refusal: marks the account, or detects that the platform refuses all credentials.
pub async fn record_refusal(
    store: &Store,
    refusal: &CredentialRefusal,
    rule: RefusalRule,
) -> Result<RefusalOutcome, StoreError> {
    let mut tx = store.write().await?;
    let platform = lock(&mut tx, refusal).await?;
    if !is_current(&mut tx, refusal).await? {
        return Ok(RefusalOutcome::AccountChanged);
    }
    let oldest = refusal.at.plus_seconds(-rule.within_s);
    delete_before(&mut tx, Some(refusal.platform), oldest).await?;
    let outcome = if refusal.cause == RefusalCause::RefreshToken {
        // Without a row it is not counted, and is not unmarked if the platform turns out to refuse
        // all.
        delete(&mut tx, refusal).await?;
        mark(&mut tx, refusal).await?;
        RefusalOutcome::AccountMarked
    } else {
        insert(&mut tx, refusal).await?;
        count(&mut tx, refusal, rule, platform).await?
    };
    tx.commit().await?;
    Ok(outcome)
}

/// What is recorded of a platform.
#[derive(Clone, Copy)]
struct PlatformRecord {
    refusing_since: Option<Timestamp>,
    last_success_at: Timestamp,
}

/// Evaluates a refusal that may be the platform's fault together with the others.
async fn count(
    tx: &mut Tx,
    refusal: &CredentialRefusal,
    rule: RefusalRule,
    platform: PlatformRecord,
) -> Result<RefusalOutcome, StoreError> {
    if let Some(since) = platform.refusing_since {
        return Ok(RefusalOutcome::PlatformRefusing { since, unmarked: Vec::new() });
    }
    if is_platforms_fault(tx, refusal, rule, platform.last_success_at).await? {
        let unmarked = refuse(tx, refusal, platform.last_success_at).await?;
        return Ok(RefusalOutcome::PlatformRefusing { since: refusal.at, unmarked });
    }
    if matches!(refusal.cause, RefusalCause::TokenEndpoint | RefusalCause::PlatformDrift) {
        return Ok(RefusalOutcome::Counted);
    }
    mark(tx, refusal).await?;
    Ok(RefusalOutcome::AccountMarked)
}

/// Records that a platform accepts credentials again. False if it was not known to refuse them, or
/// began to after `at`.
pub async fn record_recovery(
    store: &Store,
    platform: Platform,
    at: Timestamp,
) -> Result<bool, StoreError> {
    const SQL: &str = "
        update platform_health set refusing_since = null, last_success_at = $2
        where platform = $1 and refusing_since <= $2";
    let mut tx = store.write().await?;
    let changed = tx.execute(SQL, &[platform.stored_name().into(), at.into()]).await?;
    if changed > 0 {
        notices::tell_platforms(&mut tx).await?;
    }
    tx.commit().await?;
    Ok(changed > 0)
}

/// Unmarks the accounts of a platform that were marked since then and have not changed, because the
/// platform turned out to refuse the credentials of several customers. Returns them.
pub async fn unmark_refused(
    store: &Store,
    platform: Platform,
    since: Timestamp,
) -> Result<Vec<(CustomerId, CreatorId)>, StoreError> {
    let mut tx = store.write().await?;
    let unmarked = unmark(&mut tx, platform, since).await?;
    tx.commit().await?;
    Ok(unmarked)
}

/// The platforms that refuse all credentials.
pub async fn list_refusing(store: &Store) -> Result<Vec<RefusingPlatform>, StoreError> {
    const SQL: &str = "
        select platform, refusing_since from platform_health
        where refusing_since is not null order by platform";
    let rows = store.read().await?.rows(SQL, &[]).await?;
    rows.iter()
        .map(|row| {
            Ok(RefusingPlatform {
                platform: row.platform("platform", "platform_health")?,
                since: row.time("refusing_since")?,
            })
        })
        .collect()
}

/// Deletes refusals older than `before`, of all platforms.
pub async fn delete_old_refusals(store: &Store, before: Timestamp) -> Result<(), StoreError> {
    let mut tx = store.write().await?;
    delete_before(&mut tx, None, before).await?;
    tx.commit().await
}

/// Locks the platform's row, so that concurrent refusals are counted one after the other. Returns
/// since when it refuses all credentials, and its latest success.
async fn lock(tx: &mut Tx, refusal: &CredentialRefusal) -> Result<PlatformRecord, StoreError> {
    const SQL: &str = "
        insert into platform_health (platform, refusing_since, last_success_at) values ($1, null, $2)
        on conflict (platform) do update set last_success_at = case
            when platform_health.last_success_at < excluded.last_success_at
            then excluded.last_success_at else platform_health.last_success_at end
        returning refusing_since, last_success_at";
    let values = [refusal.platform.stored_name().into(), refusal.last_success_at.into()];
    let row = tx.row(SQL, &values).await?;
    let row = row.ok_or_else(|| StoreError::corrupt("platform_health", refusal.platform))?;
    Ok(PlatformRecord {
        refusing_since: row.optional_time("refusing_since")?,
        last_success_at: row.time("last_success_at")?,
    })
}

async fn is_current(tx: &mut Tx, refusal: &CredentialRefusal) -> Result<bool, StoreError> {
    const SQL: &str = "
        select version from accounts
        where customer_id = $1 and creator_id = $2 and version = $3 and state = 'active'
          and (refresh_claimed_until is null
            or (refresh_claimed_by is null and refresh_claimed_until <= $4))";
    let values = [
        refusal.customer.into(),
        (&refusal.creator).into(),
        refusal.version.into(),
        refusal.at.into(),
    ];
    let text = format!("{SQL}{}", dialect::for_update(tx.database()));
    Ok(tx.row(sqlx::AssertSqlSafe(text), &values).await?.is_some())
}

async fn delete_before(
    tx: &mut Tx,
    platform: Option<Platform>,
    before: Timestamp,
) -> Result<(), StoreError> {
    const OF_ONE: &str = "
        delete from credential_refusals where platform = $1 and refused_at < $2";
    const OF_ALL: &str = "delete from credential_refusals where refused_at < $1";
    match platform {
        Some(platform) => {
            tx.execute(OF_ONE, &[platform.stored_name().into(), before.into()]).await?;
        }
        None => {
            tx.execute(OF_ALL, &[before.into()]).await?;
        }
    }
    Ok(())
}

async fn insert(tx: &mut Tx, refusal: &CredentialRefusal) -> Result<(), StoreError> {
    const SQL: &str = "
        insert into credential_refusals (platform, customer_id, creator_id, refused_at, marked_version)
        values ($1, $2, $3, $4, null)
        on conflict (platform, customer_id, creator_id)
            do update set refused_at = excluded.refused_at, marked_version = null";
    let values = [
        refusal.platform.stored_name().into(),
        refusal.customer.into(),
        (&refusal.creator).into(),
        refusal.at.into(),
    ];
    tx.execute(SQL, &values).await?;
    Ok(())
}

async fn delete(tx: &mut Tx, refusal: &CredentialRefusal) -> Result<(), StoreError> {
    const SQL: &str = "
        delete from credential_refusals where platform = $1 and customer_id = $2 and creator_id = $3";
    let values =
        [refusal.platform.stored_name().into(), refusal.customer.into(), (&refusal.creator).into()];
    tx.execute(SQL, &values).await?;
    Ok(())
}

/// Whether enough accounts of enough customers were refused since the latest success. One
/// customer's accounts never decide it for others, because all of them may be invalid. Even those
/// of the only customer on a platform may all be invalid, so in that case only refusals by the
/// token endpoint count.
async fn is_platforms_fault(
    tx: &mut Tx,
    refusal: &CredentialRefusal,
    rule: RefusalRule,
    last_success_at: Timestamp,
) -> Result<bool, StoreError> {
    // Refusals by the token endpoint are those without a mark. The current refusal is marked later,
    // if at all.
    const SQL: &str = "
        select count(*) as accounts, count(distinct customer_id) as customers,
               count(*) - count(marked_version) as by_endpoint
        from credential_refusals where platform = $1 and refused_at >= $2";
    let values = [refusal.platform.stored_name().into(), last_success_at.into()];
    let Some(row) = tx.row(SQL, &values).await? else { return Ok(false) };
    let (accounts, customers, by_endpoint) =
        (row.int("accounts")?, row.int("customers")?, row.int("by_endpoint")?);
    if accounts < rule.accounts {
        return Ok(false);
    }
    if customers >= rule.customers {
        return Ok(true);
    }
    let is_sole = customers == 1;
    let may_be_sole = refusal.cause == RefusalCause::TokenEndpoint && by_endpoint >= rule.accounts;
    if is_sole && !may_be_sole {
        return Ok(false);
    }
    Ok(!has_others(tx, refusal.platform, last_success_at).await?)
}

/// Whether a customer has an active account on the platform and none that was refused since
/// `since`.
async fn has_others(tx: &mut Tx, platform: Platform, since: Timestamp) -> Result<bool, StoreError> {
    const SQL: &str = "
        select 1 from accounts
        where platform = $1 and state = 'active' and customer_id not in (
            select customer_id from credential_refusals where platform = $1 and refused_at >= $2)
        limit 1";
    Ok(tx.row(SQL, &[platform.stored_name().into(), since.into()]).await?.is_some())
}

async fn mark(tx: &mut Tx, refusal: &CredentialRefusal) -> Result<(), StoreError> {
    const REMEMBER: &str = "
        update credential_refusals set marked_version = $4
        where platform = $1 and customer_id = $2 and creator_id = $3";
    let (customer, creator) = (refusal.customer, &refusal.creator);
    let marked = move_to(tx, customer, creator, refusal.version, AccountState::ReconnectNeeded);
    let marked_version = marked.await?;
    let values = [
        refusal.platform.stored_name().into(),
        customer.into(),
        creator.into(),
        marked_version.into(),
    ];
    tx.execute(REMEMBER, &values).await?;
    Ok(())
}

/// Records that the platform refuses all credentials, and unmarks the accounts that were marked for
/// it.
async fn refuse(
    tx: &mut Tx,
    refusal: &CredentialRefusal,
    last_success_at: Timestamp,
) -> Result<Vec<(CustomerId, CreatorId)>, StoreError> {
    const NOTE: &str = "update platform_health set refusing_since = $2 where platform = $1";
    tx.execute(NOTE, &[refusal.platform.stored_name().into(), refusal.at.into()]).await?;
    let unmarked = unmark(tx, refusal.platform, last_success_at).await?;
    notices::tell_platforms(tx).await?;
    Ok(unmarked)
}

/// Unmarks the accounts of a platform that were marked since then and have not changed.
async fn unmark(
    tx: &mut Tx,
    platform: Platform,
    since: Timestamp,
) -> Result<Vec<(CustomerId, CreatorId)>, StoreError> {
    const MARKED: &str = "
        select customer_id, creator_id, marked_version from credential_refusals
        where platform = $1 and refused_at >= $2 and marked_version is not null
        order by customer_id, creator_id";
    let mut unmarked = Vec::new();
    for row in tx.rows(MARKED, &[platform.stored_name().into(), since.into()]).await? {
        let customer = row.parse("customer_id", "credential_refusals")?;
        let creator = row.parse("creator_id", "credential_refusals")?;
        if move_to(tx, customer, &creator, row.int("marked_version")?, AccountState::Active)
            .await?
            .is_some()
        {
            unmarked.push((customer, creator));
        }
    }
    Ok(unmarked)
}

/// Changes the state of an account that still has this version, and returns the new version.
async fn move_to(
    tx: &mut Tx,
    customer: CustomerId,
    creator: &CreatorId,
    version: i64,
    state: AccountState,
) -> Result<Option<i64>, StoreError> {
    let moved = crate::accounts::set_state_in(tx, customer, creator, version, state).await?;
    if moved.is_some() {
        notices::tell_account(tx, customer, creator).await?;
    }
    Ok(moved)
}
