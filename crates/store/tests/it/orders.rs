//! Orders: what is stored of them while they are open, who sees them, and what ends them.

use domain::id::OrderId;
use domain::payment::{OrderChannel, OrderState};
use domain::time::Timestamp;
use store::orders::{self, NewOrder, Order, OrderOpening, OrderQuery};
use store::payments::{self, PaymentOutcome};
use store::{Store, testing};

use crate::payments::{available, new_order, ordered, paid, payer, state_of};
use crate::support::{NOON, TestCaller, assert_sound, unique};

async fn opened(store: &Store, new: &NewOrder<'_>) -> Order {
    match orders::open(store, new).await.unwrap() {
        OrderOpening::Opened(order) => order,
        other => panic!("{other:?}"),
    }
}

/// An order that was opened at this time.
async fn opened_at(store: &Store, (caller, payer): (&TestCaller, &str), at: Timestamp) -> Order {
    opened(store, &NewOrder { at, ..new_order(caller, payer) }).await
}

async fn reread(store: &Store, order: &Order) -> Order {
    orders::find_any(store, order.id).await.unwrap().unwrap()
}

fn ids(orders: &[Order]) -> Vec<OrderId> {
    orders.iter().map(|order| order.id).collect()
}

#[tokio::test]
async fn orders_of_one_instant_are_listed_once_each_with_every_page_size() {
    let store = testing::store().await;
    let (caller, payer) = payer(&store).await;
    let mut expected = Vec::new();
    for at in [NOON, NOON, NOON, NOON, NOON.plus_micros(1), NOON.plus_micros(1)] {
        let order = opened_at(&store, (&caller, &payer), at).await;
        expected.push((order.created_at, order.id.to_string(), order.id));
    }
    expected.sort();
    expected.reverse();
    let expected: Vec<OrderId> = expected.into_iter().map(|(_, _, id)| id).collect();

    for limit in 1..=7 {
        let mut query = OrderQuery { customer: caller.customer, before: None, limit };
        let mut listed = Vec::new();
        loop {
            let page = ids(&orders::list(&store, &query).await.unwrap());
            let Some(last) = page.last() else { break };
            assert!(page.len() <= usize::try_from(limit).unwrap(), "{page:?}");
            query.before = Some(*last);
            listed.extend(page);
        }
        assert_eq!(listed, expected, "in pages of {limit}");
    }
}

#[tokio::test]
async fn a_cursor_that_is_not_the_customers_order_lists_nothing() {
    let store = testing::store().await;
    let (caller, payer) = payer(&store).await;
    let (other, other_payer) = crate::payments::payer(&store).await;
    ordered(&store, &caller, &payer).await;
    let foreign = ordered(&store, &other, &other_payer).await;

    for before in [foreign.id, OrderId::new(NOON.plus_seconds(60), unique())] {
        let query = OrderQuery { customer: caller.customer, before: Some(before), limit: 10 };
        assert_eq!(orders::list(&store, &query).await.unwrap(), [], "{before}");
    }
    let none = OrderQuery { customer: caller.customer, before: None, limit: 0 };
    assert_eq!(orders::list(&store, &none).await.unwrap(), []);
}

#[tokio::test]
async fn only_pending_orders_before_an_instant_are_looked_up_and_no_top_ups() {
    let store = testing::store().await;
    let (caller, payer) = payer(&store).await;
    let who = (&caller, payer.as_str());
    let third = opened_at(&store, who, NOON.plus_seconds(3)).await;
    let first = opened_at(&store, who, NOON.plus_seconds(1)).await;
    let second = opened_at(&store, who, NOON.plus_seconds(2)).await;
    let closed = opened_at(&store, who, NOON).await;
    orders::close(&store, closed.id, OrderState::Expired, None, NOON).await.unwrap();
    let bought = opened_at(&store, who, NOON).await;
    payments::fulfil(&store, &paid(&bought, "pi_1")).await.unwrap();
    let automatic = NewOrder {
        channel: OrderChannel::TopUp,
        payment_method: Some("pm_1"),
        ..new_order(&caller, &payer)
    };
    opened(&store, &automatic).await;
    let pending = async |before: Timestamp, limit: i64| {
        ids(&orders::list_pending(&store, before, limit).await.unwrap())
    };

    let later = NOON.plus_seconds(60);
    assert_eq!(pending(later, 10).await, [first.id, second.id, third.id]);
    assert_eq!(pending(later, 2).await, [first.id, second.id]);
    assert_eq!(pending(later, 0).await, []);
    assert_eq!(pending(third.created_at, 10).await, [first.id, second.id]);
    assert_eq!(pending(third.created_at.plus_micros(1), 10).await.len(), 3);
    assert_eq!(pending(first.created_at, 10).await, []);
}

#[tokio::test]
async fn the_first_session_of_an_order_stays_and_belongs_to_it_alone() {
    let store = testing::store().await;
    let (caller, payer) = payer(&store).await;
    let (one, other) =
        (ordered(&store, &caller, &payer).await, ordered(&store, &caller, &payer).await);
    let session = "cs_'%_\\\"é✓";

    orders::set_session(&store, one.id, session).await.unwrap();
    orders::set_session(&store, one.id, "cs_2").await.unwrap();
    let taken = orders::set_session(&store, other.id, session).await;

    assert_eq!(reread(&store, &one).await.session.as_deref(), Some(session));
    assert!(taken.is_err(), "a session pays one order: {taken:?}");
    assert_eq!(reread(&store, &other).await.session, None);
    orders::set_session(&store, OrderId::new(NOON, unique()), "cs_3").await.unwrap();
    assert_eq!(orders::find_any(&store, OrderId::new(NOON, unique())).await.unwrap(), None);
}

#[tokio::test]
async fn a_payment_intent_may_be_replaced_until_the_order_has_ended() {
    let store = testing::store().await;
    let (caller, payer) = payer(&store).await;
    let order = ordered(&store, &caller, &payer).await;
    let payment = async || reread(&store, &order).await.payment;
    orders::set_payment(&store, order.id, "pi_1").await.unwrap();
    assert_eq!(payment().await.as_deref(), Some("pi_1"));
    orders::set_payment(&store, order.id, "pi_2").await.unwrap();
    assert_eq!(payment().await.as_deref(), Some("pi_2"));

    // The first attempt succeeds after all.
    let fulfilled = payments::fulfil(&store, &paid(&order, "pi_1")).await.unwrap();
    orders::set_payment(&store, order.id, "pi_3").await.unwrap();

    assert!(matches!(fulfilled, PaymentOutcome::Granted(_)), "{fulfilled:?}");
    assert_eq!(payment().await.as_deref(), Some("pi_1"));
    let closed = ordered(&store, &caller, &payer).await;
    orders::close(&store, closed.id, OrderState::Failed, Some("declined"), NOON).await.unwrap();
    orders::set_payment(&store, closed.id, "pi_4").await.unwrap();
    assert_eq!(reread(&store, &closed).await.payment, None);
    assert_sound(&store).await;
}

#[tokio::test]
async fn an_order_is_closed_once_and_only_as_failed_or_expired() {
    let store = testing::store().await;
    let (caller, payer) = payer(&store).await;
    let order = ordered(&store, &caller, &payer).await;
    let close = async |state, failure, seconds| {
        let at = NOON.plus_seconds(seconds);
        orders::close(&store, order.id, state, failure, at).await.unwrap()
    };

    for state in [OrderState::Pending, OrderState::Paid, OrderState::Refunded] {
        assert!(!close(state, None, 1).await, "{state}");
        assert_eq!(reread(&store, &order).await, order, "{state}");
    }
    assert!(close(OrderState::Failed, Some("it's 100 % declined"), 2).await);
    assert!(!close(OrderState::Failed, None, 3).await);
    assert!(!close(OrderState::Expired, None, 4).await);

    let closed = reread(&store, &order).await;
    assert_eq!(closed.state, OrderState::Failed);
    assert_eq!(closed.failure.as_deref(), Some("it's 100 % declined"));
    assert_eq!(closed.closed_at, Some(NOON.plus_seconds(2)));
    // Its payment clears the failure.
    payments::fulfil(&store, &paid(&order, "pi_1")).await.unwrap();
    let bought = reread(&store, &order).await;
    assert_eq!((bought.state, bought.failure), (OrderState::Paid, None));
    assert_sound(&store).await;
}

#[tokio::test]
async fn an_idempotency_key_names_one_order_of_each_customer_whatever_it_buys() {
    let store = testing::store().await;
    let (caller, payer) = payer(&store).await;
    let (other, other_payer) = crate::payments::payer(&store).await;
    let keyed = |new| NewOrder { idempotency_hash: Some([7; 32]), ..new };
    let first = opened(&store, &keyed(new_order(&caller, &payer))).await;
    let foreign = opened(&store, &keyed(new_order(&other, &other_payer))).await;
    orders::close(&store, first.id, OrderState::Expired, None, NOON).await.unwrap();

    let larger = NewOrder { pack_id: "large", amount_cents: 5_000, ..new_order(&caller, &payer) };
    let again = orders::open(&store, &keyed(larger)).await.unwrap();

    let OrderOpening::Known(known) = again else { panic!("{again:?}") };
    assert_eq!((known.id, known.state), (first.id, OrderState::Expired));
    assert_eq!((known.pack_id.as_str(), known.amount_cents), ("small", 999));
    assert_ne!(first.id, foreign.id);
    assert_eq!(orders::find(&store, other.customer, first.id).await.unwrap(), None);
}

#[tokio::test]
async fn concurrent_requests_with_one_idempotency_key_open_one_order() {
    let store = testing::store().await;
    let (caller, payer) = payer(&store).await;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let (shared, caller, payer) = ((*store).clone(), caller.clone(), payer.clone());
        tasks.spawn(async move {
            let new = NewOrder { idempotency_hash: Some([7; 32]), ..new_order(&caller, &payer) };
            orders::open(&shared, &new).await.unwrap()
        });
    }

    let openings = tasks.join_all().await;

    let opened = openings.iter().filter(|one| matches!(one, OrderOpening::Opened(_))).count();
    let known = openings.iter().filter(|one| matches!(one, OrderOpening::Known(_))).count();
    assert_eq!((opened, known), (1, 15));
    let query = OrderQuery { customer: caller.customer, before: None, limit: 100 };
    assert_eq!(orders::list(&store, &query).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_payment_that_races_with_the_end_of_its_order_is_granted() {
    let store = testing::store().await;
    let (caller, payer) = payer(&store).await;
    for round in 1..=8_i64 {
        let order = ordered(&store, &caller, &payer).await;
        let payment = format!("pi_{round}");
        let fulfilment = paid(&order, &payment);

        let (paid, closed) = tokio::join!(
            payments::fulfil(&store, &fulfilment),
            orders::close(&store, order.id, OrderState::Expired, None, NOON)
        );

        assert!(matches!(paid.unwrap(), PaymentOutcome::Granted(_)), "round {round}");
        closed.unwrap();
        assert_eq!(state_of(&store, &order).await, OrderState::Paid);
        assert_eq!(available(&store, &caller).await, 100 * round);
    }
    assert_sound(&store).await;
}

#[tokio::test]
async fn orders_without_credits_or_a_price_are_refused() {
    let store = testing::store().await;
    let (caller, payer) = payer(&store).await;
    let right = new_order(&caller, &payer);
    let stranger = "cus_of_nobody";

    for wrong in [
        NewOrder { credits: crate::support::credits(0), ..right.clone() },
        NewOrder { amount_cents: 0, ..right.clone() },
        NewOrder { amount_cents: -999, ..right.clone() },
        NewOrder { processor_customer: stranger, ..right.clone() },
    ] {
        let refused = orders::open(&store, &wrong).await;
        assert!(refused.is_err(), "{wrong:?}: {refused:?}");
    }
    assert_eq!(orders::find_any(&store, right.id).await.unwrap(), None);
    let largest = NewOrder {
        credits: crate::support::credits(i64::MAX),
        amount_cents: i64::MAX,
        packs: i64::MAX,
        ..right
    };
    let stored = opened(&store, &largest).await;
    assert_eq!((stored.credits, stored.amount_cents), (largest.credits, i64::MAX));
    assert_eq!(reread(&store, &stored).await, stored);
}
