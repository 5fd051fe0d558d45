//! What an erasure leaves in the database: nothing that names a person, everything that the ledger
//! needs, and all other customers as they were.

use std::collections::BTreeSet;

use domain::account::CreatorId;
use domain::id::OfferId;
use domain::slot::SlotChangeKind;
use domain::subscription::SubscriptionStatus::{self, Active, Canceled, PastDue, Unpaid};
use store::ended_subscriptions::{self, EndedSubscription};
use store::erasure::{self, ErasureMode, ErasureObstacle, ErasureOutcome, ErasureReport};
use store::jobs::NewJob;
use store::orders;
use store::subscription_offers::{self, SubscriptionOffer};
use store::{Store, keys, slot_changes, suspensions, testing};

use crate::customer_notices::email;
use crate::payments::{link, ordered, processor_name};
use crate::subscriptions::{allowances, apply, pro};
use crate::support::{NOON, TestCaller, TestMetering, assert_sound, credits, entry, unique};
use crate::whole_customer::{rows_with, whole_customer};

async fn erase(store: &Store, caller: &TestCaller, mode: ErasureMode) -> ErasureOutcome {
    let by = entry(caller.customer);
    erasure::erase(store, &by, mode, &|_| Vec::new()).await.unwrap()
}

async fn erased(store: &Store, caller: &TestCaller) -> ErasureReport {
    match erase(store, caller, ErasureMode::Commit).await {
        ErasureOutcome::Erased(report) => report,
        other => panic!("{other:?}"),
    }
}

async fn refused(store: &Store, caller: &TestCaller) -> Vec<ErasureObstacle> {
    match erase(store, caller, ErasureMode::Preview).await {
        ErasureOutcome::Refused(obstacles) => obstacles,
        ErasureOutcome::Erased(_) => Vec::new(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_erasure_leaves_no_trace_of_a_person_in_any_table() {
    let store = testing::store().await;
    let caller = whole_customer(&store, "countess").await;
    let other = whole_customer(&store, "duchess").await;
    let by = entry(caller.customer);
    suspensions::suspend(&store, "countess was rude", &by).await.unwrap();
    let named: BTreeSet<String> =
        rows_with(&store, "countess").await.into_iter().map(|row| row.table).collect();
    for table in [
        "customers",
        "keys",
        "accounts",
        "sessions",
        "login_networks",
        "mail_links",
        "email_changes",
        "data_keys",
        "export_jobs",
        "jobs",
        "audit",
        "idempotency",
        "cards",
        "order_receipts",
        "invoices",
        "sent_notices",
        "change_previews",
    ] {
        assert!(named.contains(table), "{table} does not name the customer: {named:?}");
    }
    let others = (rows_with(&store, "duchess").await, balance(&store, &other).await);

    erased(&store, &caller).await;

    assert_eq!(rows_with(&store, "countess").await, []);
    assert_eq!((rows_with(&store, "duchess").await, balance(&store, &other).await), others);
    assert_sound(&store).await;
}

async fn balance(store: &Store, caller: &TestCaller) -> String {
    format!("{:?}", caller.balance(store).await)
}

#[tokio::test]
async fn a_preview_reports_what_the_erasure_then_removes() {
    let store = testing::store().await;
    let caller = whole_customer(&store, "countess").await;
    let before = rows_with(&store, "countess").await;

    let preview = erase(&store, &caller, ErasureMode::Preview).await;
    assert_eq!(rows_with(&store, "countess").await, before);
    let report = erased(&store, &caller).await;

    assert_eq!(preview, ErasureOutcome::Erased(report.clone()));
    let rows = |table: &str| report.tables.iter().find(|one| one.table == table).unwrap().rows;
    assert_eq!((rows("sessions"), rows("login_networks")), (3, 3));
    assert_eq!((rows("keys"), rows("key_secrets"), rows("key_accounts")), (2, 2, 1));
    assert_eq!((rows("accounts"), rows("data_keys"), rows("idempotency")), (2, 1, 1));
    assert_eq!((rows("cards"), rows("order_receipts"), rows("invoices")), (1, 1, 1));
    assert_eq!((rows("jobs"), rows("export_jobs"), rows("customers")), (2, 1, 1));
    let accounts: Vec<&str> = report.accounts.iter().map(CreatorId::as_str).collect();
    assert_eq!(accounts, ["ada", "bob"]);
    assert_eq!(report.payers, [processor_name(&caller)]);
}

#[tokio::test]
async fn the_ledger_of_an_erased_customer_stays_exact() {
    let store = testing::store().await;
    let caller = whole_customer(&store, "countess").await;
    let before = caller.balance(&store).await;
    let key = keys::find_by_hash(&store, &caller.key_hash).await.unwrap();
    assert!(key.is_some());

    erased(&store, &caller).await;

    assert_eq!(caller.balance(&store).await, before);
    assert!(before.available > credits(0));
    assert_eq!(keys::find_by_hash(&store, &caller.key_hash).await.unwrap(), None);
    let metering = TestMetering::start(&store).await;
    let held = metering.hold(caller.hold(1)).await;
    assert!(!crate::support::is_held(&held), "{held:?}");
    metering.stop().await;
    assert_sound(&store).await;
}

#[tokio::test]
async fn the_jobs_of_an_erasure_get_the_payers_and_come_with_it() {
    let store = testing::store().await;
    let caller = whole_customer(&store, "countess").await;
    let by = entry(caller.customer);
    let follow = |payers: &[String]| -> Vec<NewJob> {
        assert_eq!(payers, [processor_name(&caller)]);
        payers.iter().map(|payer| NewJob { payload: payer.clone(), ..email() }).collect()
    };

    let modes = [ErasureMode::Preview, ErasureMode::Commit, ErasureMode::Commit];
    let mut waiting = Vec::new();
    for mode in modes {
        erasure::erase(&store, &by, mode, &follow).await.unwrap();
        waiting.push(store::jobs::count(&store).await.unwrap().waiting);
    }

    // The two emails to the customer go, and the job comes once.
    assert_eq!(waiting, [2, 1, 1]);
}

#[tokio::test]
async fn whatever_may_still_be_paid_stops_an_erasure() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 0).await;
    let customer = caller.customer;
    assert_eq!(refused(&store, &caller).await, []);

    let payer = link(&store, &caller).await;
    let order = ordered(&store, &caller, &payer).await;
    assert_eq!(refused(&store, &caller).await, [ErasureObstacle::OpenOrder]);
    let expired = domain::payment::OrderState::Expired;
    orders::close(&store, order.id, expired, None, NOON).await.unwrap();
    assert_eq!(refused(&store, &caller).await, []);

    let offer = SubscriptionOffer {
        id: OfferId::new(NOON, unique()),
        customer,
        plan_id: "pro".to_owned(),
        slots: String::new(),
        session_id: None,
        created_at: NOON,
    };
    assert_eq!(subscription_offers::open(&store, &offer).await.unwrap(), None);
    assert_eq!(refused(&store, &caller).await, [ErasureObstacle::OpenOffer]);

    apply(&store, customer, &pro(Active, 1, 0)).await;
    let items = vec![crate::slot_changes::slots(domain::platform::Platform::ALPHA, 1, 2)];
    let new = crate::slot_changes::change(&store, customer, SlotChangeKind::Raise, items).await;
    slot_changes::start(&store, &new, &allowances()).await.unwrap();
    let all = refused(&store, &caller).await;
    for obstacle in [ErasureObstacle::LiveSubscription, ErasureObstacle::OpenChange] {
        assert!(all.contains(&obstacle), "{all:?}");
    }
    assert_sound(&store).await;
}

#[tokio::test]
async fn only_a_subscription_that_has_ended_lets_its_customer_be_erased() {
    const LIVE: [SubscriptionStatus; 3] = [Active, PastDue, Unpaid];
    let store = testing::store().await;
    for status in LIVE {
        let caller = TestCaller::with(&store, 0).await;
        apply(&store, caller.customer, &pro(status, 0, 0)).await;
        let obstacles = refused(&store, &caller).await;
        assert_eq!(obstacles, [ErasureObstacle::LiveSubscription], "{status}");
    }
    let ended = TestCaller::with(&store, 0).await;
    apply(&store, ended.customer, &pro(Canceled, 0, 0)).await;
    assert_eq!(refused(&store, &ended).await, []);

    // Its last invoices are voided first.
    let subscription = EndedSubscription {
        subscription_id: "sub_1".to_owned(),
        customer: ended.customer,
        processor_customer: processor_name(&ended),
        has_ended: true,
    };
    ended_subscriptions::note(&store, &[subscription], NOON).await.unwrap();
    assert_eq!(refused(&store, &ended).await, [ErasureObstacle::OpenInvoices]);
    ended_subscriptions::settle(&store, "sub_1", NOON).await.unwrap();
    assert_eq!(refused(&store, &ended).await, []);
}

#[tokio::test]
async fn an_open_automatic_charge_stops_an_erasure_until_it_has_failed() {
    let store = testing::store().await;
    let caller = crate::top_ups::wishing(&store, 5_000).await;
    let top_up = crate::top_ups::claim(&store, &caller, NOON).await;

    let open = refused(&store, &caller).await;
    crate::top_ups::decline(&store, &top_up, NOON).await;
    let closed = refused(&store, &caller).await;

    assert_eq!(open, [ErasureObstacle::OpenOrder, ErasureObstacle::OpenTopUp]);
    assert_eq!(closed, []);
}

#[tokio::test]
async fn an_unknown_customer_is_not_erased() {
    let store = testing::store().await;
    let known = TestCaller::with(&store, 0).await;
    let stranger = crate::support::new_customer("nobody@example.com").id;
    let nobody = TestCaller { customer: stranger, ..known.clone() };

    assert_eq!(erase(&store, &nobody, ErasureMode::Commit).await, ErasureOutcome::NoCustomer);

    let standing = suspensions::find(&store, known.customer).await.unwrap().unwrap();
    assert_eq!(standing.erased_at, None);
    assert_eq!(suspensions::find(&store, stranger).await.unwrap(), None);
}

#[tokio::test]
async fn of_concurrent_erasures_one_erases() {
    let store = testing::store().await;
    let caller = whole_customer(&store, "countess").await;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let (shared, caller) = ((*store).clone(), caller.clone());
        tasks.spawn(async move { erase(&shared, &caller, ErasureMode::Commit).await });
    }

    let outcomes = tasks.join_all().await;

    let done = outcomes.iter().filter(|one| matches!(one, ErasureOutcome::Erased(_))).count();
    let repeated = outcomes.iter().filter(|one| **one == ErasureOutcome::Repeated).count();
    assert_eq!((done, repeated), (1, 7));
    assert_sound(&store).await;
}
