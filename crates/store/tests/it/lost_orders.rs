//! Orders that a restored database has lost are written again as their payment describes them.

use domain::id::{CustomerId, OrderId};
use domain::payment::{Mismatch, OrderChannel, OrderState};
use domain::top_up::TopUpState;
use store::lost_orders::{LostOrder, OrderRebuilding, rebuild};
use store::orders::{self, NewOrder};
use store::payments::{self, PaymentOutcome};
use store::unmatched::UnmatchedMoney;
use store::unmatched_settlements::{self, UnmatchedSettlement};
use store::{Store, testing, top_ups};

use crate::adjustments::adjust;
use crate::payments::{new_order, ordered, paid, payer};
use crate::support::{NOON, TestCaller, assert_sound, credits, unique};

fn lost<'a>(caller: &TestCaller, payer: &'a str, payment: &'a str) -> LostOrder<'a> {
    LostOrder {
        id: OrderId::new(NOON, unique()),
        customer: caller.customer,
        channel: OrderChannel::Charge,
        pack_id: "small",
        packs: 1,
        credits: credits(100),
        amount_cents: 999,
        currency: "usd",
        livemode: false,
        processor_customer: payer,
        payment_method: Some("pm_1"),
        session: None,
        idempotency_hash: None,
        cap_cents: None,
        payment,
        opened_at: NOON.plus_seconds(-60),
        at: NOON,
    }
}

async fn note(store: &Store, payment: &str) {
    let row = UnmatchedMoney {
        object: payment,
        reason: Mismatch::UnknownOrder,
        details: "unknown",
        at: NOON,
    };
    payments::note_unmatched(store, &row).await.unwrap();
}

#[tokio::test]
async fn a_lost_order_is_written_once_and_paid_by_its_payment() {
    let store = testing::store().await;
    let (caller, payer) = payer(&store).await;
    let wanted = lost(&caller, &payer, "pi_1");
    note(&store, "pi_1").await;

    for _ in 0..2 {
        assert_eq!(rebuild(&store, &wanted).await.unwrap(), OrderRebuilding::Rebuilt);
    }
    let order = orders::find_any(&store, wanted.id).await.unwrap().unwrap();
    assert_eq!((order.state, order.created_at), (OrderState::Expired, wanted.opened_at));
    let granted = payments::fulfil(&store, &paid(&order, "pi_1")).await.unwrap();
    let repeated = payments::fulfil(&store, &paid(&order, "pi_1")).await.unwrap();

    assert!(matches!(granted, PaymentOutcome::Granted(receipt) if receipt.credits == credits(100)));
    assert!(matches!(repeated, PaymentOutcome::Repeated(_)));
    let stored = orders::find_any(&store, wanted.id).await.unwrap().unwrap();
    assert_eq!((stored.state, stored.failure), (OrderState::Paid, None));
    let open = unmatched_settlements::list(&store, false, 10).await.unwrap();
    assert_eq!(open, [], "nobody is left to decide about it");
    assert_sound(&store).await;
}

#[tokio::test]
async fn a_lost_order_of_another_payer_of_nobody_or_settled_is_not_written() {
    let store = testing::store().await;
    let (caller, own) = payer(&store).await;
    let (_, other) = payer(&store).await;
    note(&store, "pi_settled").await;
    let settled =
        UnmatchedSettlement { object: "pi_settled", decision: "by hand", by: "grace", at: NOON };
    unmatched_settlements::claim(&store, &settled, false).await.unwrap();
    let stranger = CustomerId::new(NOON, unique());
    let cases = [
        (lost(&caller, &other, "pi_1"), OrderRebuilding::OtherPayer),
        (lost(&caller, "cus_unknown", "pi_1"), OrderRebuilding::OtherPayer),
        (
            LostOrder { customer: stranger, ..lost(&caller, &own, "pi_1") },
            OrderRebuilding::NoCustomer,
        ),
        (lost(&caller, &own, "pi_settled"), OrderRebuilding::Settled),
    ];

    for (wanted, expected) in cases {
        assert_eq!(rebuild(&store, &wanted).await.unwrap(), expected);
        assert_eq!(orders::find_any(&store, wanted.id).await.unwrap(), None);
    }
}

#[tokio::test]
async fn a_lost_order_does_not_take_a_key_that_opened_another_order_since() {
    let store = testing::store().await;
    let (caller, payer) = payer(&store).await;
    let hash = [7; 32];
    let newer = NewOrder { idempotency_hash: Some(hash), ..new_order(&caller, &payer) };
    orders::open(&store, &newer).await.unwrap();
    let taken = LostOrder { idempotency_hash: Some(hash), ..lost(&caller, &payer, "pi_1") };
    let free = LostOrder { idempotency_hash: Some([8; 32]), ..lost(&caller, &payer, "pi_2") };

    for wanted in [&taken, &free] {
        assert_eq!(rebuild(&store, wanted).await.unwrap(), OrderRebuilding::Rebuilt);
    }

    let by = async |of: [u8; 32]| {
        orders::find_by_request(&store, caller.customer, &of).await.unwrap().map(|one| one.id)
    };
    assert_eq!((by(hash).await, by([8; 32]).await), (Some(newer.id), Some(free.id)));
    assert_eq!(by([9; 32]).await, None);
}

#[tokio::test]
async fn a_lost_top_up_counts_for_the_cap_of_its_day() {
    let store = testing::store().await;
    let (caller, payer) = payer(&store).await;
    let wanted = LostOrder {
        channel: OrderChannel::TopUp,
        cap_cents: Some(2_000),
        ..lost(&caller, &payer, "pi_1")
    };
    rebuild(&store, &wanted).await.unwrap();
    let spent = async || top_ups::spent_on(&store, caller.customer, NOON.day()).await.unwrap();
    assert_eq!(spent().await, 0);
    let order = orders::find_any(&store, wanted.id).await.unwrap().unwrap();

    payments::fulfil(&store, &paid(&order, "pi_1")).await.unwrap();

    assert_eq!(spent().await, 999);
    let top_up = top_ups::find(&store, wanted.id).await.unwrap().unwrap();
    assert_eq!((top_up.state, top_up.cap_cents), (TopUpState::Succeeded, 2_000));
    assert_sound(&store).await;
}

#[tokio::test]
async fn a_payment_for_which_an_operator_gave_credits_is_not_granted() {
    let store = testing::store().await;
    let (caller, payer) = payer(&store).await;
    let order = ordered(&store, &caller, &payer).await;
    adjust(&store, &caller, 100, "payment pi_1").await;

    let outcome = payments::fulfil(&store, &paid(&order, "pi_1")).await.unwrap();

    assert!(matches!(outcome, PaymentOutcome::Unmatched { is_new: false, .. }), "{outcome:?}");
    let order = orders::find_any(&store, order.id).await.unwrap().unwrap();
    assert_eq!(order.state, OrderState::Pending);
    assert_sound(&store).await;
}
