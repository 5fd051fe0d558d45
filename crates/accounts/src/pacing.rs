//! Pacing: the requests of one account to its platform are spread over time.
//!
//! Each class of requests has a bucket (generic cell rate algorithm). A request that finds it empty
//! waits for its turn, in the order of arrival, if the wait is short enough; otherwise it is
//! refused with the time after which it would not wait. Each node paces its own requests.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use domain::account::CreatorId;
use domain::id::CustomerId;
use domain::per_platform::PerPlatform;
use domain::platform::Platform;
use domain::time::{MICROS_PER_MILLI, Timestamp};
use foldhash::fast::RandomState;
use parking_lot::Mutex;
use runtime::clock::Clock;
use runtime::metrics;

/// The number of accounts whose pace is remembered. The pace of others is forgotten with their
/// cached entries.
const ACCOUNTS_MAX: usize = 100_000;
/// The most requests of a class that wait for one account.
const WAITING_MAX: u32 = 100;
/// How much longer than announced a request may wait, because timers are late.
const GRACE_MICROS: i64 = 100 * MICROS_PER_MILLI;
/// The most requests that a bucket can owe because they did not wait for their turn.
const OWED_MAX: i64 = 10;

/// A class of requests with a pace of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PaceClass {
    /// Requests that change nothing.
    Reads,
    /// All others.
    Writes,
    /// Requests to routes that the catalogue marks as sensitive, if they have a pace of their own.
    Sensitive,
}

impl PaceClass {
    /// Its name in metrics.
    pub const fn as_str(self) -> &'static str {
        let [reads, writes, sensitive] = metrics::PACE_CLASSES;
        match self {
            Self::Reads => reads,
            Self::Writes => writes,
            Self::Sensitive => sensitive,
        }
    }
}

/// How often requests of one class may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PaceQuota {
    /// Microseconds from one request to the next, on average.
    pub unit_micros: i64,
    /// How many may be sent together after a pause.
    pub burst: u32,
}

/// The pace of one platform; `None` for classes that are not paced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PaceRule {
    /// For reads.
    pub reads: Option<PaceQuota>,
    /// For writes.
    pub writes: Option<PaceQuota>,
    /// For sensitive routes; without it they count as reads and writes.
    pub sensitive: Option<PaceQuota>,
    /// How long a call may wait, in milliseconds.
    pub max_wait_ms: i64,
    /// Whether each node takes its share of the quota.
    pub divide_by_nodes: bool,
}

impl PaceRule {
    /// Whether anything is paced.
    pub const fn is_paced(&self) -> bool {
        self.reads.is_some() || self.writes.is_some() || self.sensitive.is_some()
    }

    /// The class of a request; `None` if it is not paced.
    pub fn class_of(&self, is_read: bool, is_sensitive: bool) -> Option<PaceClass> {
        if is_sensitive && self.sensitive.is_some() {
            return Some(PaceClass::Sensitive);
        }
        let class = if is_read { PaceClass::Reads } else { PaceClass::Writes };
        self.quota(class).map(|_| class)
    }

    const fn quota(&self, class: PaceClass) -> Option<PaceQuota> {
        match class {
            PaceClass::Reads => self.reads,
            PaceClass::Writes => self.writes,
            PaceClass::Sensitive => self.sensitive,
        }
    }
}

/// The paces of all accounts on this node.
#[derive(Debug)]
pub struct PaceBook {
    /// Of the platforms that are paced.
    rules: PerPlatform<PaceRule>,
    accounts: Mutex<HashMap<(CustomerId, CreatorId), Arc<AccountPace>, RandomState>>,
    /// How many nodes share the quotas.
    nodes: Arc<AtomicU32>,
}

/// The pace of one account.
#[derive(Debug)]
pub struct AccountPace {
    platform: Platform,
    rule: PaceRule,
    nodes: Arc<AtomicU32>,
    reads: PaceBucket,
    writes: PaceBucket,
    sensitive: PaceBucket,
}

#[derive(Debug, Default)]
struct PaceBucket {
    state: Mutex<BucketState>,
    /// Held by the request whose turn is next; others wait for it in the order of arrival.
    next: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct BucketState {
    /// When the whole burst is available again, in microseconds.
    paid_off_at: i64,
    waiting: u32,
}

/// The right to send one request. If it is dropped unspent, it is given back.
#[derive(Debug)]
#[must_use = "spend it when the request is sent"]
pub struct PaceSlot {
    pace: Arc<AccountPace>,
    class: PaceClass,
    is_spent: bool,
    /// Whether the request had to wait for it.
    pub has_waited: bool,
}

/// A request would have to wait for too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PaceRefusal {
    /// When it would not have to wait, in milliseconds.
    pub retry_after_ms: i64,
}

impl PaceBook {
    /// The paces of platforms with these rules.
    pub fn new(rules: &PerPlatform<PaceRule>) -> Self {
        let rules = rules.iter().filter(|(_, rule)| rule.is_paced());
        Self {
            rules: rules.map(|(platform, rule)| (platform, *rule)).collect(),
            accounts: Mutex::default(),
            nodes: Arc::new(AtomicU32::new(1)),
        }
    }

    /// The pace of an account; `None` if its platform is not paced.
    pub fn of(
        &self,
        platform: Platform,
        customer: CustomerId,
        creator: &CreatorId,
    ) -> Option<Arc<AccountPace>> {
        let rule = *self.rules.get(platform)?;
        let mut accounts = self.accounts.lock();
        let key = (customer, creator.clone());
        // An account may be connected to another platform than before.
        if let Some(pace) = accounts.get(&key).filter(|pace| pace.platform == platform) {
            return Some(Arc::clone(pace));
        }
        let pace = Arc::new(AccountPace::new(platform, rule, Arc::clone(&self.nodes)));
        if accounts.len() < ACCOUNTS_MAX {
            accounts.insert(key, Arc::clone(&pace));
        }
        Some(pace)
    }

    /// Whether nodes share quotas, so that their number must be known.
    pub fn needs_nodes(&self) -> bool {
        self.rules.iter().any(|(_, rule)| rule.divide_by_nodes)
    }

    /// Sets the number of nodes that share the quotas.
    pub fn set_nodes(&self, nodes: u32) {
        self.nodes.store(nodes.max(1), Ordering::Relaxed);
    }

    /// Forgets accounts without recent requests. Called by housekeeping.
    pub fn forget_idle(&self, now: Timestamp) {
        let mut accounts = self.accounts.lock();
        accounts.retain(|_, pace| Arc::strong_count(pace) > 1 || !pace.is_idle(now));
        accounts.shrink_to_fit();
    }
}

impl AccountPace {
    fn new(platform: Platform, rule: PaceRule, nodes: Arc<AtomicU32>) -> Self {
        Self {
            platform,
            rule,
            nodes,
            reads: PaceBucket::default(),
            writes: PaceBucket::default(),
            sensitive: PaceBucket::default(),
        }
    }

    /// The rule of its platform.
    pub const fn rule(&self) -> &PaceRule {
        &self.rule
    }

    /// Takes a slot, after waiting for it at most `patience_ms`. A future that is dropped meanwhile
    /// leaves its place to those behind it.
    pub async fn take(
        self: &Arc<Self>,
        class: PaceClass,
        patience_ms: i64,
        clock: &Clock,
    ) -> Result<PaceSlot, PaceRefusal> {
        let patience = patience_ms.saturating_mul(MICROS_PER_MILLI);
        let (bucket, began) = (self.bucket(class), clock.now());
        {
            let mut state = bucket.state.lock();
            let quota = self.quota(class);
            if state.waiting == 0 && state.take(quota, began) {
                return Ok(self.slot(class, false));
            }
            let wait = state.wait_micros(quota, began, i64::from(state.waiting) + 1);
            if patience < wait || WAITING_MAX <= state.waiting {
                return Err(self.refuse(class, wait));
            }
            state.waiting += 1;
        }
        let _waiting = WaitingPlace(bucket);
        metrics::pace_waited(self.platform, class.as_str());
        let until = began.plus_micros(patience.saturating_add(GRACE_MICROS));
        let _next = bucket.next.lock().await;
        loop {
            let now = clock.now();
            let wait = {
                let mut state = bucket.state.lock();
                let quota = self.quota(class);
                if state.take(quota, now) {
                    return Ok(self.slot(class, true));
                }
                state.wait_micros(quota, now, 1)
            };
            let then = now.plus_micros(wait);
            if until < then {
                return Err(self.refuse(class, wait));
            }
            clock.sleep_until(then).await;
        }
    }

    /// Counts a request that does not wait for its turn; later ones wait for it instead.
    pub fn charge(&self, class: PaceClass, now: Timestamp) {
        let mut state = self.bucket(class).state.lock();
        let quota = self.quota(class);
        state.paid_off_at = state.owed_until(quota, now).saturating_add(quota.unit_micros);
    }

    /// Gives back a slot whose request is not sent after all.
    pub fn give_back(&self, class: PaceClass) {
        let unit = self.quota(class).unit_micros;
        let mut state = self.bucket(class).state.lock();
        state.paid_off_at = state.paid_off_at.saturating_sub(unit);
    }

    fn slot(self: &Arc<Self>, class: PaceClass, has_waited: bool) -> PaceSlot {
        PaceSlot { pace: Arc::clone(self), class, is_spent: false, has_waited }
    }

    fn refuse(&self, class: PaceClass, wait_micros: i64) -> PaceRefusal {
        metrics::pace_refused(self.platform, class.as_str());
        PaceRefusal { retry_after_ms: (wait_micros / MICROS_PER_MILLI).max(1) }
    }

    const fn bucket(&self, class: PaceClass) -> &PaceBucket {
        match class {
            PaceClass::Reads => &self.reads,
            PaceClass::Writes => &self.writes,
            PaceClass::Sensitive => &self.sensitive,
        }
    }

    /// This node's quota.
    fn quota(&self, class: PaceClass) -> PaceQuota {
        let all = self.rule.quota(class).unwrap_or(PaceQuota { unit_micros: 0, burst: 1 });
        if !self.rule.divide_by_nodes {
            return all;
        }
        let nodes = self.nodes.load(Ordering::Relaxed).max(1);
        PaceQuota {
            unit_micros: all.unit_micros.saturating_mul(i64::from(nodes)),
            burst: (all.burst / nodes).max(1),
        }
    }

    /// Whether its buckets are full and nothing waits.
    fn is_idle(&self, now: Timestamp) -> bool {
        [&self.reads, &self.writes, &self.sensitive].into_iter().all(|bucket| {
            let state = bucket.state.lock();
            state.waiting == 0 && state.paid_off_at <= now.unix_micros()
        })
    }
}

impl BucketState {
    /// Takes one unit if there is one.
    fn take(&mut self, quota: PaceQuota, now: Timestamp) -> bool {
        let is_free = self.wait_micros(quota, now, 1) == 0;
        if is_free {
            self.paid_off_at = self.owed_until(quota, now).saturating_add(quota.unit_micros);
        }
        is_free
    }

    /// How long until the last of `units` more units is available.
    fn wait_micros(&self, quota: PaceQuota, now: Timestamp, units: i64) -> i64 {
        let after = self.owed_until(quota, now) + quota.unit_micros.saturating_mul(units);
        after.saturating_sub(quota.window_micros()).saturating_sub(now.unix_micros()).max(0)
    }

    /// When the burst is available again. After the clock was set back, this is bounded.
    fn owed_until(&self, quota: PaceQuota, now: Timestamp) -> i64 {
        let owed = quota.unit_micros.saturating_mul(OWED_MAX);
        let most = now.unix_micros() + quota.window_micros().saturating_add(owed);
        self.paid_off_at.clamp(now.unix_micros(), most)
    }
}

impl PaceQuota {
    fn window_micros(self) -> i64 {
        self.unit_micros.saturating_mul(i64::from(self.burst))
    }
}

impl PaceSlot {
    /// The request is sent.
    pub fn spend(mut self) {
        self.is_spent = true;
    }
}

impl Drop for PaceSlot {
    fn drop(&mut self) {
        if !self.is_spent {
            self.pace.give_back(self.class);
        }
    }
}

/// A request among those that wait; dropping it leaves them.
struct WaitingPlace<'a>(&'a PaceBucket);

impl Drop for WaitingPlace<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.waiting = state.waiting.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUOTA: PaceQuota = PaceQuota { unit_micros: 500_000, burst: 2 };

    fn clock() -> Clock {
        Clock::manual(Timestamp::from_unix_micros(0).plus_seconds(1_000))
    }

    fn book(rule: PaceRule) -> PaceBook {
        PaceBook::new(&[(Platform::ALPHA, rule)].into_iter().collect())
    }

    fn pace_in(book: &PaceBook) -> Arc<AccountPace> {
        let customer = CustomerId::new(Timestamp::from_unix_micros(0), [1; 10]);
        book.of(Platform::ALPHA, customer, &"ada".parse().unwrap()).unwrap()
    }

    fn pace(max_wait_ms: i64) -> Arc<AccountPace> {
        pace_in(&book(PaceRule { reads: Some(QUOTA), max_wait_ms, ..PaceRule::default() }))
    }

    async fn takes(pace: &Arc<AccountPace>, patience_ms: i64, clock: &Clock) -> Option<i64> {
        match pace.take(PaceClass::Reads, patience_ms, clock).await {
            Ok(slot) => {
                slot.spend();
                None
            }
            Err(refusal) => Some(refusal.retry_after_ms),
        }
    }

    #[tokio::test]
    async fn a_burst_passes_and_further_requests_are_told_when_to_come() {
        let (pace, clock) = (pace(0), clock());

        assert_eq!(takes(&pace, 0, &clock).await, None);
        assert_eq!(takes(&pace, 0, &clock).await, None);
        assert_eq!(takes(&pace, 0, &clock).await, Some(500));
        clock.advance_seconds(1);
        assert_eq!(takes(&pace, 0, &clock).await, None);
        assert_eq!(takes(&pace, 0, &clock).await, None);
        assert_eq!(takes(&pace, 0, &clock).await, Some(500));
    }

    #[tokio::test]
    async fn waiting_requests_pass_in_the_order_of_arrival() {
        let (pace, clock) = (pace(0), clock());
        for _ in 0..2 {
            takes(&pace, 0, &clock).await;
        }
        let passed = Arc::new(Mutex::new(Vec::new()));
        let mut waiting = tokio::task::JoinSet::new();
        for number in 0..4_u32 {
            let (own, clock, passed) = (Arc::clone(&pace), clock.clone(), Arc::clone(&passed));
            waiting.spawn(async move {
                let refusal = takes(&own, 2_000, &clock).await;
                passed.lock().push((number, refusal));
            });
            while pace.reads.state.lock().waiting <= number {
                tokio::task::yield_now().await;
            }
        }

        assert_eq!(takes(&pace, 2_000, &clock).await, Some(2_500), "there is no room for a fifth");
        clock.advance_seconds(1);
        while passed.lock().len() < 2 {
            tokio::task::yield_now().await;
        }
        // The second has left the queue, so the other two wait alone.
        assert_eq!(*passed.lock(), [(0, None), (1, None)]);
        clock.advance_seconds(1);
        waiting.join_all().await;
        assert_eq!(*passed.lock(), [(0, None), (1, None), (2, None), (3, None)]);
        assert_eq!(pace.reads.state.lock().waiting, 0);
    }

    #[tokio::test]
    async fn a_request_that_leaves_makes_room_for_those_behind_it() {
        let (pace, clock) = (pace(0), clock());
        for _ in 0..2 {
            takes(&pace, 0, &clock).await;
        }
        let mut first = Box::pin(takes(&pace, 1_000, &clock));
        assert!(futures_poll(&mut first).await.is_none());
        assert_eq!(takes(&pace, 999, &clock).await, Some(1_000));

        drop(first);

        assert_eq!(takes(&pace, 0, &clock).await, Some(500));
        assert_eq!(pace.reads.state.lock().waiting, 0);
    }

    /// Polls a future once.
    async fn futures_poll<T>(future: &mut (impl Future<Output = T> + Unpin)) -> Option<T> {
        std::future::poll_fn(|context| {
            std::task::Poll::Ready(match std::pin::Pin::new(&mut *future).poll(context) {
                std::task::Poll::Ready(value) => Some(value),
                std::task::Poll::Pending => None,
            })
        })
        .await
    }

    #[tokio::test]
    async fn an_unspent_slot_is_given_back_and_a_charge_is_waited_for() {
        let (pace, clock) = (pace(0), clock());

        drop(pace.take(PaceClass::Reads, 0, &clock).await.unwrap());
        takes(&pace, 0, &clock).await;
        pace.charge(PaceClass::Reads, clock.now());
        pace.charge(PaceClass::Reads, clock.now());

        assert_eq!(takes(&pace, 0, &clock).await, Some(1_000));
    }

    #[tokio::test]
    async fn nodes_share_a_quota() {
        let rule = PaceRule { reads: Some(QUOTA), divide_by_nodes: true, ..PaceRule::default() };
        let (book, clock) = (book(rule), clock());
        let pace = pace_in(&book);
        assert!(book.needs_nodes());

        book.set_nodes(3);

        assert_eq!(takes(&pace, 0, &clock).await, None);
        assert_eq!(takes(&pace, 0, &clock).await, Some(1_500));
    }

    #[tokio::test]
    async fn paces_are_remembered_until_their_buckets_are_full() {
        let rule = PaceRule { reads: Some(QUOTA), ..PaceRule::default() };
        let (book, clock) = (book(rule), clock());
        takes(&pace_in(&book), 0, &clock).await;

        book.forget_idle(clock.now());
        assert_eq!(book.accounts.lock().len(), 1);
        clock.advance_seconds(1);
        let held = pace_in(&book);
        book.forget_idle(clock.now());
        assert_eq!(book.accounts.lock().len(), 1);
        drop(held);
        book.forget_idle(clock.now());

        assert_eq!(book.accounts.lock().len(), 0);
    }

    #[test]
    fn sensitive_routes_have_a_class_only_if_they_have_a_quota() {
        let rule = PaceRule { writes: Some(QUOTA), ..PaceRule::default() };
        let strict = PaceRule { sensitive: Some(QUOTA), ..rule };

        assert_eq!(rule.class_of(true, true), None);
        assert_eq!(rule.class_of(false, true), Some(PaceClass::Writes));
        assert_eq!(strict.class_of(true, true), Some(PaceClass::Sensitive));
        assert_eq!(strict.class_of(true, false), None);
        let none = PaceBook::new(&[(Platform::ALPHA, PaceRule::default())].into_iter().collect());
        let customer = CustomerId::new(Timestamp::from_unix_micros(0), [1; 10]);
        assert!(none.of(Platform::ALPHA, customer, &"ada".parse().unwrap()).is_none());
    }
}
