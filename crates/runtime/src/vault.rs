//! The vault: the data keys of customers, unwrapped once and kept in memory, and what they seal.

use domain::id::{CustomerId, DataKeyId};
use domain::time::Timestamp;
use store::Store;
use store::data_keys;

use crate::clock::{Clock, Random};
use crate::sealing::{DataKey, Keyring, SealProblem, WrappedKey};

const KEYS_MAX: usize = 100_000;
/// The text that each master key seals once, to recognize the key at the next start.
const CANARY: &[u8] = b"creator-gateway master key";
const CANARY_PLACE: &str = "v1|canary";

/// Master keys in force, and the data keys used recently.
pub struct Vault {
    keyring: parking_lot::RwLock<Keyring>,
    open: quick_cache::sync::Cache<DataKeyId, DataKey>,
    store: Store,
    random: Random,
    clock: Clock,
}

/// Why the vault cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum VaultError {
    /// The database does not respond.
    #[error("the vault cannot be read")]
    Store(#[from] store::StoreError),
    /// The master key differs from the one used before.
    #[error("the master key `{0}` is not the one that this database was sealed with")]
    WrongKey(String),
    /// Data keys are wrapped by a master key that is not configured.
    #[error("{count} data keys are wrapped by the master key `{id}`, which is not configured")]
    MissingKey {
        /// The missing key.
        id: String,
        /// How many data keys need it.
        count: i64,
    },
    /// The data key that sealed something is missing or cannot be opened.
    #[error("the data key of sealed data cannot be used")]
    NoDataKey,
    /// Something could not be sealed or opened.
    #[error("a data key cannot be opened")]
    Sealing,
}

/// A customer's data key that seals now.
pub struct CurrentDataKey {
    /// Its id.
    pub id: DataKeyId,
    /// The key.
    pub key: DataKey,
}

/// A value that a data key has sealed.
pub struct SealedValue {
    /// The data key.
    pub data_key: DataKeyId,
    /// The sealed value.
    pub sealed: Vec<u8>,
}

impl Vault {
    /// Opens the vault. Every configured key must be the same as before, and no key in use may be
    /// missing.
    pub async fn open(
        store: Store,
        keyring: Keyring,
        random: Random,
        clock: Clock,
    ) -> Result<Self, VaultError> {
        let vault = Self {
            keyring: parking_lot::RwLock::new(keyring),
            open: quick_cache::sync::Cache::new(KEYS_MAX),
            store,
            random,
            clock,
        };
        vault.check(&vault.keyring()).await?;
        Ok(vault)
    }

    /// Checks that these are the keys that this database was sealed with, and that no key in use is
    /// missing.
    pub async fn check(&self, keyring: &Keyring) -> Result<(), VaultError> {
        for key in keyring.keys() {
            match data_keys::canary(&self.store, key.id()).await? {
                Some(sealed) => {
                    let opened = key.open(&sealed, CANARY_PLACE);
                    if opened.is_none_or(|text| text.as_slice() != CANARY) {
                        return Err(VaultError::WrongKey(key.id().to_owned()));
                    }
                }
                None => {
                    let sealed = key.seal(CANARY, CANARY_PLACE, &self.random);
                    let sealed = sealed.ok_or(VaultError::Sealing)?;
                    let now = self.clock.now();
                    data_keys::create_canary(&self.store, key.id(), &sealed, now).await?;
                }
            }
        }
        for used in data_keys::count_by_master_key(&self.store).await? {
            if keyring.keys().all(|key| key.id() != used.master_key) {
                let (id, count) = (used.master_key, used.data_keys);
                return Err(VaultError::MissingKey { id, count });
            }
        }
        Ok(())
    }

    /// The data key that seals for this customer, created now if there is none.
    pub async fn current(&self, customer: CustomerId) -> Result<CurrentDataKey, VaultError> {
        let record = match data_keys::current(&self.store, customer).await? {
            Some(record) => record,
            None => {
                let fresh =
                    self.new_record(customer, self.clock.now()).ok_or(VaultError::Sealing)?;
                data_keys::create_first(&self.store, &fresh).await?
            }
        };
        let key = self.unwrap(&record).map_err(|_| VaultError::Sealing)?;
        self.open.insert(record.id, key.clone());
        Ok(CurrentDataKey { id: record.id, key })
    }

    fn new_record(&self, customer: CustomerId, now: Timestamp) -> Option<data_keys::DataKey> {
        let keyring = self.keyring.read();
        let wrapped = keyring.new_data_key(&customer.to_string(), &self.random)?.wrapped;
        Some(data_keys::DataKey {
            id: DataKeyId::new(now, self.random.bytes()),
            customer,
            wrapped: wrapped.bytes,
            master_key: wrapped.master_key,
            created_at: now,
        })
    }

    /// The data key with this id, which opens what it sealed.
    pub async fn find(&self, id: DataKeyId) -> Result<DataKey, VaultError> {
        if let Some(key) = self.open.get(&id) {
            return Ok(key);
        }
        let record = data_keys::find(&self.store, id).await?.ok_or(VaultError::NoDataKey)?;
        let key = self.unwrap(&record).map_err(|_| VaultError::NoDataKey)?;
        self.open.insert(id, key.clone());
        Ok(key)
    }

    fn unwrap(&self, record: &data_keys::DataKey) -> Result<DataKey, SealProblem> {
        let customer = record.customer.to_string();
        self.keyring.read().unwrap(&record.wrapped, &record.master_key, &customer)
    }

    /// Seals a value of a customer for a place with the customer's data key.
    pub async fn seal(
        &self,
        customer: CustomerId,
        place: &str,
        plain: &[u8],
    ) -> Result<SealedValue, VaultError> {
        let CurrentDataKey { id, key } = self.current(customer).await?;
        let sealed = key.seal(plain, place, &self.random).ok_or(VaultError::Sealing)?;
        Ok(SealedValue { data_key: id, sealed })
    }

    /// Makes a new master key the current one: it wraps from now on.
    pub fn prefer(&self, keyring: Keyring) {
        *self.keyring.write() = keyring;
    }

    /// The keys in force.
    pub fn keyring(&self) -> Keyring {
        self.keyring.read().clone()
    }

    /// Wraps every data key again with the current master key, in batches; returns the number of
    /// keys.
    pub async fn rewrap_all(&self) -> Result<u64, VaultError> {
        const STEP: i64 = 500;
        self.check(&self.keyring()).await?;
        let mut rewrapped = 0;
        loop {
            let current = self.keyring.read().current().map(|key| key.id().to_owned());
            let current = current.ok_or(VaultError::Sealing)?;
            let step = data_keys::list_under_others(&self.store, &current, STEP).await?;
            if step.is_empty() {
                return Ok(rewrapped);
            }
            for record in step {
                let fresh = self.rewrapped(&record).ok_or(VaultError::Sealing)?;
                if data_keys::rewrap(&self.store, &record.master_key, &fresh).await? {
                    rewrapped += 1;
                }
            }
        }
    }

    fn rewrapped(&self, record: &data_keys::DataKey) -> Option<data_keys::DataKey> {
        let key = self.unwrap(record).ok()?;
        let keyring = self.keyring.read();
        let WrappedKey { bytes, master_key } =
            keyring.wrap(&key, &record.customer.to_string(), &self.random)?;
        Some(data_keys::DataKey { wrapped: bytes, master_key, ..record.clone() })
    }
}
