//! Ended subscriptions and lowered slots: steps at the processor are recorded first, and done once.

use domain::id::ChangeId;
use domain::platform::Platform;
use domain::slot::SlotChangeKind;
use domain::subscription::SubscriptionStatus::Active;
use domain::time::Timestamp;
use store::ended_subscriptions::{self, EndedSubscription, VoidedInvoice};
use store::{Store, slot_changes, slot_credits, testing};

use crate::slot_changes::{change, slots};
use crate::subscriptions::{allowances, apply, pro};
use crate::support::{NOON, TestCaller};

const LATER: Timestamp = NOON.plus_seconds(600);

#[tokio::test]
async fn an_ended_subscription_is_checked_until_it_is_settled() {
    let store = testing::store().await;
    let customer = TestCaller::with(&store, 0).await.customer;
    let ended = |id: &str| EndedSubscription {
        subscription_id: id.to_owned(),
        customer,
        processor_customer: "cus_1".to_owned(),
        has_ended: true,
    };
    let both = [ended("sub_1"), ended("sub_2")];
    ended_subscriptions::note(&store, &both, NOON).await.unwrap();
    ended_subscriptions::note(&store, &both, LATER).await.unwrap();
    let open = async || ended_subscriptions::list_open_of(&store, customer).await.unwrap();
    let left = async |before| ended_subscriptions::list_open(&store, before, 9).await.unwrap();

    let first = (open().await, left(NOON).await.len(), left(LATER).await.len());
    ended_subscriptions::look_later(&store, "sub_1", LATER).await.unwrap();
    let looked_at = left(LATER).await;
    ended_subscriptions::settle(&store, "sub_2", LATER).await.unwrap();
    // It is already settled: recording it again changes nothing.
    ended_subscriptions::note(&store, &both, LATER).await.unwrap();

    assert_eq!(first, (both.to_vec(), 0, 2));
    assert_eq!(looked_at, [ended("sub_2")]);
    assert_eq!(open().await, [ended("sub_1")]);
}

/// An older invoice is given up while the subscription continues; later the subscription itself
/// ends.
#[tokio::test]
async fn a_live_subscription_is_checked_again_whenever_it_is_recorded() {
    let store = testing::store().await;
    let customer = TestCaller::with(&store, 0).await.customer;
    let noted = async |has_ended| {
        let subscription = EndedSubscription {
            subscription_id: "sub_1".to_owned(),
            customer,
            processor_customer: "cus_1".to_owned(),
            has_ended,
        };
        ended_subscriptions::note(&store, &[subscription], NOON).await.unwrap();
        let open = ended_subscriptions::list_open_of(&store, customer).await.unwrap();
        ended_subscriptions::settle(&store, "sub_1", LATER).await.unwrap();
        open.iter().map(|one| one.has_ended).collect::<Vec<bool>>()
    };

    assert_eq!(noted(false).await, [false]);
    assert_eq!(noted(false).await, [false]);
    assert_eq!(noted(true).await, [true]);
    assert!(noted(true).await.is_empty());
    assert!(noted(false).await.is_empty());
}

#[tokio::test]
async fn an_invoice_being_voided_is_listed_until_it_is_done() {
    let store = testing::store().await;
    let customer = TestCaller::with(&store, 0).await.customer;
    let ended = EndedSubscription {
        subscription_id: "sub_1".to_owned(),
        customer,
        processor_customer: "cus_1".to_owned(),
        has_ended: true,
    };
    let invoice = |returned_cents| VoidedInvoice { invoice_id: "in_1".to_owned(), returned_cents };
    ended_subscriptions::note(&store, std::slice::from_ref(&ended), NOON).await.unwrap();
    ended_subscriptions::begin_void(&store, &ended, &invoice(500), NOON).await.unwrap();
    ended_subscriptions::begin_void(&store, &ended, &invoice(900), LATER).await.unwrap();
    let begun = async || ended_subscriptions::list_begun(&store, "sub_1").await.unwrap();

    let open = begun().await;
    ended_subscriptions::finish_void(&store, &invoice(500), LATER).await.unwrap();

    assert_eq!(open, [invoice(500)]);
    assert_eq!(begun().await, []);
}

/// A lowering that the processor has applied.
async fn lowered(store: &Store, customer: domain::id::CustomerId, from: i64) -> ChangeId {
    apply(store, customer, &pro(Active, from, 0)).await;
    let items = vec![slots(Platform::ALPHA, from, from - 1)];
    let new = change(store, customer, SlotChangeKind::Lower, items).await;
    slot_changes::start(store, &new, &allowances()).await.unwrap();
    apply(store, customer, &pro(Active, from - 1, 0)).await;
    new.id
}

#[tokio::test]
async fn a_lowerings_credit_is_recorded_once_and_each_item_counts_once() {
    let store = testing::store().await;
    let customer = TestCaller::with(&store, 0).await.customer;
    let (first, second) = (lowered(&store, customer, 3).await, lowered(&store, customer, 2).await);
    let unread = async || slot_credits::list_unread(&store, LATER, 9).await.unwrap();
    let both = unread().await;
    let change = slot_credits::find_unread(&store, second).await.unwrap().unwrap();
    let items =
        |names: &[&str]| -> Vec<String> { names.iter().map(|name| (*name).to_owned()).collect() };

    slot_credits::claim(&store, first, &items(&["ii_1", "ii_2"])).await.unwrap();
    slot_credits::note(&store, first, 500).await.unwrap();
    slot_credits::claim(&store, second, &items(&["ii_2", "ii_3"])).await.unwrap();
    let counted = slot_credits::list_counted(&store, &change).await.unwrap();

    assert_eq!(both, [first, second]);
    assert_eq!(unread().await, [second]);
    assert_eq!(slot_credits::find_unread(&store, first).await.unwrap(), None);
    assert_eq!(counted.into_iter().collect::<Vec<_>>(), ["ii_1", "ii_2"]);
}
