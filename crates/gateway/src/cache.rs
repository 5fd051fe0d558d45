//! What the data plane caches between calls: keys and accounts, for a minute at most.
//!
//! A stale entry is harmless: every hold checks the key and the account's version again in its own
//! transaction, and no response is released before that commits. A stale entry is dropped when
//! found.

use std::hash::Hash;
use std::sync::Arc;

use domain::account::CreatorId;
use domain::id::{CustomerId, KeyId};
use domain::key::{KeyHash, KeyScope};
use domain::time::Timestamp;
use failures::Failure;
use parking_lot::Mutex;
use quick_cache::Equivalent;
use runtime::cached::CachedEntries;
use store::StoreError;
use transport::LoadCounter;

use super::account_entry::AccountEntry;
use super::balance::ShownBalance;
use crate::state::{BuffersOf, GatewayState};

/// The maximum number of entries on all cores together, and the minimum on each core.
const ENTRIES_MAX: usize = 100_000;
const ENTRIES_OF_A_CORE_MIN: usize = 5_000;
const AGE_MAX_S: i64 = 60;

/// A key, as the data plane needs it.
#[derive(Debug)]
pub struct KeyEntry {
    /// The secret that was presented; the hold checks it again.
    pub hash: KeyHash,
    /// The accounts it is limited to; empty means all.
    pub accounts: Vec<CreatorId>,
    /// The key.
    pub key: KeyId,
    /// The customer who pays.
    pub customer: CustomerId,
    /// What it may do.
    pub scope: KeyScope,
    /// When it, or this secret of it, stops being accepted.
    ends_at: Option<Timestamp>,
    /// Its version, which the hold compares.
    pub version: i64,
    /// Whether it has a monthly budget; only the hold's transaction knows what is left of that.
    pub has_budget: bool,
    /// The customer's calls in flight.
    pub load: Arc<LoadCounter>,
    /// The customer's share of the memory for bodies and responses.
    pub buffers: BuffersOf,
    /// The balance last shown.
    pub(super) shown: ShownBalance,
}

/// Recently used keys and accounts of one core.
pub struct EntryCache {
    keys: CacheShelf<KeyHash, Arc<KeyEntry>>,
    accounts: CacheShelf<(CustomerId, CreatorId), Arc<AccountEntry>>,
}

/// The caches of all cores. Each core has its own, because every call writes to its cache and
/// shared cache lines would bounce between cores. Entries are forgotten on all cores.
pub struct EntryCaches {
    entries_max: usize,
    cores: Mutex<Vec<Arc<EntryCache>>>,
}

impl EntryCaches {
    /// Caches for this number of cores.
    pub fn new(cores: usize) -> Self {
        let entries_max = (ENTRIES_MAX / cores.max(1)).max(ENTRIES_OF_A_CORE_MIN);
        Self { entries_max, cores: Mutex::default() }
    }

    /// Adds the cache of one more core.
    pub fn of_a_core(&self) -> Arc<EntryCache> {
        let entries_max = self.entries_max;
        let cache = EntryCache {
            keys: CacheShelf::new(entries_max),
            accounts: CacheShelf::new(entries_max),
        };
        let cache = Arc::new(cache);
        self.cores.lock().push(Arc::clone(&cache));
        cache
    }

    /// Forgets the keys of a customer after one was changed, rotated or revoked.
    pub fn forget_keys_of(&self, customer: CustomerId) {
        self.each(|cache| cache.keys.forget_where(|entry| entry.customer == customer));
    }

    /// Forgets every key after a change by staff.
    pub fn forget_keys(&self) {
        self.each(|cache| cache.keys.forget_all());
    }

    /// Forgets everything.
    pub fn forget_all(&self) {
        self.each(|cache| {
            cache.keys.forget_all();
            cache.accounts.forget_all();
        });
    }

    /// Forgets expired entries, and with them their open credentials. Called by housekeeping.
    pub fn forget_old(&self, now: Timestamp) {
        self.each(|cache| {
            cache.keys.forget_old(now);
            cache.accounts.forget_old(now);
        });
    }

    /// Forgets an account, so that the next call reads it again.
    pub fn forget_account(&self, customer: CustomerId, creator: &CreatorId) {
        let place = (customer, creator.clone());
        self.each(|cache| cache.accounts.forget(&place));
    }

    fn each(&self, forget: impl Fn(&EntryCache)) {
        self.cores.lock().iter().for_each(|cache| forget(cache));
    }
}

/// Finds the key with this secret, or returns 401.
pub(super) async fn key(
    gateway: &GatewayState,
    hash: KeyHash,
    now: Timestamp,
) -> Result<Arc<KeyEntry>, Failure> {
    let remembered = gateway.remembered().keys.get(&hash, now);
    match remembered.filter(|entry| entry.ends_at.is_none_or(|end| now < end)) {
        Some(entry) => Ok(entry),
        None => read_key(gateway, hash).await,
    }
}

/// Reads the key without the cache, before a call is refused for lack of a permission.
pub(super) async fn read_key(
    gateway: &GatewayState,
    hash: KeyHash,
) -> Result<Arc<KeyEntry>, Failure> {
    let now = gateway.clock.now();
    let store = gateway.store.clone();
    let lookup = async move {
        let presented = store::keys::find_by_hash(&store, &hash).await?;
        let closed = presented.as_ref().and_then(|presented| presented.closed_customer(now));
        let is_suspended = match closed {
            Some(customer) => store::suspensions::is_suspended(&store, customer).await?,
            None => false,
        };
        Ok::<_, StoreError>((presented, is_suspended))
    };
    let (presented, is_suspended) = gateway.tasks.on_control(lookup).await??;
    if is_suspended {
        return Err(Failure::CustomerSuspended);
    }
    let usable =
        presented.filter(|presented| presented.is_usable(now)).ok_or(Failure::InvalidKey)?;
    let (ends_at, key) = (usable.ends_at(), usable.key);
    let entry = KeyEntry {
        hash,
        accounts: key.accounts,
        key: key.id,
        customer: key.customer,
        scope: key.scope,
        ends_at,
        version: key.version,
        has_budget: key.monthly_budget.is_some(),
        load: gateway.in_flight.of_customer(key.customer),
        buffers: gateway.buffers_of(key.customer),
        shown: ShownBalance::default(),
    };
    Ok(gateway.remembered().keys.put(hash, Arc::new(entry), now))
}

/// Finds an account of this customer, or returns 404, which is the same for an unknown account and
/// for one of another customer.
pub(super) async fn account(
    gateway: &GatewayState,
    customer: CustomerId,
    creator: &CreatorId,
    now: Timestamp,
) -> Result<Arc<AccountEntry>, Failure> {
    if let Some(entry) = gateway.remembered().accounts.get(&PlaceRef(customer, creator), now) {
        return Ok(entry);
    }
    let place = (customer, creator.clone());
    let store = gateway.store.clone();
    let wanted = creator.clone();
    let lookup = async move { store::accounts::find(&store, customer, &wanted).await };
    let account = gateway.tasks.on_control(lookup).await??.ok_or(Failure::AccountNotFound)?;
    let entry = AccountEntry::open(gateway, account).await?;
    Ok(gateway.remembered().accounts.put(place, Arc::new(entry), now))
}

/// The cache key of an account, borrowed, for a lookup without a copy.
#[derive(Hash)]
struct PlaceRef<'a>(CustomerId, &'a CreatorId);

impl Equivalent<(CustomerId, CreatorId)> for PlaceRef<'_> {
    fn equivalent(&self, place: &(CustomerId, CreatorId)) -> bool {
        self.0 == place.0 && *self.1 == place.1
    }
}

/// A bounded map whose entries are read again after a minute.
struct CacheShelf<K, V>(quick_cache::sync::Cache<K, (Timestamp, V)>);

impl<K: Hash + Eq, V: Clone> CacheShelf<K, V> {
    fn new(entries_max: usize) -> Self {
        Self(quick_cache::sync::Cache::new(entries_max))
    }

    fn get<Q: Hash + Equivalent<K> + ?Sized>(&self, key: &Q, now: Timestamp) -> Option<V> {
        let (loaded_at, value) = self.0.get(key)?;
        is_fresh(loaded_at, now).then_some(value)
    }

    fn forget_old(&self, now: Timestamp) {
        self.0.retain(|_, (loaded_at, _)| is_fresh(*loaded_at, now));
    }

    fn forget_where(&self, is_meant: impl Fn(&V) -> bool) {
        self.0.retain(|_, (_, value)| !is_meant(value));
    }

    fn put(&self, key: K, value: V, now: Timestamp) -> V {
        self.0.insert(key, (now, value.clone()));
        value
    }

    fn forget(&self, key: &K) {
        self.0.remove(key);
    }

    fn forget_all(&self) {
        self.0.clear();
    }
}

fn is_fresh(loaded_at: Timestamp, now: Timestamp) -> bool {
    now.micros_since(loaded_at) < AGE_MAX_S * domain::time::MICROS_PER_SECOND
}

impl CachedEntries for EntryCaches {
    fn forget_account(&self, customer: CustomerId, creator: &CreatorId) {
        Self::forget_account(self, customer, creator);
    }

    fn forget_keys_of(&self, customer: CustomerId) {
        Self::forget_keys_of(self, customer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(hash: KeyHash) -> KeyEntry {
        let now = Timestamp::from_unix_micros(0);
        KeyEntry {
            hash,
            accounts: Vec::new(),
            key: KeyId::new(now, [1; 10]),
            customer: CustomerId::new(now, [2; 10]),
            scope: KeyScope::Full,
            ends_at: None,
            version: 1,
            has_budget: false,
            load: Arc::default(),
            buffers: BuffersOf { bodies: Arc::default(), envelopes: Arc::default() },
            shown: ShownBalance::default(),
        }
    }

    #[test]
    fn entry_expires_after_a_minute() {
        let shelf = CacheShelf::new(10);
        let start = Timestamp::from_unix_micros(0);
        shelf.put(1, "value", start);

        assert_eq!(shelf.get(&1, start.plus_seconds(59)), Some("value"));
        assert_eq!(shelf.get(&1, start.plus_seconds(60)), None);
    }

    #[test]
    fn expired_entries_are_removed_from_memory() {
        let shelf = CacheShelf::new(10);
        let start = Timestamp::from_unix_micros(0);
        shelf.put(1, "old", start);
        shelf.put(2, "new", start.plus_seconds(30));

        shelf.forget_old(start.plus_seconds(60));

        assert_eq!(shelf.0.len(), 1);
        assert_eq!(shelf.get(&2, start.plus_seconds(60)), Some("new"));
    }

    #[test]
    fn entries_are_forgotten_on_all_cores() {
        let caches = EntryCaches::new(2);
        let cores = [caches.of_a_core(), caches.of_a_core()];
        let now = Timestamp::from_unix_micros(0);
        let hash = KeyHash::from_bytes(&[7; 32]).unwrap();
        for core in &cores {
            core.keys.put(hash, Arc::new(entry(hash)), now);
        }

        caches.forget_keys();

        assert!(cores.iter().all(|core| core.keys.get(&hash, now).is_none()));
    }

    #[test]
    fn forgetting_one_customers_keys_keeps_those_of_others() {
        let caches = EntryCaches::new(2);
        let cores = [caches.of_a_core(), caches.of_a_core()];
        let now = Timestamp::from_unix_micros(0);
        let [one, other] = [[1; 32], [2; 32]].map(|bytes| KeyHash::from_bytes(&bytes).unwrap());
        let other_customer = CustomerId::new(now, [9; 10]);
        for core in &cores {
            core.keys.put(one, Arc::new(entry(one)), now);
            let of_other = KeyEntry { customer: other_customer, ..entry(other) };
            core.keys.put(other, Arc::new(of_other), now);
        }

        caches.forget_keys_of(entry(one).customer);

        for core in &cores {
            assert!(core.keys.get(&one, now).is_none());
            assert!(core.keys.get(&other, now).is_some());
        }
    }

    #[test]
    fn forgotten_entry_is_no_longer_returned() {
        let shelf = CacheShelf::new(10);
        let start = Timestamp::from_unix_micros(0);
        shelf.put(1, "value", start);

        shelf.forget(&1);

        assert_eq!(shelf.get(&1, start), None);
    }
}
