//! Shared by the tests: a customer with a key and an account, and a running metering.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use domain::account::CreatorId;
use domain::charge::Outcome;
use domain::credits::Credits;
use domain::customer::TrialState;
use domain::id::{
    AuditId, CallId, CustomerId, DataKeyId, EntryId, JobId, KeyId, NodeId, RequestId,
};
use domain::job::JobKind;
use domain::key::{KeyHash, KeyScope};
use domain::lots::LotSource;
use domain::method::Method;
use domain::platform::Platform;
use domain::slot::AccountAllowances;
use domain::time::Timestamp;
use store::accounts::{AccountRemoval, ConnectionOutcome, NewAccount, SealedCredentials};
use store::audit::AuditEntry;
use store::authority::ChangeAuthority;
use store::customers::{CustomerCreation, NewCustomer, PasswordHash};
use store::jobs::NewJob;
use store::keys::{KeyCreation, NewKey, NewSecret};
use store::ledger::{CreditGrant, CreditGrantOutcome};
use store::metering::{
    self, CallResolution, EpochRecovery, Hold, HoldOutcome, Meter, MeterOptions,
};
use store::slot_assignment::SlotShift;
use store::usage::CreditBalance;
use store::{Store, keys};
use tokio::task::JoinHandle;

/// Noon, so that a few hours more or less stay within the day.
pub(crate) const NOON: Timestamp = Timestamp::from_unix_micros(1_795_262_400_000_000);

/// How many random sequences a test plays.
pub(crate) fn cases() -> u32 {
    u32::try_from(store::testing::samples(4, 12)).unwrap()
}

/// Bytes that are unique within a test process.
pub(crate) fn unique() -> [u8; 10] {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed).to_be_bytes();
    let mut bytes = [0; 10];
    // The last bytes stay free: the entries that follow an entry take the next numbers.
    bytes[4..8].copy_from_slice(&number);
    bytes
}

pub(crate) fn credits(whole: i64) -> Credits {
    Credits::from_whole(whole)
}

pub(crate) fn creator(id: &str) -> CreatorId {
    id.parse().unwrap()
}

pub(crate) fn node() -> NodeId {
    NodeId::new(NOON, [9; 10])
}

pub(crate) fn secret(number: u8) -> NewSecret {
    NewSecret {
        hash: KeyHash::from_bytes(&[number; 32]).unwrap(),
        shown_prefix: format!("cgw_live_{number:04}"),
        shown_suffix: format!("{number:04}"),
    }
}

pub(crate) fn fresh_secret() -> NewSecret {
    let mut bytes = [0; 32];
    bytes[..10].copy_from_slice(&unique());
    NewSecret { hash: KeyHash::from_bytes(&bytes).unwrap(), ..secret(0) }
}

/// An audit entry about a customer, at `NOON`.
pub(crate) fn entry(customer: CustomerId) -> AuditEntry {
    entry_at(customer, NOON)
}

pub(crate) fn entry_at(customer: CustomerId, at: Timestamp) -> AuditEntry {
    AuditEntry {
        id: AuditId::new(at, unique()),
        customer,
        at,
        actor: "session".to_owned(),
        action: "key.changed".to_owned(),
        details: String::new(),
    }
}

/// Creates an additional key for a customer.
pub(crate) async fn create_key(store: &Store, customer: CustomerId, new: &NewKey) {
    let creation = keys::create(store, customer, new, 100, &entry(customer)).await.unwrap();
    assert_eq!(creation, KeyCreation::Created);
}

pub(crate) fn new_key(secret: NewSecret) -> NewKey {
    NewKey {
        id: KeyId::new(NOON, unique()),
        name: "first".to_owned(),
        secret,
        scope: KeyScope::Full,
        accounts: Vec::new(),
        monthly_budget: None,
        expires_at: None,
    }
}

pub(crate) fn new_customer(email: &str) -> NewCustomer {
    NewCustomer {
        id: CustomerId::new(NOON, unique()),
        email: email.parse().unwrap(),
        name: "Ada".to_owned(),
        password_hash: PasswordHash("$argon2id$".to_owned()),
        email_verified_at: None,
        trial: TrialState::Pending,
        created_at: NOON,
        first_key: new_key(fresh_secret()),
    }
}

pub(crate) fn new_account(customer: CustomerId, creator_id: &str) -> NewAccount {
    NewAccount {
        customer,
        authority: ChangeAuthority::Operator,
        creator_id: creator(creator_id),
        platform: Platform::ALPHA,
        platform_account_id: "4711".to_owned(),
        replaces_identity: false,
        cookies: None,
        credentials: SealedCredentials {
            sealed: vec![1, 2, 3],
            data_key: DataKeyId::new(NOON, [1; 10]),
            scopes: None,
            token_expires_at: None,
        },
        at: NOON,
        allowances: Arc::new(AccountAllowances::of_each(1_000)),
        entry: AuditEntry { action: "account.connected".to_owned(), ..entry(customer) },
    }
}

/// An account to be deleted by the operator.
pub(crate) fn removal<'r>(
    customer: CustomerId,
    creator_id: &'r CreatorId,
    allowances: &'r AccountAllowances,
) -> AccountRemoval<'r> {
    AccountRemoval { customer, authority: ChangeAuthority::Operator, creator_id, allowances }
}

/// Writes no audit entry about other accounts.
pub(crate) fn unnoted(_: &[SlotShift]) -> Option<AuditEntry> {
    None
}

/// A caller: a customer with credits, a key and an account.
#[derive(Debug, Clone)]
pub(crate) struct TestCaller {
    pub(crate) customer: CustomerId,
    pub(crate) key: KeyId,
    pub(crate) key_hash: KeyHash,
    pub(crate) key_version: i64,
    pub(crate) account: CreatorId,
    pub(crate) account_version: i64,
}

impl TestCaller {
    /// Registers a customer and grants it credits.
    pub(crate) async fn with(store: &Store, amount: i64) -> Self {
        let new = new_customer(&format!("c{}@example.com", CustomerId::new(NOON, unique())));
        assert_eq!(store::customers::create(store, &new).await.unwrap(), CustomerCreation::Created);
        let account = new_account(new.id, "ada");
        let connected = store::accounts::connect(store, &account).await.unwrap();
        let ConnectionOutcome::Connected { version, .. } = connected else {
            panic!("{connected:?}");
        };
        if amount > 0 {
            grant(store, new.id, amount).await;
        }
        Self {
            customer: new.id,
            key: new.first_key.id,
            key_hash: new.first_key.secret.hash,
            key_version: 0,
            account: account.creator_id,
            account_version: version,
        }
    }

    /// A hold with this cost for a new call.
    pub(crate) fn hold(&self, cost: i64) -> Hold {
        Hold {
            call_id: CallId::new(NOON, unique()),
            customer: self.customer,
            key: self.key,
            key_hash: self.key_hash,
            key_version: self.key_version,
            account: self.account.clone(),
            account_version: self.account_version,
            platform: Platform::ALPHA,
            method: Method::Get,
            route: Arc::from("users/me"),
            path: "users/me".to_owned(),
            cost: credits(cost),
            held_at: NOON,
            expires_at: NOON.plus_seconds(170),
            request_id: RequestId::new(NOON, unique()).to_string(),
            idempotency: None,
            tag: None,
        }
    }

    pub(crate) async fn balance(&self, store: &Store) -> CreditBalance {
        store::usage::balance(store, self.customer).await.unwrap().unwrap()
    }
}

/// Grants credits from a new source.
pub(crate) async fn grant(store: &Store, customer: CustomerId, amount: i64) {
    let entry = EntryId::new(NOON, unique());
    let source_id = entry.to_string();
    let grant = CreditGrant {
        entry,
        customer,
        amount: credits(amount),
        kind: "gift",
        source: "adj",
        source_id: &source_id,
        reference: None,
        lot: LotSource::Gift,
        expires_at: None,
        at: NOON,
    };
    let granting = store::ledger::grant(store, &grant).await.unwrap();
    assert!(matches!(granting, CreditGrantOutcome::Granted { .. }), "{granting:?}");
}

/// The running metering of one node.
pub(crate) struct TestMetering {
    pub(crate) meter: Meter,
    writer: JoinHandle<()>,
}

impl TestMetering {
    /// Starts after a recovery, as a server does.
    pub(crate) async fn start(store: &Store) -> Self {
        let (metering, _) = Self::recovered(store, node()).await;
        metering
    }

    /// Like `start`, for another node, and returns what the recovery found.
    pub(crate) async fn recovered(store: &Store, node: NodeId) -> (Self, EpochRecovery) {
        let recovery = metering::recover(store, node, NOON).await.unwrap();
        let mut options = MeterOptions::new(node, recovery.epoch);
        // The test machine may be slow; overload has its own tests.
        options.queue_age_max = std::time::Duration::from_mins(1);
        options.read_wait_max = std::time::Duration::from_mins(1);
        (Self::with(store, options), recovery)
    }

    /// Starts with these options.
    pub(crate) fn with(store: &Store, options: MeterOptions) -> Self {
        let (meter, writer) = metering::start(store, options);
        #[expect(clippy::disallowed_methods, reason = "the test waits for it in stop")]
        let writer = tokio::spawn(writer.run());
        Self { meter, writer }
    }

    /// Requests a hold and waits until it is durable.
    pub(crate) async fn hold(&self, hold: Hold) -> HoldOutcome {
        match self.meter.reserve(hold).await {
            Ok(mut reservation) => reservation.durable().await,
            Err(metering::HoldRefusal::Insufficient { balance }) => {
                HoldOutcome::Insufficient { balance }
            }
            Err(refusal) => panic!("{refusal:?}"),
        }
    }

    /// Settles a call with this outcome. True if this settlement counts.
    pub(crate) async fn end(&self, call_id: CallId, outcome: Outcome) -> bool {
        self.meter.resolve(resolution(call_id, outcome)).await
    }

    /// Stops after the writer has finished.
    pub(crate) async fn stop(self) {
        drop(self.meter);
        self.writer.await.unwrap();
    }

    /// Stops immediately, as a crash does.
    pub(crate) async fn crash(self) {
        self.writer.abort();
        drop(self.writer.await);
    }
}

pub(crate) fn resolution(call_id: CallId, outcome: Outcome) -> CallResolution {
    let status = match outcome {
        Outcome::Answered => Some(200),
        Outcome::Upstream401 => Some(401),
        Outcome::Upstream429 => Some(429),
        Outcome::UpstreamNotCarriedOut => Some(425),
        Outcome::Upstream5xx => Some(503),
        _ => None,
    };
    CallResolution {
        call_id,
        outcome,
        status,
        resolved_at: NOON.plus_seconds(1),
        duration_ms: 7,
        upstream_ms: Some(5),
        answer: None,
        frees_key: false,
    }
}

pub(crate) fn is_held(outcome: &HoldOutcome) -> bool {
    matches!(outcome, HoldOutcome::Held { .. })
}

/// Asserts that no ledger rule is violated.
pub(crate) async fn assert_sound(store: &Store) {
    let violations = store::verify::check(store, NOON).await.unwrap();
    assert_eq!(violations, []);
}

/// A job that sends an email.
pub(crate) fn new_job() -> NewJob {
    NewJob {
        id: JobId::new(NOON, unique()),
        kind: JobKind::SendMail,
        payload: "{}".to_owned(),
        created_at: NOON,
    }
}

/// Makes a call that costs this many credits, and is answered.
pub(crate) async fn spend(store: &Store, caller: &TestCaller, amount: i64) {
    let metering = TestMetering::start(store).await;
    let hold = caller.hold(amount);
    assert!(is_held(&metering.hold(hold.clone()).await));
    assert!(metering.end(hold.call_id, Outcome::Answered).await);
    metering.stop().await;
}
