//! The money of slots: what a lowering credited is counted once, latest invoice first, and none is
//! credited while money of the period has gone back.

use domain::id::CustomerId;
use domain::sales::PartKind;
use domain::time::Timestamp;
use store::payments::{self, NewPayment, SoldInvoice, SoldPart};
use store::sales::{self, SlotCredit, SoldLine};
use store::{Store, testing};

use crate::payments::{invoice, month, payer, refund, taken};
use crate::support::{NOON, TestCaller, assert_sound};

const PERIOD_END: Timestamp = NOON.plus_seconds(30 * 86_400);
/// What of each part sold has been credited.
const CREDITED: &str = "
    select sale_id || ' ' || cast(credited_cents as text) as line from sale_parts
    order by sale_id, place";

/// An invoice for slots until this end.
fn slots(number: &str, cents: i64, period_end: Timestamp) -> SoldInvoice {
    SoldInvoice {
        subscription: "sub_1".to_owned(),
        number: number.to_owned(),
        sold_at: NOON,
        parts: vec![SoldPart {
            kind: PartKind::Slot,
            period_end,
            money_cents: cents,
            credits: 0,
            expires_at: None,
            reference: "alpha".to_owned(),
        }],
        lines: vec![SoldLine {
            part: 0,
            price_id: Some("price_slot".to_owned()),
            amount_cents: cents,
            discount_cents: 0,
            quantity: 1,
            starts_at: NOON,
            ends_at: period_end,
            is_proration: false,
            monthly_credits: 0,
            period_s: 30 * 86_400,
        }],
        livemode: false,
    }
}

async fn pay(store: &Store, sold: &SoldInvoice, (id, payer): (&str, &str)) {
    let (intent, cents) = (format!("pi_{id}"), sold.parts[0].money_cents);
    let money: NewPayment<'_> = invoice(sold, (id, &intent), payer, cents);
    payments::fulfil(store, &money).await.unwrap();
}

/// Three invoices of one period, of 1,000, 500 and 250 cents, and one of the next.
async fn renter(store: &Store) -> TestCaller {
    let (caller, payer) = payer(store).await;
    let next = PERIOD_END.plus_seconds(30 * 86_400);
    pay(store, &slots("A-1", 1_000, PERIOD_END), ("in_1", &payer)).await;
    pay(store, &slots("A-9", 500, PERIOD_END), ("in_2", &payer)).await;
    pay(store, &slots("A-10", 250, PERIOD_END), ("in_3", &payer)).await;
    pay(store, &slots("A-11", 900, next), ("in_4", &payer)).await;
    caller
}

async fn credit(store: &Store, customer: CustomerId, change: &str, cents: i64) {
    let credit = SlotCredit { subscription: "sub_1", period_end: PERIOD_END, change, cents };
    sales::note_slot_credit(store, customer, credit).await.unwrap();
}

async fn credited(store: &Store) -> Vec<String> {
    testing::lines(store, CREDITED).await.unwrap()
}

async fn is_whole(store: &Store, subscription: &str, period_end: Timestamp) -> bool {
    sales::slot_money_is_whole(store, subscription, period_end).await.unwrap()
}

#[tokio::test]
async fn a_lowering_credits_the_money_of_the_latest_invoices_first_and_once() {
    let store = testing::store().await;
    let customer = renter(&store).await.customer;

    // The tenth invoice is later than the ninth.
    credit(&store, customer, "chg_1", 300).await;
    assert_eq!(credited(&store).await, ["in_1 0", "in_2 50", "in_3 250", "in_4 0"]);
    credit(&store, customer, "chg_1", 300).await;
    assert_eq!(credited(&store).await, ["in_1 0", "in_2 50", "in_3 250", "in_4 0"]);
    credit(&store, customer, "chg_2", 450).await;
    assert_eq!(credited(&store).await, ["in_1 0", "in_2 500", "in_3 250", "in_4 0"]);
    credit(&store, customer, "chg_3", 1_001).await;

    // More than was paid cannot be credited, and no other period pays for it.
    assert_eq!(credited(&store).await, ["in_1 1000", "in_2 500", "in_3 250", "in_4 0"]);
    assert_sound(&store).await;
}

#[tokio::test]
async fn a_lowering_that_credits_nothing_is_recorded_too() {
    let store = testing::store().await;
    let (caller, other) = (renter(&store).await, TestCaller::with(&store, 0).await);

    for (change, cents) in [("chg_0", 0), ("chg_1", -5)] {
        credit(&store, caller.customer, change, cents).await;
        credit(&store, caller.customer, change, 500).await;
    }
    credit(&store, other.customer, "chg_2", 500).await;

    assert_eq!(credited(&store).await, ["in_1 0", "in_2 0", "in_3 0", "in_4 0"]);
}

#[tokio::test]
async fn concurrent_readings_of_one_lowering_count_it_once() {
    let store = testing::store().await;
    let customer = renter(&store).await.customer;
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..12 {
        let shared = (*store).clone();
        let change = format!("chg_{}", number % 2);
        tasks.spawn(async move { credit(&shared, customer, &change, 200).await });
    }

    tasks.join_all().await;

    assert_eq!(credited(&store).await, ["in_1 0", "in_2 150", "in_3 250", "in_4 0"]);
    assert_sound(&store).await;
}

#[tokio::test]
async fn slots_are_credited_only_while_no_money_of_their_period_has_gone_back() {
    let store = testing::store().await;
    renter(&store).await;
    let next = PERIOD_END.plus_seconds(30 * 86_400);
    assert!(is_whole(&store, "sub_1", PERIOD_END).await);

    assert_eq!(taken(&store, &refund("re_1", "pi_in_2", 1)).await, 0);

    assert!(!is_whole(&store, "sub_1", PERIOD_END).await);
    assert!(is_whole(&store, "sub_1", next).await);
    assert!(is_whole(&store, "sub_2", PERIOD_END).await);
    let undone = store::reversals::PaymentReversal {
        state: domain::payment::ReversalState::Undone,
        ..refund("re_1", "pi_in_2", 1)
    };
    assert_eq!(taken(&store, &undone).await, 0);
    assert!(is_whole(&store, "sub_1", PERIOD_END).await);
    assert_sound(&store).await;
}

#[tokio::test]
async fn a_refunded_month_of_a_plan_does_not_keep_slots_from_being_credited() {
    let store = testing::store().await;
    let (_, payer) = payer(&store).await;
    let sold = month(30_000, 4_900);
    payments::fulfil(&store, &invoice(&sold, ("in_1", "pi_1"), &payer, 4_900)).await.unwrap();
    pay(&store, &slots("A-2", 500, PERIOD_END), ("in_2", &payer)).await;

    assert_eq!(taken(&store, &refund("re_1", "pi_1", 4_900)).await, 30_000);

    assert!(is_whole(&store, "sub_1", PERIOD_END).await);
    assert_sound(&store).await;
}
