//! What is stored about the processor: customers' ids, their cards, and events.

use store::cards::{self, SavedCard};
use store::jobs;
use store::processor_events::{self, DeliveredEvent, EventOutcome, EventReceipt};
use store::{processor_customers, testing};

use crate::support::{NOON, TestCaller, new_job};

pub(crate) fn card(payment_method: &str) -> SavedCard {
    SavedCard {
        payment_method: payment_method.to_owned(),
        brand: "visa".to_owned(),
        last4: "4242".to_owned(),
        exp_month: 12,
        exp_year: 2030,
        fingerprint: None,
    }
}

fn event(id: &str) -> DeliveredEvent {
    DeliveredEvent {
        id: id.to_owned(),
        kind: "payment_intent.succeeded".to_owned(),
        object: Some("pi_1".to_owned()),
        processor_customer: Some("cus_1".to_owned()),
        api_version: None,
        created_at: NOON,
    }
}

#[tokio::test]
async fn a_processor_customer_belongs_to_one_customer() {
    let store = testing::store().await;
    let (one, other) = (TestCaller::with(&store, 0).await, TestCaller::with(&store, 0).await);

    let first = processor_customers::link(&store, one.customer, "cus_1", NOON).await.unwrap();
    let second = processor_customers::link(&store, one.customer, "cus_2", NOON).await.unwrap();
    let stolen = processor_customers::link(&store, other.customer, "cus_1", NOON).await;

    assert_eq!((first.as_str(), second.as_str()), ("cus_1", "cus_1"));
    assert!(stolen.is_err(), "{stolen:?}");
    let owner = processor_customers::owner(&store, "cus_1").await.unwrap();
    assert_eq!(owner, Some(one.customer));
    assert_eq!(processor_customers::find(&store, other.customer).await.unwrap(), None);
}

#[tokio::test]
async fn a_deleted_processor_customer_is_kept_without_its_card() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 0).await;
    processor_customers::link(&store, caller.customer, "cus_1", NOON).await.unwrap();
    cards::save(&store, caller.customer, &card("pm_1"), NOON).await.unwrap();

    assert!(processor_customers::unlink(&store, "cus_1", NOON).await.unwrap());
    assert!(!processor_customers::unlink(&store, "cus_1", NOON).await.unwrap());

    assert_eq!(cards::find(&store, caller.customer).await.unwrap(), None);
    assert_eq!(processor_customers::count(&store, caller.customer).await.unwrap(), 1);
    let next = processor_customers::link(&store, caller.customer, "cus_2", NOON).await.unwrap();
    assert_eq!(next, "cus_2");
    let owner = processor_customers::owner(&store, "cus_1").await.unwrap();
    assert_eq!(owner, Some(caller.customer));
}

#[tokio::test]
async fn only_the_saved_card_is_removed_when_detached() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 0).await;
    cards::save(&store, caller.customer, &card("pm_1"), NOON).await.unwrap();
    cards::save(&store, caller.customer, &card("pm_2"), NOON).await.unwrap();

    let old = cards::remove_detached(&store, "pm_1", NOON).await.unwrap();
    let saved = cards::find(&store, caller.customer).await.unwrap();
    let current = cards::remove_detached(&store, "pm_2", NOON).await.unwrap();

    assert_eq!(old, None);
    assert_eq!(saved, Some(card("pm_2")));
    assert_eq!(current, Some(caller.customer));
    assert_eq!(cards::find(&store, caller.customer).await.unwrap(), None);
    assert!(!cards::remove(&store, caller.customer, NOON).await.unwrap());
}

#[tokio::test]
async fn a_card_is_found_if_it_was_saved_after_a_time() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 0).await;
    cards::save(&store, caller.customer, &card("pm_1"), NOON).await.unwrap();
    let after = async |seconds: i64| {
        let since = NOON.plus_seconds(seconds);
        cards::find_saved_after(&store, caller.customer, since).await.unwrap()
    };

    assert_eq!((after(-1).await, after(0).await), (Some(card("pm_1")), None));
    cards::save(&store, caller.customer, &card("pm_2"), NOON.plus_seconds(9)).await.unwrap();
    assert_eq!((after(0).await, after(9).await), (Some(card("pm_2")), None));
}

#[tokio::test]
async fn an_event_is_stored_once_with_a_fallback_job() {
    let store = testing::store().await;
    let later = NOON.plus_seconds(30);

    let first = processor_events::receive(&store, &event("evt_1"), &new_job(), later).await;
    let again = processor_events::receive(&store, &event("evt_1"), &new_job(), later).await;
    assert_eq!((first.unwrap(), again.unwrap()), (EventReceipt::Open, EventReceipt::Open));
    assert_eq!(jobs::count(&store).await.unwrap().waiting, 1);
    assert_eq!(jobs::next_due(&store).await.unwrap(), Some(later));
    let open = processor_events::find_open(&store, "evt_1").await.unwrap();
    assert_eq!(open, Some(event("evt_1")));

    processor_events::finish(&store, "evt_1", EventOutcome::Done, NOON).await.unwrap();

    assert_eq!(jobs::count(&store).await.unwrap().waiting, 0);
    assert_eq!(processor_events::find_open(&store, "evt_1").await.unwrap(), None);
    let late = processor_events::receive(&store, &event("evt_1"), &new_job(), later).await;
    assert_eq!(late.unwrap(), EventReceipt::Ended);
    assert_eq!(jobs::count(&store).await.unwrap().waiting, 0);
}

#[tokio::test]
async fn an_unmatched_event_is_processed_again_when_redelivered() {
    let store = testing::store().await;
    processor_events::receive(&store, &event("evt_1"), &new_job(), NOON).await.unwrap();
    processor_events::finish(&store, "evt_1", EventOutcome::Unmatched, NOON).await.unwrap();

    let again = processor_events::receive(&store, &event("evt_1"), &new_job(), NOON).await.unwrap();

    assert_eq!(again, EventReceipt::Open);
    let later = NOON.plus_seconds(1);
    assert_eq!(processor_events::delete_old(&store, later).await.unwrap(), 1);
}

#[tokio::test]
async fn the_choice_of_a_card_is_kept_while_that_card_is_saved() {
    let store = testing::store().await;
    let (one, other) = (TestCaller::with(&store, 0).await, TestCaller::with(&store, 0).await);
    let save = async |caller: &TestCaller, method: &str| {
        cards::save(&store, caller.customer, &card(method), NOON).await.unwrap();
    };
    let chosen = async |caller: &TestCaller, method: &str| {
        cards::find_choice(&store, caller.customer, method).await.unwrap()
    };
    save(&one, "pm_1").await;
    save(&other, "pm_3").await;
    assert_eq!(chosen(&one, "pm_1").await, None);

    cards::note_choice(&store, one.customer, "pm_2", NOON).await.unwrap();
    assert_eq!(chosen(&one, "pm_1").await, None, "another card was chosen");
    cards::note_choice(&store, one.customer, "pm_1", NOON).await.unwrap();
    assert_eq!((chosen(&one, "pm_1").await, chosen(&one, "pm_2").await), (Some(NOON), None));
    assert_eq!(chosen(&other, "pm_1").await, None);
    save(&one, "pm_1").await;
    assert_eq!(chosen(&one, "pm_1").await, Some(NOON), "the same card is still the chosen one");
    save(&one, "pm_2").await;

    assert_eq!((chosen(&one, "pm_1").await, chosen(&one, "pm_2").await), (None, None));
    save(&one, "pm_1").await;
    assert_eq!(chosen(&one, "pm_1").await, None, "what was forgotten does not come back");
}

#[tokio::test]
async fn of_concurrent_first_payments_one_creates_the_processors_customer() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 0).await;
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..12 {
        let (shared, customer) = ((*store).clone(), caller.customer);
        let name = format!("cus_{number}");
        tasks.spawn(async move {
            processor_customers::link(&shared, customer, &name, NOON).await.unwrap()
        });
    }

    let linked = tasks.join_all().await;

    let current = processor_customers::find(&store, caller.customer).await.unwrap().unwrap();
    assert!(linked.iter().all(|name| *name == current), "{linked:?}");
    assert_eq!(processor_customers::count(&store, caller.customer).await.unwrap(), 1);
}
