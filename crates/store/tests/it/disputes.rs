//! Disputes and warnings of fraud, prices that do not match, and money that went back.

use domain::dispute::DisputeStage::{self, Answered, Inquiry, Lost, Open, Warned, Won};
use domain::payment::ReversalState;
use domain::subscription::SubscriptionStatus::{Active, Canceled};
use store::disputes::{self, Dispute, DisputeReading};
use store::price_faults::{self, PriceFault};
use store::{Store, jobs, payments, returned_money, reversals, testing};

use crate::payments::{dispute, invoice, month, ordered, paid, payer, refund};
use crate::subscriptions::{apply, pro};
use crate::support::{NOON, TestCaller, new_job};

/// A dispute of the payment with this intent.
pub(crate) fn reading(intent: &str) -> DisputeReading<'_> {
    DisputeReading {
        id: "dp_1",
        stage: Open,
        status: "needs_response",
        charge: Some("ch_1"),
        intent,
        amount_cents: 999,
        currency: "usd",
        reason: "fraudulent",
        due_by: Some(NOON.plus_seconds(9 * 86_400)),
        opened_at: NOON,
        at: NOON,
    }
}

async fn noted(store: &Store, reading: &DisputeReading<'_>) -> Option<DisputeStage> {
    let noted = disputes::note(store, reading, &|_| Vec::new()).await.unwrap();
    noted.map(|dispute| dispute.stage)
}

async fn listed(store: &Store, with_ended: bool) -> Vec<Dispute> {
    disputes::list(store, with_ended, 10).await.unwrap()
}

/// A customer who has paid for a pack with `pi_1` and for a plan with `pi_2`.
async fn buyer(store: &Store) -> TestCaller {
    let (caller, name) = payer(store).await;
    let order = ordered(store, &caller, &name).await;
    payments::fulfil(store, &paid(&order, "pi_1")).await.unwrap();
    let sold = month(30_000, 4_900);
    payments::fulfil(store, &invoice(&sold, ("in_1", "pi_2"), &name, 4_900)).await.unwrap();
    caller
}

#[tokio::test]
async fn a_dispute_is_new_once_and_never_goes_back() {
    let store = testing::store().await;
    let caller = buyer(&store).await;
    let at = |stage| DisputeReading { stage, ..reading("pi_1") };

    assert_eq!(noted(&store, &at(Inquiry)).await, Some(Inquiry));
    assert_eq!(noted(&store, &at(Inquiry)).await, None);
    assert_eq!(noted(&store, &at(Answered)).await, Some(Answered));
    // Told late.
    assert_eq!(noted(&store, &at(Open)).await, None);
    assert_eq!(noted(&store, &at(Lost)).await, Some(Lost));
    assert_eq!(noted(&store, &at(Won)).await, Some(Won));
    assert_eq!(noted(&store, &at(Lost)).await, None);

    let all = listed(&store, true).await;
    assert_eq!((all.len(), all[0].stage, all[0].customer), (1, Won, Some(caller.customer)));
    assert_eq!(listed(&store, false).await, []);
}

#[tokio::test]
async fn a_new_date_changes_the_row_and_tells_nobody() {
    let store = testing::store().await;
    buyer(&store).await;
    noted(&store, &reading("pi_1")).await;
    let later = Some(NOON.plus_seconds(20 * 86_400));

    let again = noted(&store, &DisputeReading { due_by: later, ..reading("pi_1") }).await;

    assert_eq!(again, None);
    assert_eq!(listed(&store, false).await[0].due_by, later);
}

#[tokio::test]
async fn what_follows_is_enqueued_with_the_dispute_or_not_at_all() {
    let store = testing::store().await;
    buyer(&store).await;
    let before = jobs::count(&store).await.unwrap().waiting;

    let follow = |_: &Dispute| vec![new_job(), new_job()];
    disputes::note(&store, &reading("pi_1"), &follow).await.unwrap().unwrap();
    assert!(disputes::note(&store, &reading("pi_1"), &follow).await.unwrap().is_none());

    assert_eq!(jobs::count(&store).await.unwrap().waiting, before + 2);
}

#[tokio::test]
async fn a_dispute_of_an_unknown_payment_gets_its_customer_once_that_is_recorded() {
    let store = testing::store().await;
    noted(&store, &reading("pi_1")).await;
    assert_eq!(listed(&store, false).await[0].customer, None);
    let caller = buyer(&store).await;

    noted(&store, &reading("pi_1")).await;

    let known = &listed(&store, false).await[0];
    assert_eq!((known.customer, known.order.is_some()), (Some(caller.customer), true));
}

#[tokio::test]
async fn a_lost_dispute_is_listed_as_long_as_its_subscription_lives() {
    let store = testing::store().await;
    let caller = buyer(&store).await;
    apply(&store, caller.customer, &pro(Active, 0, 0)).await;
    for (id, intent) in [("dp_1", "pi_1"), ("dp_2", "pi_2")] {
        noted(&store, &DisputeReading { id, stage: Lost, ..reading(intent) }).await;
    }

    let live = listed(&store, false).await;
    apply(&store, caller.customer, &pro(Canceled, 0, 0)).await;

    let ids: Vec<&str> = live.iter().map(|dispute| dispute.id.as_str()).collect();
    assert_eq!(ids, ["dp_2"], "a pack has nothing that goes on");
    assert!(live[0].subscription_is_live);
    assert_eq!(listed(&store, false).await, []);
    assert_eq!(listed(&store, true).await.len(), 2);
}

#[tokio::test]
async fn those_that_wait_for_the_operator_are_counted() {
    let store = testing::store().await;
    buyer(&store).await;
    for (id, stage) in [("dp_1", Open), ("dp_2", Answered), ("issfr_1", Warned), ("dp_3", Won)] {
        noted(&store, &DisputeReading { id, stage, ..reading("pi_1") }).await;
    }

    assert_eq!(disputes::count_waiting(&store).await.unwrap(), 2);
    let ids: Vec<String> = listed(&store, false).await.into_iter().map(|one| one.id).collect();
    assert_eq!(ids, ["issfr_1", "dp_2", "dp_1"]);
}

#[tokio::test]
async fn a_fault_of_a_price_is_new_once_until_it_is_removed() {
    let store = testing::store().await;
    let fault = |text: &str| PriceFault {
        subject: "pack:pack_10".to_owned(),
        price_ref: "price_1".to_owned(),
        price_id: "price_1".to_owned(),
        fault: text.to_owned(),
        found_at: NOON,
    };
    let before = jobs::count(&store).await.unwrap().waiting;
    let note =
        async |text: &str| price_faults::note(&store, &fault(text), &[new_job()]).await.unwrap();

    assert!(note("is archived").await);
    assert!(!note("costs 1 cents instead of 2 cents").await);

    assert_eq!(jobs::count(&store).await.unwrap().waiting, before + 1);
    let known = price_faults::find(&store, "pack:pack_10", "price_1").await.unwrap().unwrap();
    assert_eq!(known.fault, "costs 1 cents instead of 2 cents");
    assert_eq!(price_faults::find(&store, "pack:pack_10", "price_2").await.unwrap(), None);
    assert!(price_faults::remove(&store, "pack:pack_10", "price_1").await.unwrap());
    assert!(!price_faults::remove(&store, "pack:pack_10", "price_1").await.unwrap());
    assert_eq!(price_faults::list(&store).await.unwrap(), []);
}

#[tokio::test]
async fn money_that_went_back_is_summed_up_by_order_and_by_invoice() {
    let store = testing::store().await;
    let caller = buyer(&store).await;
    let take = async |reversal| {
        reversals::apply(&store, &reversal, &|_| Vec::new()).await.unwrap();
    };
    take(refund("re_1", "pi_1", 300)).await;
    take(refund("re_2", "pi_1", 99)).await;
    take(dispute("dp_1", "pi_2", ReversalState::Standing)).await;
    let of = returned_money::of_customer(&store, caller.customer).await.unwrap();
    let known = returned_money::list(&store, caller.customer, 10).await.unwrap();
    let order = known.iter().find_map(|one| one.order).unwrap();

    assert_eq!((of.of_order(order), of.of_invoice("in_1", None)), (399, 999));
    assert_eq!((of.of_invoice("in_9", Some(order)), of.of_invoice("in_9", None)), (399, 0));
    let mut ids: Vec<&str> = known.iter().map(|one| one.id.as_str()).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["dp_1", "re_1", "re_2"]);
    let other = TestCaller::with(&store, 0).await;
    let nothing = returned_money::of_customer(&store, other.customer).await.unwrap();
    assert_eq!(nothing, returned_money::ReturnedMoney::default());
}
