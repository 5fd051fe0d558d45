//! Exports in the store: credits are held and settled once, leases fence, files are published once.

use domain::account::CreatorId;
use domain::credits::Credits;
use domain::dataset::DatasetName;
use domain::export::{ExportCredits, ExportFormat, ExportPhase, ExportRemoval, ExportState};
use domain::id::{ExportId, NodeId};
use domain::platform::Platform;
use domain::time::Timestamp;
use store::exports::{
    self, ExportActivity, ExportCancellation, ExportClaimant, ExportCreation, ExportDeletion,
    ExportFailure, ExportLease, ExportList, ExportOutput, ExportProgress, ExportPublication,
    LeaseRenewal, NewExport, ReapedExports, WorkerReport,
};
use store::idempotency::{ExistingRequest, StoredAnswer};
use store::keys::NewKey;
use store::ledger_pages::{self, LedgerQuery};
use store::metering::{HoldOutcome, IdempotencyClaim};
use store::usage::{self, UsageOf};
use store::{Store, testing};

use crate::support::{
    NOON, TestCaller, TestMetering, assert_sound, create_key, credits, fresh_secret, is_held,
    new_account, new_key, node, unique,
};

const COST: i64 = 10;

pub(crate) fn new_export(caller: &TestCaller) -> NewExport {
    NewExport {
        id: ExportId::new(NOON, unique()),
        customer: caller.customer,
        key: caller.key,
        key_hash: caller.key_hash,
        account: caller.account.clone(),
        platform: Platform::ALPHA,
        dataset: DatasetName::Subscribers,
        format: ExportFormat::Csv,
        csv_bom: false,
        columns: None,
        params: "{}".to_owned(),
        start_date: None,
        end_date: None,
        max_rows: None,
        cost: credits(COST),
        created_at: NOON,
        pending_max: 20,
        tag: None,
        idempotency: None,
    }
}

/// Creates an export, which must succeed.
pub(crate) async fn created(store: &Store, caller: &TestCaller) -> ExportId {
    let new = new_export(caller);
    let creation = exports::create(store, &new).await.unwrap();
    assert!(matches!(creation, ExportCreation::Created { .. }), "{creation:?}");
    new.id
}

fn claimant(now: Timestamp) -> ExportClaimant {
    ExportClaimant {
        node: node(),
        now,
        lease_until: now.plus_seconds(60),
        running_max: 2,
        attempts_max: 3,
    }
}

pub(crate) async fn claimed(store: &Store, now: Timestamp) -> Option<ExportLease> {
    exports::claim(store, &claimant(now)).await.unwrap().map(|claimed| claimed.lease)
}

fn output(lease: &ExportLease) -> ExportOutput {
    ExportOutput {
        key: format!("exports/{}/{}/data.csv", lease.export, lease.token),
        sha256: "ab".repeat(32),
        bytes: 7,
        rows: 3,
    }
}

const SOME: ExportProgress = ExportProgress { pages: 2, rows: 3, worked_micros: 5 };
const DOING: ExportActivity = ExportActivity {
    phase: Some(ExportPhase::Reading),
    list_rows: Some(9),
    list_rows_read: 4,
    waiting_until: Some(NOON.plus_seconds(7)),
};

const REPORT: WorkerReport = WorkerReport { progress: SOME, doing: DOING, has_new_page: true };

pub(crate) async fn published(store: &Store, lease: &ExportLease, now: Timestamp) -> bool {
    let (output, expires_at) = (output(lease), now.plus_seconds(3_600));
    let publication = ExportPublication { output: &output, now, expires_at };
    exports::publish(store, lease, publication, SOME).await.unwrap()
}

/// Every export of the customer except deleted ones.
fn all_of(caller: &TestCaller) -> ExportList {
    ExportList {
        customer: caller.customer,
        account: None,
        allowed_accounts: Vec::new(),
        platform: None,
        dataset: None,
        state: None,
        before: None,
        limit: 100,
    }
}

fn failure() -> ExportFailure {
    ExportFailure { code: "repeated_page".to_owned(), message: "page 2 came twice".to_owned() }
}

/// Available, held and spent.
pub(crate) async fn figures(store: &Store, caller: &TestCaller) -> (i64, i64, i64) {
    let balance = caller.balance(store).await;
    (balance.available.whole(), balance.held.whole(), balance.spent.whole())
}

async fn state(store: &Store, caller: &TestCaller, id: ExportId) -> ExportState {
    exports::find(store, id, caller.customer).await.unwrap().unwrap().state
}

const fn reaped(failed: u64, cancelled: u64) -> ReapedExports {
    ReapedExports { failed, cancelled }
}

#[tokio::test]
async fn credits_are_held_at_creation_and_charged_with_the_file() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 25).await;
    let id = created(&store, &caller).await;
    assert_eq!(figures(&store, &caller).await, (15, COST, 0));
    let lease = claimed(&store, NOON).await.unwrap();

    assert!(published(&store, &lease, NOON).await);

    assert_eq!(figures(&store, &caller).await, (15, 0, COST));
    let export = exports::find(&store, id, caller.customer).await.unwrap().unwrap();
    assert_eq!((export.state, export.credits), (ExportState::Completed, ExportCredits::Settled));
    assert_eq!(export.output, Some(output(&lease)));
    assert_eq!(claimed(&store, NOON.plus_seconds(1_000)).await, None);
    assert_sound(&store).await;
}

#[tokio::test]
async fn a_failed_export_costs_nothing() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 10).await;
    let id = created(&store, &caller).await;
    let lease = claimed(&store, NOON).await.unwrap();

    assert!(exports::fail(&store, &lease, NOON, &failure(), SOME).await.unwrap());

    assert_eq!(figures(&store, &caller).await, (10, 0, 0));
    let export = exports::find(&store, id, caller.customer).await.unwrap().unwrap();
    assert_eq!((export.state, export.error), (ExportState::Failed, Some(failure())));
    assert!(!published(&store, &lease, NOON).await, "a failed export has no file");
    assert_sound(&store).await;
}

#[tokio::test]
async fn refused_exports_hold_nothing() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 9).await;
    let create = async |new: NewExport| exports::create(&store, &new).await.unwrap();

    let broke = create(new_export(&caller)).await;
    assert_eq!(broke, ExportCreation::Insufficient { balance: credits(9) });
    let elsewhere = NewExport { platform: Platform::BETA, ..new_export(&caller) };
    assert_eq!(create(elsewhere).await, ExportCreation::NoAccount);
    let unknown = NewExport { account: "eve".parse().unwrap(), ..new_export(&caller) };
    assert_eq!(create(unknown).await, ExportCreation::NoAccount);
    let rotated = NewExport { key_hash: fresh_secret().hash, ..new_export(&caller) };
    assert_eq!(create(rotated).await, ExportCreation::KeyRefused);
    let second = new_account(caller.customer, "other");
    store::accounts::connect(&store, &second).await.unwrap();
    let limited = NewKey { accounts: vec!["other".parse().unwrap()], ..new_key(fresh_secret()) };
    create_key(&store, caller.customer, &limited).await;
    let by_limited =
        NewExport { key: limited.id, key_hash: limited.secret.hash, ..new_export(&caller) };
    assert_eq!(create(by_limited).await, ExportCreation::NoAccount);

    assert_eq!(figures(&store, &caller).await, (9, 0, 0));
    assert_sound(&store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_concurrent_exports_leave_twenty_waiting_and_two_running() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 10_000).await;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..100 {
        let (store, new) = ((*store).clone(), new_export(&caller));
        tasks.spawn(async move { exports::create(&store, &new).await.unwrap() });
    }
    let made = tasks.join_all().await;
    let refused =
        made.iter().filter(|creation| **creation == ExportCreation::TooManyPending).count();
    assert_eq!(refused, 80);
    assert_eq!(figures(&store, &caller).await, (9_800, 200, 0));

    let mut claims = tokio::task::JoinSet::new();
    for _ in 0..10 {
        let store = (*store).clone();
        claims.spawn(async move { exports::claim(&store, &claimant(NOON)).await.unwrap() });
    }
    let running = claims.join_all().await.into_iter().flatten().count();

    assert_eq!(running, 2);
    assert_eq!(exports::count(&store).await.unwrap().running, 2);
    assert_sound(&store).await;
}

#[tokio::test]
async fn customers_share_workers_fairly() {
    let store = testing::store().await;
    let (busy, late) = (TestCaller::with(&store, 100).await, TestCaller::with(&store, 100).await);
    for _ in 0..3 {
        created(&store, &busy).await;
    }
    created(&store, &late).await;

    let first = claimed(&store, NOON).await.unwrap();
    let second = claimed(&store, NOON).await.unwrap();
    let third = claimed(&store, NOON).await.unwrap();

    assert_eq!(first.customer, busy.customer);
    assert_eq!(second.customer, late.customer, "a customer's second export does not delay others");
    assert_eq!(third.customer, busy.customer);
    assert_eq!(
        claimed(&store, NOON).await,
        None,
        "at most two exports of a customer run concurrently"
    );
}

#[tokio::test]
async fn a_worker_without_its_lease_changes_nothing() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 10).await;
    let id = created(&store, &caller).await;
    let stalled = claimed(&store, NOON).await.unwrap();
    let later = NOON.plus_seconds(61);
    assert_eq!(claimed(&store, NOON.plus_seconds(59)).await, None, "it is leased");
    assert_eq!(claimed(&store, later).await, None, "the time alone ends no lease");
    assert_eq!(testing::take_over(&store, later).await.unwrap().leases, 1);
    // Nobody's, though no other worker has claimed it yet.
    assert!(!published(&store, &stalled, later).await);

    let successor = claimed(&store, later).await.unwrap();

    assert_eq!(successor.token, stalled.token + 1);
    assert!(!published(&store, &stalled, later).await);
    assert!(!exports::fail(&store, &stalled, later, &failure(), SOME).await.unwrap());
    assert!(!exports::give_back(&store, &stalled, later, SOME).await.unwrap());
    let until = later.plus_seconds(60);
    let renewed = exports::renew(&store, &stalled, until, REPORT).await.unwrap();
    assert_eq!(renewed, LeaseRenewal::Lost);
    assert!(published(&store, &successor, later).await);
    assert!(!published(&store, &successor, later).await, "a file is published once");
    assert_eq!(state(&store, &caller, id).await, ExportState::Completed);
    assert_eq!(figures(&store, &caller).await, (0, 0, COST));
    assert_sound(&store).await;
}

#[tokio::test]
async fn renewing_a_lease_extends_it_and_records_progress() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 10).await;
    let id = created(&store, &caller).await;
    let lease = claimed(&store, NOON).await.unwrap();
    let until = NOON.plus_seconds(110);

    let renewed = exports::renew(&store, &lease, until, REPORT).await.unwrap();

    assert_eq!(renewed, LeaseRenewal::Kept);
    testing::take_over(&store, NOON.plus_seconds(100)).await.unwrap();
    assert_eq!(claimed(&store, NOON.plus_seconds(100)).await, None);
    let export = exports::find(&store, id, caller.customer).await.unwrap().unwrap();
    assert_eq!((export.pages, export.rows_read, export.worked_micros), (2, 3, 5));
    assert!(published(&store, &lease, NOON.plus_seconds(100)).await);
}

#[tokio::test]
async fn three_claims_without_a_new_page_end_the_export_free() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 10).await;
    let id = created(&store, &caller).await;
    let mut now = NOON;
    // One claim with progress, then three without.
    let lease = claimed(&store, now).await.unwrap();
    let until = now.plus_seconds(60);
    exports::renew(&store, &lease, until, REPORT).await.unwrap();
    for _ in 0..3 {
        now = now.plus_seconds(61);
        testing::take_over(&store, now).await.unwrap();
        assert_eq!(exports::reap(&store, now, 3).await.unwrap(), reaped(0, 0));
        assert!(claimed(&store, now).await.is_some());
    }

    now = now.plus_seconds(61);
    testing::take_over(&store, now).await.unwrap();
    assert_eq!(claimed(&store, now).await, None);
    assert_eq!(exports::reap(&store, now, 3).await.unwrap(), reaped(1, 0));

    let export = exports::find(&store, id, caller.customer).await.unwrap().unwrap();
    assert_eq!(export.error.unwrap().code, "worker_lost");
    assert_eq!(figures(&store, &caller).await, (10, 0, 0));
    assert_sound(&store).await;
}

#[tokio::test]
async fn a_returned_lease_is_free_immediately_and_counts_no_attempt() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 10).await;
    created(&store, &caller).await;
    for _ in 0..5 {
        let lease = claimed(&store, NOON).await.unwrap();
        assert!(exports::give_back(&store, &lease, NOON, SOME).await.unwrap());
    }
    assert_eq!(exports::reap(&store, NOON, 3).await.unwrap(), reaped(0, 0));

    let lease = claimed(&store, NOON).await.unwrap();

    assert_eq!(lease.token, 6);
    assert!(published(&store, &lease, NOON).await);
}

#[tokio::test]
async fn a_restarted_node_releases_the_leases_it_left() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 10).await;
    let other = NodeId::new(NOON, unique());
    store.act_as(node());
    created(&store, &caller).await;
    let before = claimed(&store, NOON).await.unwrap();
    let beside = Store::open(store.options()).await;
    if let Ok(beside) = &beside {
        beside.act_as(other);
        assert_eq!(store::leases::release_left(beside).await.unwrap(), 0);
    }
    assert_eq!(beside.is_ok(), store.database() == store::DatabaseKind::Postgres);

    assert_eq!(store::leases::release_left(&store).await.unwrap(), 1);

    assert_eq!(claimed(&store, NOON).await.unwrap().token, before.token + 1);
}

#[tokio::test]
async fn a_cancellation_is_free_before_the_first_page_and_charged_after_it() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 30).await;
    let cancel = async |id| exports::cancel(&store, caller.customer, id, NOON).await.unwrap();

    let pending = created(&store, &caller).await;
    assert!(matches!(cancel(pending).await, ExportCancellation::Cancelled(_)));
    assert_eq!(figures(&store, &caller).await, (30, 0, 0));
    assert_eq!(cancel(pending).await, ExportCancellation::Over(ExportState::Cancelled));

    let early = created(&store, &caller).await;
    let lease = claimed(&store, NOON).await.unwrap();
    assert!(matches!(cancel(early).await, ExportCancellation::Stopping(_)));
    assert!(
        matches!(cancel(early).await, ExportCancellation::Stopping(_)),
        "a repeated cancellation"
    );
    assert!(!published(&store, &lease, NOON).await, "an export being cancelled gets no file");
    let renewed = exports::renew(
        &store,
        &lease,
        NOON.plus_seconds(60),
        WorkerReport { progress: ExportProgress::default(), has_new_page: false, ..REPORT },
    )
    .await;
    assert_eq!(renewed.unwrap(), LeaseRenewal::Cancelling);
    let none = ExportProgress::default();
    assert!(exports::end_cancelled(&store, &lease, NOON, none).await.unwrap());
    assert_eq!(figures(&store, &caller).await, (30, 0, 0));

    let late = created(&store, &caller).await;
    let begun = claimed(&store, NOON).await.unwrap();
    assert!(matches!(cancel(late).await, ExportCancellation::Stopping(_)));
    assert!(exports::end_cancelled(&store, &begun, NOON, SOME).await.unwrap());
    assert!(!exports::end_cancelled(&store, &begun, NOON, SOME).await.unwrap());
    assert_eq!(figures(&store, &caller).await, (20, 0, COST));
    assert_eq!(state(&store, &caller, late).await, ExportState::Cancelled);
    assert_sound(&store).await;
}

#[tokio::test]
async fn a_dead_workers_canceled_export_ends_after_its_lease() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 10).await;
    let id = created(&store, &caller).await;
    let lease = claimed(&store, NOON).await.unwrap();
    let until = NOON.plus_seconds(60);
    exports::renew(&store, &lease, until, REPORT).await.unwrap();
    exports::cancel(&store, caller.customer, id, NOON).await.unwrap();
    assert_eq!(
        exports::reap(&store, NOON, 3).await.unwrap(),
        reaped(0, 0),
        "it may still be alive"
    );
    assert_eq!(exports::reap(&store, until, 3).await.unwrap(), reaped(0, 0));
    testing::take_over(&store, until).await.unwrap();

    assert_eq!(exports::reap(&store, until, 3).await.unwrap(), reaped(0, 1));

    assert_eq!(state(&store, &caller, id).await, ExportState::Cancelled);
    assert_eq!(figures(&store, &caller).await, (0, 0, COST));
    assert_sound(&store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancellation_racing_with_the_publication_leaves_one_of_them() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 10_000).await;
    let mut completed = 0;
    for round in 0..100 {
        let id = created(&store, &caller).await;
        let lease = claimed(&store, NOON).await.unwrap();
        let (one, other) = ((*store).clone(), (*store).clone());
        let customer = caller.customer;
        let publish = async move { published(&one, &lease, NOON).await };
        let cancel = async move { exports::cancel(&other, customer, id, NOON).await.unwrap() };
        let (is_published, cancelling) = if round % 2 == 0 {
            tokio::join!(publish, cancel)
        } else {
            let (cancelling, is_published) = tokio::join!(cancel, publish);
            (is_published, cancelling)
        };

        let is_stopping = matches!(cancelling, ExportCancellation::Stopping(_));
        assert_ne!(is_published, is_stopping, "{cancelling:?}");
        if is_stopping {
            assert!(exports::end_cancelled(&store, &lease, NOON, SOME).await.unwrap());
        }
        let export = exports::find(&store, id, caller.customer).await.unwrap().unwrap();
        assert_eq!(export.output.is_some(), is_published);
        completed += u64::from(is_published);
    }
    assert!(completed > 0, "publishing won at least once");
    assert_sound(&store).await;
}

#[tokio::test]
async fn a_repeated_request_returns_the_same_export_even_without_credits() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, COST).await;
    let claim = IdempotencyClaim {
        key_hash: [1; 32],
        fingerprint: [2; 32],
        identity: None,
        expires_at: NOON.plus_seconds(86_400),
    };
    let answer = StoredAnswer { status: 201, sealed: vec![1, 2] };
    let first = NewExport { idempotency: Some((claim, answer.clone())), ..new_export(&caller) };
    let again = NewExport { id: ExportId::new(NOON, unique()), ..first.clone() };
    let made = exports::create(&store, &first).await.unwrap();
    assert_eq!(made, ExportCreation::Created { balance: Credits::ZERO });

    let repeated = exports::create(&store, &again).await.unwrap();

    assert_eq!(repeated, ExportCreation::Repeated(ExistingRequest::Replay(answer.clone())));
    let changed = IdempotencyClaim { fingerprint: [3; 32], ..claim };
    let other = NewExport { idempotency: Some((changed, answer)), ..again };
    let refused = exports::create(&store, &other).await.unwrap();
    assert_eq!(refused, ExportCreation::Repeated(ExistingRequest::OtherRequest));
    assert_eq!(figures(&store, &caller).await, (0, COST, 0));
    assert_sound(&store).await;
}

#[tokio::test]
async fn exports_and_calls_share_a_keys_budget() {
    let store = testing::store().await;
    let owner = TestCaller::with(&store, 100).await;
    let key = NewKey { monthly_budget: Some(credits(15)), ..new_key(fresh_secret()) };
    create_key(&store, owner.customer, &key).await;
    let caller = TestCaller { key: key.id, key_hash: key.secret.hash, ..owner };
    let metering = TestMetering::start(&store).await;
    let id = created(&store, &caller).await;

    let second = exports::create(&store, &new_export(&caller)).await.unwrap();
    assert!(
        matches!(second, ExportCreation::BudgetExhausted { used, .. } if used == credits(COST)),
        "{second:?}"
    );
    assert!(is_held(&metering.hold(caller.hold(5)).await));
    let call = metering.hold(caller.hold(1)).await;
    assert!(matches!(call, HoldOutcome::BudgetExhausted { .. }), "{call:?}");
    exports::cancel(&store, caller.customer, id, NOON).await.unwrap();

    assert!(is_held(&metering.hold(caller.hold(10)).await), "a refund returns to the budget");
    assert_sound(&store).await;
}

/// On SQLite a read is sent on the in-memory balance alone; an export must not take the same
/// credits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_calls_and_exports_never_spend_the_same_credits() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 100).await;
    let metering = TestMetering::start(&store).await;
    let mut exports_made = tokio::task::JoinSet::new();
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let (store, new) = ((*store).clone(), new_export(&caller));
        exports_made.spawn(async move { exports::create(&store, &new).await.unwrap() });
        for _ in 0..10 {
            let (meter, hold) = (metering.meter.clone(), caller.hold(1));
            calls.spawn(async move {
                match meter.reserve(hold).await {
                    Ok(mut reservation) => Some(reservation.durable().await),
                    Err(_) => None,
                }
            });
        }
    }

    let made = exports_made.join_all().await;
    let held = calls.join_all().await.into_iter().flatten().collect::<Vec<_>>();

    let made = made.iter().filter(|made| matches!(made, ExportCreation::Created { .. })).count();
    let reserved_in_vain =
        held.iter().filter(|outcome| matches!(outcome, HoldOutcome::Insufficient { .. }));
    if store.database() == store::DatabaseKind::Sqlite {
        assert_eq!(reserved_in_vain.count(), 0, "reserved credits are available");
    }
    let calls_held = held.iter().filter(|outcome| is_held(outcome)).count();
    let (available, in_hold, _) = figures(&store, &caller).await;
    assert_eq!(in_hold, i64::try_from(made * 10 + calls_held).unwrap());
    assert_eq!(available + in_hold, 100);
    assert_sound(&store).await;
}

#[tokio::test]
async fn charged_exports_appear_in_spend_daily_usage_and_ledger() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 100).await;
    for _ in 0..2 {
        created(&store, &caller).await;
        let lease = claimed(&store, NOON).await.unwrap();
        assert!(published(&store, &lease, NOON).await);
    }
    let open = created(&store, &caller).await;

    let today = NOON.day();
    let everything = UsageOf { customer: caller.customer, key: None, only_allowed: false };
    let spend = usage::overview(&store, everything, today).await.unwrap().unwrap().spend;
    assert_eq!((spend.today, spend.last_30_days), (credits(20), credits(20)));
    let of = UsageOf { customer: caller.customer, key: Some(caller.key), only_allowed: false };
    let [day] = &usage::daily(&store, of, today, 1).await.unwrap()[..] else { panic!() };
    assert_eq!((day.calls, day.exports, day.credits), (0, 2, credits(20)));
    let query =
        LedgerQuery { of: everything, kind: Some("export"), before: None, limit: 10, now: NOON };
    let entries = ledger_pages::page(&store, &query).await.unwrap().unwrap();
    let sums: Vec<_> =
        entries.iter().map(|entry| (entry.amount.whole(), entry.reference.clone())).collect();
    assert_eq!(sums, [(-20, Some(today.to_string()))]);
    exports::cancel(&store, caller.customer, open, NOON).await.unwrap();
    assert_sound(&store).await;
}

#[tokio::test]
async fn only_ended_exports_can_be_deleted_and_are_then_hidden() {
    let store = testing::store().await;
    let (caller, other) = (TestCaller::with(&store, 30).await, TestCaller::with(&store, 0).await);
    let id = created(&store, &caller).await;
    let delete = async |customer| {
        exports::delete(&store, customer, id, ExportRemoval::ByCustomer, NOON).await.unwrap()
    };
    assert_eq!(delete(caller.customer).await, ExportDeletion::NotOver);
    let lease = claimed(&store, NOON).await.unwrap();
    assert!(published(&store, &lease, NOON).await);
    assert_eq!(delete(other.customer).await, ExportDeletion::NotFound);

    assert_eq!(delete(caller.customer).await, ExportDeletion::Deleted);

    assert_eq!(delete(caller.customer).await, ExportDeletion::NotFound, "a second time");
    assert_eq!(exports::find(&store, id, caller.customer).await.unwrap(), None);
    let cancelling = exports::cancel(&store, caller.customer, id, NOON).await.unwrap();
    assert_eq!(cancelling, ExportCancellation::NotFound);
    let [cleanup] = &exports::due_cleanups(&store, NOON, 10).await.unwrap()[..] else {
        panic!("its file is due for removal")
    };
    assert_eq!((cleanup.export, &cleanup.keep), (id, &None));
    exports::cleaned(&store, cleanup).await.unwrap();
    assert_eq!(exports::due_cleanups(&store, NOON, 10).await.unwrap(), []);
    assert_eq!(figures(&store, &caller).await, (20, 0, COST), "the charge stays recorded");
    assert_sound(&store).await;
}

#[tokio::test]
async fn files_expire_after_their_retention() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 10).await;
    let id = created(&store, &caller).await;
    let lease = claimed(&store, NOON).await.unwrap();
    assert!(published(&store, &lease, NOON).await);
    let [kept] = &exports::due_cleanups(&store, NOON, 10).await.unwrap()[..] else { panic!() };
    assert_eq!(kept.keep, Some(output(&lease).key), "all but the file");
    let end = NOON.plus_seconds(3_600);
    assert_eq!(exports::expire(&store, end.plus_micros(-1)).await.unwrap(), 0);

    assert_eq!(exports::expire(&store, end).await.unwrap(), 1);

    let export = exports::find(&store, id, caller.customer).await.unwrap().unwrap();
    assert_eq!((export.state, export.output), (ExportState::Expired, None));
    let [cleanup] = &exports::due_cleanups(&store, end, 10).await.unwrap()[..] else { panic!() };
    assert_eq!(cleanup.keep, None);
    exports::cleaned(&store, kept).await.unwrap();
    let still = exports::due_cleanups(&store, end, 10).await.unwrap();
    assert_eq!(still.len(), 1, "what has become due since stays due");
    assert_sound(&store).await;
}

#[tokio::test]
async fn the_storage_keeps_open_exports_and_published_files() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 30).await;
    let done = created(&store, &caller).await;
    let lease = claimed(&store, NOON).await.unwrap();
    assert!(published(&store, &lease, NOON).await);
    let open = created(&store, &caller).await;
    let unknown = ExportId::new(NOON, unique());

    let in_use = exports::keeps(&store, &[done, open, unknown]).await.unwrap();

    assert_eq!(in_use.open.into_iter().collect::<Vec<_>>(), [open]);
    assert_eq!(in_use.outputs.into_iter().collect::<Vec<_>>(), [output(&lease).key]);
}

#[tokio::test]
async fn exports_are_listed_newest_first_to_their_own_customer() {
    let store = testing::store().await;
    let (caller, other) = (TestCaller::with(&store, 50).await, TestCaller::with(&store, 50).await);
    let mut made = Vec::new();
    for _ in 0..3 {
        made.push(created(&store, &caller).await);
    }
    created(&store, &other).await;
    let list = async |before, limit| {
        let wanted =
            ExportList { account: Some(caller.account.clone()), before, limit, ..all_of(&caller) };
        let listed = exports::list(&store, &wanted).await.unwrap();
        listed.into_iter().map(|export| export.id).collect::<Vec<_>>()
    };

    assert_eq!(list(None, 2).await, [made[2], made[1]]);
    assert_eq!(list(Some(made[1]), 2).await, [made[0]]);
    let foreign = exports::find(&store, made[0], other.customer).await.unwrap();
    assert_eq!(foreign, None);
}

#[tokio::test]
async fn exports_are_filtered_by_their_properties_and_shown_state() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 50).await;
    let (missing, deleted) = (created(&store, &caller).await, created(&store, &caller).await);
    for _ in 0..2 {
        let lease = claimed(&store, NOON).await.unwrap();
        assert!(published(&store, &lease, NOON).await);
    }
    let waiting = created(&store, &caller).await;
    assert!(exports::note_file(&store, missing, Some(NOON)).await.unwrap());
    exports::delete(&store, caller.customer, deleted, ExportRemoval::BySupport, NOON)
        .await
        .unwrap();
    let list = async |wanted: ExportList| {
        let listed = exports::list(&store, &wanted).await.unwrap();
        listed.into_iter().map(|export| export.id).collect::<Vec<_>>()
    };
    let all = || all_of(&caller);
    let in_state = |state| ExportList { state: Some(state), ..all() };
    let of_those = |allowed: &[&CreatorId]| ExportList {
        allowed_accounts: allowed.iter().copied().cloned().collect(),
        ..all()
    };
    let other: CreatorId = "somebody".parse().unwrap();

    assert_eq!(list(all()).await, [waiting, missing]);
    assert_eq!(list(in_state(ExportState::Pending)).await, [waiting]);
    assert_eq!(list(in_state(ExportState::Completed)).await, []);
    assert_eq!(list(in_state(ExportState::Expired)).await, [missing]);
    assert_eq!(list(in_state(ExportState::Deleted)).await, [deleted]);
    assert_eq!(list(of_those(&[&other, &caller.account])).await, [waiting, missing]);
    assert_eq!(list(of_those(&[&other])).await, []);
    for (platform, found) in [(Platform::ALPHA, 2), (Platform::BETA, 0)] {
        let wanted = ExportList { platform: Some(platform), ..all() };
        assert_eq!(list(wanted).await.len(), found, "{platform}");
    }
    for (dataset, found) in [(DatasetName::Subscribers, 2), (DatasetName::Chats, 0)] {
        let wanted = ExportList { dataset: Some(dataset), ..all() };
        assert_eq!(list(wanted).await.len(), found, "{dataset}");
    }
}

#[tokio::test]
async fn the_reason_for_a_removal_is_kept_and_missing_files_may_return() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 50).await;
    let id = created(&store, &caller).await;
    assert!(!exports::note_file(&store, id, Some(NOON)).await.unwrap(), "it has no file yet");
    let lease = claimed(&store, NOON).await.unwrap();
    assert!(published(&store, &lease, NOON).await);
    let seen = async || {
        let export = exports::find(&store, id, caller.customer).await.unwrap().unwrap();
        let removal = export.removal.map(|removal| (removal.reason, removal.at));
        (export.state, export.shown_state(), removal)
    };
    let note = async |since| exports::note_file(&store, id, since).await.unwrap();
    let later = NOON.plus_seconds(5);

    assert_eq!(seen().await, (ExportState::Completed, ExportState::Completed, None));
    assert!(!note(None).await, "it was not missing");
    assert!(note(Some(NOON)).await);
    assert!(!note(Some(later)).await, "it is known to be missing");
    let missing = Some((ExportRemoval::FileMissing, NOON));
    assert_eq!(seen().await, (ExportState::Completed, ExportState::Expired, missing));
    assert!(note(None).await);
    assert_eq!(seen().await.2, None);
    assert!(note(Some(NOON)).await);
    let end = NOON.plus_seconds(3_600);
    assert_eq!(exports::expire(&store, end).await.unwrap(), 1);
    assert_eq!(seen().await, (ExportState::Expired, ExportState::Expired, missing));
    assert!(!note(None).await, "it has expired");

    let next = created(&store, &caller).await;
    let second = claimed(&store, NOON).await.unwrap();
    assert!(published(&store, &second, NOON).await);
    assert_eq!(exports::expire(&store, end).await.unwrap(), 1);
    let expired = exports::find(&store, next, caller.customer).await.unwrap().unwrap();
    let removal = expired.removal.map(|removal| (removal.reason, removal.at));
    assert_eq!(removal, Some((ExportRemoval::Retention, end)));
    assert_sound(&store).await;
}

#[tokio::test]
async fn an_exports_charge_never_changes() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 30).await;
    created(&store, &caller).await;
    let lease = claimed(&store, NOON).await.unwrap();
    assert!(published(&store, &lease, NOON).await);

    let refunded = testing::run_raw(
        &store,
        "update export_jobs set credit_state = 'refunded', state = 'cancelled', output_key = null",
    );
    assert!(refunded.await.is_err());
    let removed = testing::run_raw(&store, "delete from export_jobs");
    assert!(removed.await.is_err());
    let bare = testing::run_raw(&store, "update export_jobs set output_key = null");
    assert!(bare.await.is_err());
}

/// The chosen columns are stored with the export, and deleted with it.
async fn chosen_columns_are_kept_until_the_export_is_removed(database: testing::TestStore) {
    let store: &Store = &database;
    let caller = TestCaller::with(store, 30).await;
    let names = ["id", "a\\.b", "\"é\", '\u{0}", ""].map(str::to_owned).to_vec();
    let chosen = NewExport { columns: Some(names.clone()), ..new_export(&caller) };
    let creation = exports::create(store, &chosen).await.unwrap();
    assert!(matches!(creation, ExportCreation::Created { .. }), "{creation:?}");
    let plain = created(store, &caller).await;
    let columns = async |id| exports::find_of_any(store, id).await.unwrap().unwrap().columns;

    assert_eq!((columns(chosen.id).await, columns(plain).await), (Some(names), None));

    exports::cancel(store, caller.customer, chosen.id, NOON).await.unwrap();
    exports::delete(store, caller.customer, chosen.id, ExportRemoval::ByCustomer, NOON)
        .await
        .unwrap();
    let wanted = ExportList {
        customer: caller.customer,
        account: None,
        allowed_accounts: Vec::new(),
        platform: None,
        dataset: None,
        state: Some(ExportState::Deleted),
        before: None,
        limit: 5,
    };
    let deleted = exports::list(store, &wanted).await.unwrap();
    let deleted: Vec<_> = deleted.into_iter().map(|one| (one.id, one.columns)).collect();
    assert_eq!(deleted, [(chosen.id, None)]);
}

#[tokio::test]
async fn chosen_columns_are_kept_until_the_export_is_removed_on_sqlite() {
    chosen_columns_are_kept_until_the_export_is_removed(testing::sqlite().await).await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn chosen_columns_are_kept_until_the_export_is_removed_on_postgresql() {
    let store = testing::postgres().await;
    chosen_columns_are_kept_until_the_export_is_removed(store).await;
}

#[tokio::test]
async fn a_workers_activity_is_recorded_with_its_renewals() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 25).await;
    let id = created(&store, &caller).await;
    let lease = claimed(&store, NOON).await.unwrap();
    let shown = async || exports::find(&store, id, caller.customer).await.unwrap().unwrap().doing;
    assert_eq!(shown().await, ExportActivity::default());

    exports::renew(&store, &lease, NOON.plus_seconds(60), REPORT).await.unwrap();
    assert_eq!(shown().await, DOING);

    // A postponed export waits until it is claimed again.
    let until = NOON.plus_seconds(45);
    assert!(exports::postpone(&store, &lease, until, SOME).await.unwrap());
    assert_eq!(shown().await, ExportActivity { waiting_until: Some(until), ..DOING });
    claimed(&store, until).await.unwrap();
    assert_eq!(shown().await, ExportActivity { waiting_until: None, ..DOING });
}

#[tokio::test]
async fn the_later_of_two_exports_yields_to_a_customer_without_a_worker() {
    let store = testing::store().await;
    let (busy, other) = (TestCaller::with(&store, 25).await, TestCaller::with(&store, 25).await);
    created(&store, &busy).await;
    created(&store, &busy).await;
    let older = claimed(&store, NOON).await.unwrap();
    let younger = claimed(&store, NOON.plus_seconds(1)).await.unwrap();
    let now = NOON.plus_seconds(20);
    let gives_way = async |lease: &ExportLease, waiting_since| {
        exports::gives_way(&store, lease, waiting_since).await.unwrap()
    };
    assert!(!gives_way(&younger, now).await, "no customer waits");

    let waiting = created(&store, &other).await;

    assert!(!gives_way(&younger, NOON.plus_seconds(-1)).await, "it has not waited long enough");
    assert!(gives_way(&younger, now).await && !gives_way(&older, now).await);
    assert!(exports::give_back(&store, &younger, now, SOME).await.unwrap());
    assert_eq!(
        claimed(&store, now).await.unwrap().export,
        waiting,
        "the waiting customer comes first"
    );
    assert_eq!(claimed(&store, now).await.unwrap().export, younger.export);
    assert!(!gives_way(&older, now).await, "every customer has a worker");
}
