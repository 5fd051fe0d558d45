//! Suspended and closed customers: what leads to which state, and what becomes of running exports.

use domain::customer::CustomerState;
use domain::id::CustomerId;
use store::audit::{self, AuditQuery};
use store::customers;
use store::erasure::{self, ErasureMode};
use store::exports::{
    self, ExportActivity, ExportClaimant, ExportProgress, LeaseRenewal, WorkerReport,
};
use store::suspensions::{self, SuspensionOutcome};
use store::{Store, testing};

use crate::exports::{claimed, created, published};
use crate::support::{NOON, TestCaller, assert_sound, entry, new_customer, node};

async fn suspend(store: &Store, customer: CustomerId) -> SuspensionOutcome {
    suspensions::suspend(store, "a test", &entry(customer)).await.unwrap()
}

async fn resume(store: &Store, customer: CustomerId) -> SuspensionOutcome {
    suspensions::resume(store, &entry(customer)).await.unwrap()
}

async fn state(store: &Store, customer: CustomerId) -> CustomerState {
    suspensions::find(store, customer).await.unwrap().unwrap().state
}

async fn entries(store: &Store, customer: CustomerId) -> usize {
    let query = AuditQuery { customer, action: "key.", before: None, limit: 99 };
    audit::list(store, &query).await.unwrap().len()
}

#[tokio::test]
async fn a_customer_returns_to_the_state_before_its_suspension() {
    let store = testing::store().await;
    let confirmed =
        customers::NewCustomer { email_verified_at: Some(NOON), ..new_customer("ada@example.com") };
    let unconfirmed = new_customer("bob@example.com");
    for (new, before) in
        [(&confirmed, CustomerState::Active), (&unconfirmed, CustomerState::Unconfirmed)]
    {
        customers::create(&store, new).await.unwrap();
        assert_eq!(state(&store, new.id).await, before);
        assert_eq!(resume(&store, new.id).await, SuspensionOutcome::Repeated);

        assert_eq!(suspend(&store, new.id).await, SuspensionOutcome::Changed);
        assert!(suspensions::is_suspended(&store, new.id).await.unwrap());
        assert_eq!(suspend(&store, new.id).await, SuspensionOutcome::Repeated);
        assert_eq!(resume(&store, new.id).await, SuspensionOutcome::Changed);

        assert_eq!(state(&store, new.id).await, before);
        assert!(!suspensions::is_suspended(&store, new.id).await.unwrap());
        assert_eq!(entries(&store, new.id).await, 2, "only changes are in the audit list");
    }
}

#[tokio::test]
async fn closed_erased_and_unknown_customers_are_neither_suspended_nor_resumed() {
    let store = testing::store().await;
    let closed = TestCaller::with(&store, 0).await.customer;
    customers::disable(&store, closed, NOON).await.unwrap();
    let erased = TestCaller::with(&store, 0).await.customer;
    let by = entry(erased);
    erasure::erase(&store, &by, ErasureMode::Commit, &|_| Vec::new()).await.unwrap();
    let unknown = new_customer("nobody@example.com").id;

    for (customer, expected) in [
        (closed, SuspensionOutcome::Closed(CustomerState::Closed)),
        (erased, SuspensionOutcome::Closed(CustomerState::Erased)),
        (unknown, SuspensionOutcome::NoCustomer),
    ] {
        assert_eq!(suspend(&store, customer).await, expected);
        assert_eq!(resume(&store, customer).await, expected);
        assert!(!suspensions::is_suspended(&store, customer).await.unwrap());
    }
    assert_eq!(state(&store, closed).await, CustomerState::Closed);
    assert!(!customers::disable(&store, closed, NOON).await.unwrap());
}

#[tokio::test]
async fn a_suspended_customer_can_be_erased_and_its_reason_goes() {
    let store = testing::store().await;
    let customer = TestCaller::with(&store, 0).await.customer;
    suspend(&store, customer).await;

    let by = entry(customer);
    erasure::erase(&store, &by, ErasureMode::Commit, &|_| Vec::new()).await.unwrap();

    let standing = suspensions::find(&store, customer).await.unwrap().unwrap();
    assert_eq!(standing.state, CustomerState::Erased);
    assert_eq!((standing.suspended_at, standing.suspended_reason), (None, None));
    assert_eq!(standing.erased_at, Some(NOON));
}

#[tokio::test]
async fn a_running_export_is_given_back_and_continues_after_its_customer_is_resumed() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 100).await;
    let running = created(&store, &caller).await;
    let waiting = created(&store, &caller).await;
    let claimant = ExportClaimant {
        node: node(),
        now: NOON,
        lease_until: NOON.plus_seconds(60),
        running_max: 1,
        attempts_max: 1,
    };
    let lease = exports::claim(&store, &claimant).await.unwrap().unwrap().lease;
    assert_eq!(lease.export, running);

    assert_eq!(suspend(&store, caller.customer).await, SuspensionOutcome::Changed);

    let report = WorkerReport {
        progress: ExportProgress::default(),
        doing: ExportActivity::default(),
        has_new_page: true,
    };
    let renewed = exports::renew(&store, &lease, NOON.plus_seconds(90), report).await.unwrap();
    assert_eq!(renewed, LeaseRenewal::Lost);
    assert!(!published(&store, &lease, NOON).await, "its worker can end nothing");
    assert!(exports::claim(&store, &claimant).await.unwrap().is_none());
    let reaped = exports::reap(&store, NOON.plus_seconds(600), 1).await.unwrap();
    assert_eq!((reaped.failed, reaped.cancelled), (0, 0), "it costs no attempt");

    assert_eq!(resume(&store, caller.customer).await, SuspensionOutcome::Changed);
    let again = exports::claim(&store, &claimant).await.unwrap().unwrap();
    assert_eq!((again.lease.export, again.lease.token), (running, lease.token + 1));
    assert_ne!(again.lease.export, waiting);
    assert!(published(&store, &again.lease, NOON).await);
    assert_sound(&store).await;
}

#[tokio::test]
async fn a_suspended_customers_waiting_export_takes_no_worker_from_others() {
    let store = testing::store().await;
    let (caller, other) =
        (TestCaller::with(&store, 100).await, TestCaller::with(&store, 100).await);
    for _ in 0..2 {
        created(&store, &caller).await;
    }
    claimed(&store, NOON).await.unwrap();
    let second = claimed(&store, NOON.plus_seconds(1)).await.unwrap();
    let now = NOON.plus_seconds(2);
    let gives_way = async || exports::gives_way(&store, &second, now).await.unwrap();
    assert!(!gives_way().await);

    created(&store, &other).await;
    assert!(gives_way().await);
    suspend(&store, other.customer).await;
    assert!(!gives_way().await, "nobody may work on it");
    resume(&store, other.customer).await;

    assert!(gives_way().await);
}
