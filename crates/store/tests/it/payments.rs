//! Payments: granted once if they match the order, taken back in proportion, and nothing else.

use domain::charge::Outcome;
use domain::id::{EntryId, OrderId};
use domain::payment::{Mismatch, OrderChannel, OrderState, ReversalKind, ReversalState};
use domain::sales::PartKind;
use store::orders::{self, NewOrder, Order, OrderOpening, OrderQuery};
use store::payments::{self, NewPayment, PaidFor, PaymentOutcome, SoldInvoice, SoldPart};
use store::reversals::{self, PaymentReversal, ReversalEffect};
use store::sales::SoldLine;
use store::{Store, processor_customers, testing, unmatched, usage, verify};

use crate::support::{NOON, TestCaller, TestMetering, assert_sound, credits, is_held, unique};

/// A customer with an id at the processor.
pub(crate) async fn payer(store: &Store) -> (TestCaller, String) {
    let caller = TestCaller::with(store, 0).await;
    let name = link(store, &caller).await;
    (caller, name)
}

/// Gives the customer an id at the processor.
pub(crate) async fn link(store: &Store, caller: &TestCaller) -> String {
    let name = processor_name(caller);
    let linked = processor_customers::link(store, caller.customer, &name, NOON).await.unwrap();
    assert_eq!(linked, name);
    name
}

/// The customer's id at the processor.
pub(crate) fn processor_name(caller: &TestCaller) -> String {
    format!("cus_at_{}", caller.customer)
}

pub(crate) fn new_order<'a>(caller: &TestCaller, processor_customer: &'a str) -> NewOrder<'a> {
    NewOrder {
        id: OrderId::new(NOON, unique()),
        customer: caller.customer,
        channel: OrderChannel::Checkout,
        pack_id: "small",
        packs: 1,
        credits: credits(100),
        amount_cents: 999,
        currency: "usd",
        livemode: false,
        processor_customer,
        payment_method: None,
        idempotency_hash: None,
        at: NOON,
    }
}

pub(crate) async fn ordered(store: &Store, caller: &TestCaller, processor_customer: &str) -> Order {
    match orders::open(store, &new_order(caller, processor_customer)).await.unwrap() {
        OrderOpening::Opened(order) => order,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn paid<'a>(order: &'a Order, payment: &'a str) -> NewPayment<'a> {
    paid_with(order, payment, order.amount_cents)
}

/// Like `paid`, with another amount.
pub(crate) fn paid_with<'a>(order: &'a Order, payment: &'a str, cents: i64) -> NewPayment<'a> {
    NewPayment {
        entry: EntryId::new(NOON, unique()),
        what: PaidFor::Order { id: order.id, subtotal_cents: cents, expires_at: None },
        payment,
        intent: Some(payment),
        processor_customer: Some(&order.processor_customer),
        amount_cents: cents,
        tax_cents: 0,
        currency: &order.currency,
        livemode: false,
        at: NOON,
    }
}

pub(crate) fn reversal<'a>(
    kind: ReversalKind,
    (id, intent): (&'a str, &'a str),
    amount_cents: i64,
    state: ReversalState,
) -> PaymentReversal<'a> {
    PaymentReversal {
        entry: EntryId::new(NOON, unique()),
        id,
        kind,
        intent,
        amount_cents,
        state,
        is_kept: false,
        notes: &[],
        credit_cents: 0,
        read_at: NOON,
        at: NOON,
    }
}

/// A whole month of a plan, in a subscription that began at `NOON`.
pub(crate) fn month(credits: i64, money_cents: i64) -> SoldInvoice {
    let end = NOON.plus_seconds(30 * 86_400);
    SoldInvoice {
        subscription: "sub_1".to_owned(),
        number: "A-0001".to_owned(),
        sold_at: NOON,
        parts: vec![SoldPart {
            kind: PartKind::Plan,
            period_end: end,
            money_cents,
            credits,
            expires_at: Some(NOON.plus_seconds(61 * 86_400)),
            reference: "plan_studio".to_owned(),
        }],
        lines: vec![SoldLine {
            part: 0,
            price_id: Some("price_1".to_owned()),
            amount_cents: money_cents,
            discount_cents: 0,
            quantity: 1,
            starts_at: NOON,
            ends_at: end,
            is_proration: false,
            monthly_credits: credits,
            period_s: 30 * 86_400,
        }],
        livemode: false,
    }
}

pub(crate) fn invoice<'a>(
    sold: &'a SoldInvoice,
    (id, intent): (&'a str, &'a str),
    payer: &'a str,
    cents: i64,
) -> NewPayment<'a> {
    NewPayment {
        entry: EntryId::new(NOON, unique()),
        what: PaidFor::Invoice(sold),
        payment: id,
        intent: Some(intent),
        processor_customer: Some(payer),
        amount_cents: cents,
        tax_cents: 0,
        currency: "usd",
        livemode: false,
        at: NOON,
    }
}

pub(crate) fn refund<'a>(id: &'a str, intent: &'a str, amount_cents: i64) -> PaymentReversal<'a> {
    reversal(ReversalKind::Refund, (id, intent), amount_cents, ReversalState::Standing)
}

pub(crate) fn dispute<'a>(
    id: &'a str,
    intent: &'a str,
    state: ReversalState,
) -> PaymentReversal<'a> {
    reversal(ReversalKind::Dispute, (id, intent), 999, state)
}

async fn apply(store: &Store, reversal: &PaymentReversal<'_>) -> ReversalEffect {
    reversals::apply(store, reversal, &|_| Vec::new()).await.unwrap()
}

pub(crate) async fn taken(store: &Store, reversal: &PaymentReversal<'_>) -> i64 {
    match apply(store, reversal).await {
        ReversalEffect::Booked(change) => change.taken.whole(),
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn state_of(store: &Store, order: &Order) -> OrderState {
    orders::find(store, order.customer, order.id).await.unwrap().unwrap().state
}

pub(crate) async fn available(store: &Store, caller: &TestCaller) -> i64 {
    caller.balance(store).await.available.whole()
}

#[tokio::test]
async fn concurrent_reports_of_a_payment_grant_it_once() {
    let store = testing::store().await;
    let (caller, payer) = payer(&store).await;
    let order = ordered(&store, &caller, &payer).await;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let (shared, order) = ((*store).clone(), order.clone());
        tasks.spawn(async move { payments::fulfil(&shared, &paid(&order, "pi_1")).await.unwrap() });
    }

    let outcomes = tasks.join_all().await;

    let granted = outcomes.iter().filter(|outcome| matches!(outcome, PaymentOutcome::Granted(_)));
    assert_eq!(granted.count(), 1);
    let repeated = outcomes.iter().filter(|outcome| matches!(outcome, PaymentOutcome::Repeated(_)));
    assert_eq!(repeated.count(), 19);
    assert_eq!(available(&store, &caller).await, 100);
    assert_eq!(state_of(&store, &order).await, OrderState::Paid);
    assert_sound(&store).await;
}

#[tokio::test]
async fn payments_that_do_not_match_the_order_are_recorded_and_grant_nothing() {
    let store = testing::store().await;
    let (caller, payer) = payer(&store).await;
    let order = ordered(&store, &caller, &payer).await;
    let right = paid(&order, "pi_1");
    let stranger = OrderId::new(NOON, unique());
    let of_stranger =
        PaidFor::Order { id: stranger, subtotal_cents: order.amount_cents, expires_at: None };
    let wrong = [
        (NewPayment { what: of_stranger, ..right }, Mismatch::UnknownOrder),
        (NewPayment { processor_customer: Some("cus_x"), ..right }, Mismatch::OtherCustomer),
        (NewPayment { processor_customer: None, ..right }, Mismatch::OtherCustomer),
        (paid_with(&order, "pi_1", 998), Mismatch::OtherAmount),
        (paid_with(&order, "pi_1", 99_900), Mismatch::OtherAmount),
        (NewPayment { currency: "eur", ..right }, Mismatch::OtherCurrency),
        (NewPayment { livemode: true, ..right }, Mismatch::OtherMode),
    ];

    for (paid, expected) in wrong {
        let fulfilled = payments::fulfil(&store, &paid).await.unwrap();
        assert!(
            matches!(&fulfilled, PaymentOutcome::Unmatched { reason, .. } if *reason == expected),
            "{fulfilled:?}"
        );
    }

    assert_eq!(available(&store, &caller).await, 0);
    assert_eq!(state_of(&store, &order).await, OrderState::Pending);
    let listed = unmatched::list(&store, 10).await.unwrap();
    assert_eq!(listed.len(), 5);
    let customer = listed.iter().find(|one| one.reason == Mismatch::OtherCustomer).unwrap();
    assert_eq!((customer.object.as_str(), customer.times), ("pi_1", 2));
    // The correct payment is still granted.
    let fulfilled = payments::fulfil(&store, &right).await.unwrap();
    assert!(matches!(fulfilled, PaymentOutcome::Granted(_)), "{fulfilled:?}");
    assert_sound(&store).await;
}

#[tokio::test]
async fn second_payments_of_an_order_are_unmatched() {
    let store = testing::store().await;
    let (caller, payer) = payer(&store).await;
    let order = ordered(&store, &caller, &payer).await;
    let other = ordered(&store, &caller, &payer).await;
    payments::fulfil(&store, &paid(&order, "pi_1")).await.unwrap();

    for wrong in [paid(&order, "pi_2"), paid(&other, "pi_1")] {
        let fulfilled = payments::fulfil(&store, &wrong).await.unwrap();
        let reason = match fulfilled {
            PaymentOutcome::Unmatched { reason, is_new: true, .. } => reason,
            unexpected => panic!("{unexpected:?}"),
        };
        assert_eq!(reason, Mismatch::OtherPayment);
    }

    assert_eq!(available(&store, &caller).await, 100);
    assert_sound(&store).await;
}

#[tokio::test]
async fn a_late_payment_of_a_closed_order_is_granted() {
    let store = testing::store().await;
    let (caller, payer) = payer(&store).await;
    for (state, payment) in [(OrderState::Failed, "pi_1"), (OrderState::Expired, "pi_2")] {
        let order = ordered(&store, &caller, &payer).await;
        assert!(orders::close(&store, order.id, state, None, NOON).await.unwrap());

        let fulfilled = payments::fulfil(&store, &paid(&order, payment)).await.unwrap();

        assert!(matches!(fulfilled, PaymentOutcome::Granted(_)), "{fulfilled:?}");
        assert_eq!(state_of(&store, &order).await, OrderState::Paid);
        let late = orders::close(&store, order.id, state, None, NOON).await.unwrap();
        assert!(!late, "a paid order cannot be closed");
    }
    assert_sound(&store).await;
}

#[tokio::test]
async fn an_invoice_is_granted_once_to_its_payer() {
    let store = testing::store().await;
    let (caller, payer) = payer(&store).await;
    let month = month(30_000, 4_900);
    let paid = invoice(&month, ("in_1", "pi_9"), &payer, 4_900);

    let first = payments::fulfil(&store, &paid).await.unwrap();
    let again = NewPayment { entry: EntryId::new(NOON, unique()), ..paid };
    let second = payments::fulfil(&store, &again).await.unwrap();
    let strange = NewPayment { processor_customer: Some("cus_x"), payment: "in_2", ..again };
    let third = payments::fulfil(&store, &strange).await.unwrap();

    assert!(matches!(first, PaymentOutcome::Granted(_)), "{first:?}");
    assert!(matches!(second, PaymentOutcome::Repeated(_)), "{second:?}");
    assert!(matches!(third, PaymentOutcome::Unmatched { .. }), "{third:?}");
    assert_eq!(taken(&store, &refund("re_1", "pi_9", 2_450)).await, 15_000);
    assert_eq!(available(&store, &caller).await, 15_000);
    assert_sound(&store).await;
}

#[tokio::test]
async fn refunds_take_credits_in_proportion_and_together_all() {
    let store = testing::store().await;
    let (caller, payer) = payer(&store).await;
    let order = ordered(&store, &caller, &payer).await;
    payments::fulfil(&store, &paid(&order, "pi_1")).await.unwrap();

    assert_eq!(taken(&store, &refund("re_1", "pi_1", 333)).await, 33);
    let again = apply(&store, &refund("re_1", "pi_1", 333)).await;
    assert_eq!(again, ReversalEffect::Unchanged);
    assert_eq!(taken(&store, &refund("re_2", "pi_1", 333)).await, 33);
    assert_eq!(state_of(&store, &order).await, OrderState::Paid);
    assert_eq!(taken(&store, &refund("re_3", "pi_1", 333)).await, 34);

    assert_eq!(available(&store, &caller).await, 0);
    assert_eq!(state_of(&store, &order).await, OrderState::Refunded);
    assert_sound(&store).await;
}

#[tokio::test]
async fn a_failed_refund_returns_its_credits() {
    let store = testing::store().await;
    let (caller, payer) = payer(&store).await;
    let order = ordered(&store, &caller, &payer).await;
    payments::fulfil(&store, &paid(&order, "pi_1")).await.unwrap();
    assert_eq!(taken(&store, &refund("re_1", "pi_1", 999)).await, 100);

    let failed = PaymentReversal { state: ReversalState::Undone, ..refund("re_1", "pi_1", 999) };
    assert_eq!(taken(&store, &failed).await, -100);

    assert_eq!(available(&store, &caller).await, 100);
    assert_eq!(state_of(&store, &order).await, OrderState::Paid);
    // An older state changes nothing.
    let late = apply(&store, &refund("re_1", "pi_1", 999)).await;
    assert_eq!(late, ReversalEffect::Unchanged);
    assert_sound(&store).await;
}

#[tokio::test]
async fn a_dispute_of_spent_credits_makes_a_debt_that_blocks_calls() {
    let store = testing::store().await;
    let (caller, payer) = payer(&store).await;
    let order = ordered(&store, &caller, &payer).await;
    payments::fulfil(&store, &paid(&order, "pi_1")).await.unwrap();
    let metering = TestMetering::start(&store).await;
    let hold = caller.hold(80);
    assert!(is_held(&metering.hold(hold.clone()).await));
    assert!(metering.end(hold.call_id, Outcome::Answered).await);

    assert_eq!(taken(&store, &dispute("dp_1", "pi_1", ReversalState::Standing)).await, 100);

    let balance = usage::balance(&store, caller.customer).await.unwrap().unwrap();
    assert_eq!((balance.available, balance.debt), (credits(0), credits(80)));
    assert!(!is_held(&metering.hold(caller.hold(1)).await));
    let next = ordered(&store, &caller, &payer).await;
    payments::fulfil(&store, &paid(&next, "pi_2")).await.unwrap();
    assert_eq!(available(&store, &caller).await, 20);
    assert!(is_held(&metering.hold(caller.hold(1)).await));
    assert_sound(&store).await;
}

#[tokio::test]
async fn inquiries_take_nothing_and_won_disputes_return_everything() {
    let store = testing::store().await;
    let (caller, payer) = payer(&store).await;
    let order = ordered(&store, &caller, &payer).await;
    payments::fulfil(&store, &paid(&order, "pi_1")).await.unwrap();

    assert_eq!(taken(&store, &dispute("dp_1", "pi_1", ReversalState::Waiting)).await, 0);
    assert_eq!(taken(&store, &dispute("dp_1", "pi_1", ReversalState::Standing)).await, 100);
    assert_eq!(available(&store, &caller).await, 0);
    assert_eq!(taken(&store, &dispute("dp_1", "pi_1", ReversalState::Undone)).await, -100);

    assert_eq!(available(&store, &caller).await, 100);
    assert_eq!(state_of(&store, &order).await, OrderState::Paid);
    assert_sound(&store).await;
}

#[tokio::test]
async fn a_disputed_and_refunded_payment_takes_its_credits_once() {
    let store = testing::store().await;
    let (caller, payer) = payer(&store).await;
    let order = ordered(&store, &caller, &payer).await;
    payments::fulfil(&store, &paid(&order, "pi_1")).await.unwrap();

    assert_eq!(taken(&store, &dispute("dp_1", "pi_1", ReversalState::Standing)).await, 100);
    assert_eq!(taken(&store, &refund("re_1", "pi_1", 999)).await, 0);
    // The refund still stands, so winning the dispute returns nothing.
    assert_eq!(taken(&store, &dispute("dp_1", "pi_1", ReversalState::Undone)).await, 0);

    assert_eq!(available(&store, &caller).await, 0);
    assert_sound(&store).await;
}

#[tokio::test]
async fn concurrent_reports_of_a_refund_take_credits_once() {
    let store = testing::store().await;
    let (caller, payer) = payer(&store).await;
    let order = ordered(&store, &caller, &payer).await;
    payments::fulfil(&store, &paid(&order, "pi_1")).await.unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..10 {
        let shared = (*store).clone();
        tasks.spawn(async move { apply(&shared, &refund("re_1", "pi_1", 500)).await });
    }

    let outcomes = tasks.join_all().await;

    let unchanged = outcomes.iter().filter(|outcome| **outcome == ReversalEffect::Unchanged);
    assert_eq!(unchanged.count(), 9);
    assert_eq!(available(&store, &caller).await, 50);
    assert_sound(&store).await;
}

#[tokio::test]
async fn refunds_of_unknown_payments_are_recorded_as_unmatched() {
    let store = testing::store().await;
    let first = apply(&store, &refund("re_1", "pi_0", 500)).await;
    let second = apply(&store, &refund("re_1", "pi_0", 500)).await;

    assert_eq!(first, ReversalEffect::Unmatched { is_new: true });
    assert_eq!(second, ReversalEffect::Unmatched { is_new: false });
    let listed = unmatched::list(&store, 10).await.unwrap();
    assert_eq!(listed[0].reason, Mismatch::UnknownPayment);
}

#[tokio::test]
async fn an_idempotency_key_or_an_open_charge_prevents_a_second_order() {
    let store = testing::store().await;
    let (caller, payer) = payer(&store).await;
    let charge = |key| NewOrder {
        channel: OrderChannel::Charge,
        idempotency_hash: key,
        ..new_order(&caller, &payer)
    };
    let first = match orders::open(&store, &charge(Some([1; 32]))).await.unwrap() {
        OrderOpening::Opened(order) => order,
        other => panic!("{other:?}"),
    };

    let same_key = orders::open(&store, &charge(Some([1; 32]))).await.unwrap();
    let other_key = orders::open(&store, &charge(Some([2; 32]))).await.unwrap();
    let no_key = orders::open(&store, &charge(None)).await.unwrap();
    let other_pack = NewOrder { pack_id: "large", ..charge(None) };
    let other_pack = orders::open(&store, &other_pack).await.unwrap();
    orders::close(&store, first.id, OrderState::Failed, Some("declined"), NOON).await.unwrap();
    let after = orders::open(&store, &charge(None)).await.unwrap();

    assert_eq!(same_key, OrderOpening::Known(first.clone()));
    assert_eq!(other_key, OrderOpening::Busy(first.clone()));
    assert_eq!(no_key, OrderOpening::UnderWay(first));
    assert!(matches!(other_pack, OrderOpening::Opened(_)), "{other_pack:?}");
    assert!(matches!(after, OrderOpening::Opened(_)), "{after:?}");
}

#[tokio::test]
async fn concurrent_charges_of_a_pack_open_one_order() {
    let store = testing::store().await;
    let (caller, payer) = payer(&store).await;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let (shared, caller, payer) = ((*store).clone(), caller.clone(), payer.clone());
        tasks.spawn(async move {
            let new = NewOrder { channel: OrderChannel::Charge, ..new_order(&caller, &payer) };
            orders::open(&shared, &new).await.unwrap()
        });
    }

    let openings = tasks.join_all().await;

    let opened = openings.iter().filter(|opening| matches!(opening, OrderOpening::Opened(_)));
    assert_eq!(opened.count(), 1);
}

#[tokio::test]
async fn orders_are_listed_newest_first_to_their_own_customer() {
    let store = testing::store().await;
    let (caller, payer) = payer(&store).await;
    let (other, other_payer) = self::payer(&store).await;
    let mut expected = Vec::new();
    for _ in 0..5 {
        expected.insert(0, ordered(&store, &caller, &payer).await.id);
    }
    let foreign = ordered(&store, &other, &other_payer).await;

    let page = OrderQuery { customer: caller.customer, before: None, limit: 3 };
    let first = orders::list(&store, &page).await.unwrap();
    let rest = OrderQuery { before: Some(first[2].id), ..page };
    let rest = orders::list(&store, &rest).await.unwrap();

    let ids: Vec<OrderId> = first.iter().chain(&rest).map(|order| order.id).collect();
    assert_eq!(ids, expected);
    assert_eq!(orders::find(&store, caller.customer, foreign.id).await.unwrap(), None);
}

#[tokio::test]
async fn orders_and_payments_cannot_be_changed_or_removed() {
    let store = testing::store().await;
    let (caller, payer) = payer(&store).await;
    let order = ordered(&store, &caller, &payer).await;
    payments::fulfil(&store, &paid(&order, "pi_1")).await.unwrap();
    apply(&store, &refund("re_1", "pi_1", 1)).await;

    for sql in [
        "delete from orders",
        "update orders set credits = 1000",
        "update orders set amount_cents = 1",
        "update orders set state = 'failed'",
        "update orders set payment_id = 'pi_2'",
        "delete from sales",
        "update sales set amount_cents = 1",
        "delete from sale_parts",
        "delete from lots",
        "update lots set spent = spent + 1",
        "delete from reversals",
    ] {
        assert!(testing::run_raw(&store, sql).await.is_err(), "{sql}");
    }
    assert_sound(&store).await;
}

#[tokio::test]
async fn payments_that_disagree_with_the_ledger_are_detected() {
    const ENTRY: &str = "every ledger entry of a payment intent has one paid order of the same \
                         customer and credits";
    let damages = [
        (
            "insert into ledger (id, customer_id, at, kind, amount, balance_after, source, source_id)
             select 'ent_x', customer_id, 1, 'pack', 5, 5, 'pi', 'pi_x' from orders",
            ENTRY,
        ),
        (
            "insert into orders (id, customer_id, channel, pack_id, credits, amount_cents, currency, livemode,
                 processor_customer_id, state, payment_id, created_at, closed_at)
             select 'ord_x', customer_id, channel, pack_id, credits, amount_cents, currency, livemode,
                 processor_customer_id, 'paid', 'pi_y', created_at, 1 from orders",
            "every paid order has one ledger entry of the same customer and credits",
        ),
        (
            "update sale_parts set taken = taken + 200",
            "the refunds and disputes of a sale take at most the credits it granted",
        ),
        (
            "update sales set reversed_cents = reversed_cents + 1",
            "the reversed money of a sale equals its refunds and disputes, and is at most what was charged",
        ),
        (
            "update sale_parts set credits = credits - 1",
            "the credits of each part sold equal the credits of its lot",
        ),
        (
            "update lots set spent = spent + 1, taken = taken - 1",
            "the credits left and spent in a customer's lots equal its available, spent and held credits less its debt",
        ),
        (
            "update lots set spent = spent + 2, taken = taken - 2",
            "the ledger entries of a lot add up to the credits left and spent of it",
        ),
    ];
    for (sql, rule) in damages {
        let store = testing::store().await;
        let (caller, payer) = payer(&store).await;
        let order = ordered(&store, &caller, &payer).await;
        payments::fulfil(&store, &paid(&order, "pi_1")).await.unwrap();
        apply(&store, &refund("re_1", "pi_1", 500)).await;
        assert_sound(&store).await;

        assert_eq!(testing::run_raw(&store, sql).await.unwrap(), 1, "{sql}");

        let found = verify::check(&store, NOON).await.unwrap();
        assert!(found.iter().any(|violation| violation.rule == rule), "{rule}: {found:?}");
    }
}

#[tokio::test]
async fn plan_credits_that_differ_from_the_invoice_lines_are_detected() {
    let store = testing::store().await;
    let (_, payer) = payer(&store).await;
    let mut sold = month(30_000, 4_900);
    sold.lines[0].monthly_credits = 29_999;

    payments::fulfil(&store, &invoice(&sold, ("in_1", "pi_9"), &payer, 4_900)).await.unwrap();

    let found = verify::check(&store, NOON).await.unwrap();
    let rules: Vec<_> = found.iter().map(|violation| violation.rule).collect();
    assert_eq!(rules, ["a plan's credits equal what its paid lines bought, rounded up"]);
}

#[tokio::test]
async fn refunds_of_a_month_and_its_upgrade_take_all_their_credits() {
    let store = testing::store().await;
    let (caller, payer) = payer(&store).await;
    let (base, mut up) = (month(30_000, 4_900), month(120_000, 15_000));
    "A-0002".clone_into(&mut up.number);
    // The upgrade's payment is reported first.
    payments::fulfil(&store, &invoice(&up, ("in_2", "pi_2"), &payer, 15_000)).await.unwrap();
    payments::fulfil(&store, &invoice(&base, ("in_1", "pi_1"), &payer, 4_900)).await.unwrap();
    assert_eq!(available(&store, &caller).await, 150_000);

    assert_eq!(taken(&store, &refund("re_1", "pi_1", 4_900)).await, 39_200);
    assert_eq!(taken(&store, &refund("re_2", "pi_2", 15_000)).await, 110_800);

    assert_eq!(available(&store, &caller).await, 0);
    assert_sound(&store).await;
}

#[tokio::test]
async fn returned_credits_of_an_expired_month_are_valid_for_30_days() {
    let store = testing::store().await;
    let (caller, payer) = payer(&store).await;
    let sold = month(30_000, 4_900);
    payments::fulfil(&store, &invoice(&sold, ("in_1", "pi_1"), &payer, 4_900)).await.unwrap();
    let metering = TestMetering::start(&store).await;
    let hold = caller.hold(100);
    assert!(is_held(&metering.hold(hold.clone()).await));
    assert!(metering.end(hold.call_id, Outcome::Answered).await);
    let end = NOON.plus_seconds(61 * 86_400);
    let entry = || EntryId::new(end, unique());

    assert_eq!(store::lots::expire_due(&store, end.plus_seconds(-1), entry).await.unwrap(), 0);
    assert_eq!(store::lots::expire_due(&store, end, entry).await.unwrap(), 1);

    assert_eq!(available(&store, &caller).await, 0);
    // A full refund takes all credits; those that expired are already gone.
    let late = PaymentReversal { at: end, ..refund("re_1", "pi_1", 4_900) };
    assert_eq!(taken(&store, &late).await, 100);
    let failed = PaymentReversal { entry: entry(), state: ReversalState::Undone, ..late };
    assert_eq!(taken(&store, &failed).await, -30_000);
    let lots = store::lots::list(&store, caller.customer, end).await.unwrap();
    let shown: Vec<_> = lots.iter().map(|lot| (lot.left, lot.expires_at)).collect();
    assert_eq!(shown, [(29_900, Some(end.plus_seconds(30 * 86_400)))]);
    assert_sound(&store).await;
}
