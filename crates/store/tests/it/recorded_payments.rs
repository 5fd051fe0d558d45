//! What is read of payments that are recorded: by day, by order, by intent, and with receipts.

use domain::id::EntryId;
use domain::payment::PaymentSource;
use domain::time::Timestamp;
use store::erasure::{self, ErasureMode, ErasureOutcome};
use store::invoices::{self, StoredInvoice};
use store::order_payments::{self, OrderPayment, OrderReceipt};
use store::orders::{self, NewOrder, Order, OrderOpening};
use store::payments::{self, NewPayment, PaymentReceipt};
use store::{Store, money_back, recorded_payments, testing};

use crate::payments::{invoice, month, new_order, ordered, paid, payer, refund, taken};
use crate::support::{NOON, TestCaller, assert_sound, credits, entry, unique};

const MIDNIGHT: Timestamp = NOON.plus_seconds(12 * 3_600);

async fn opened_at(store: &Store, (caller, payer): (&TestCaller, &str), at: Timestamp) -> Order {
    let new = NewOrder { at, ..new_order(caller, payer) };
    match orders::open(store, &new).await.unwrap() {
        OrderOpening::Opened(order) => order,
        other => panic!("{other:?}"),
    }
}

fn receipt<'a>(order: &Order, charge_id: &'a str, url: &'a str) -> OrderReceipt<'a> {
    OrderReceipt { order: order.id, charge_id, url }
}

async fn url_of(store: &Store, order: &Order) -> Option<String> {
    let listed = order_payments::list(store, order.customer, NOON, NOON).await.unwrap();
    listed[&order.id].receipt_url.clone()
}

#[tokio::test]
async fn payments_are_recorded_on_the_utc_day_of_their_instant() {
    let store = testing::store().await;
    let (caller, payer) = payer(&store).await;
    let end = MIDNIGHT.plus_seconds(86_400);
    for (payment, at) in [
        ("pi_before", MIDNIGHT.plus_micros(-1)),
        ("pi_last", end.plus_micros(-1)),
        ("pi_first", MIDNIGHT),
        ("pi_after", end),
    ] {
        let order = ordered(&store, &caller, &payer).await;
        payments::fulfil(&store, &NewPayment { at, ..paid(&order, payment) }).await.unwrap();
    }
    let on = async |at: Timestamp| -> Vec<String> {
        let listed = recorded_payments::list(&store, at.day()).await.unwrap();
        assert!(listed.iter().all(|one| (one.cents, one.currency.as_str()) == (999, "usd")));
        listed.into_iter().map(|one| one.payment).collect()
    };

    assert_eq!(on(NOON).await, ["pi_before"]);
    assert_eq!(on(MIDNIGHT).await, ["pi_first", "pi_last"]);
    assert_eq!(on(end).await, ["pi_after"]);
    assert_eq!(on(NOON.plus_seconds(-86_400)).await, [""; 0]);
    assert_sound(&store).await;
}

#[tokio::test]
async fn a_payment_is_known_by_its_intent_once_it_is_recorded() {
    let store = testing::store().await;
    let (caller, payer) = payer(&store).await;
    let order = ordered(&store, &caller, &payer).await;
    let sold = month(30_000, 4_900);
    let known = async |intent: &str| {
        let sale = money_back::sale_paid_by(&store, intent).await.unwrap();
        sale.map(|sale| (sale.id, sale.source, sale.customer))
    };
    let granted = async |payment: &str| recorded_payments::is_granted(&store, payment).await;
    assert_eq!(known("pi_1").await, None);
    assert!(!granted("pi_1").await.unwrap());

    payments::fulfil(&store, &paid(&order, "pi_1")).await.unwrap();
    payments::fulfil(&store, &invoice(&sold, ("in_1", "pi_2"), &payer, 4_900)).await.unwrap();

    let pack = ("pi_1".to_owned(), PaymentSource::Intent, caller.customer);
    assert_eq!(known("pi_1").await, Some(pack));
    let month = ("in_1".to_owned(), PaymentSource::Invoice, caller.customer);
    assert_eq!(known("pi_2").await, Some(month.clone()));
    // An invoice is recorded under its own id, and its money is known by the intent.
    assert_eq!(known("in_1").await, None);
    let by_id = money_back::sale(&store, "in_1").await.unwrap();
    assert_eq!(by_id.map(|sale| (sale.id, sale.source, sale.customer)), Some(month));
    assert!(granted("pi_1").await.unwrap() && granted("in_1").await.unwrap());
    assert!(!granted("pi_2").await.unwrap());
    for odd in ["", "%", "pi_", "pi__", "PI_1", "pi_1' or '1'='1"] {
        assert_eq!(known(odd).await, None, "{odd}");
        assert!(!granted(odd).await.unwrap(), "{odd}");
    }
}

#[tokio::test]
async fn an_unmatched_payment_is_not_recorded() {
    let store = testing::store().await;
    let (caller, payer) = payer(&store).await;
    let order = ordered(&store, &caller, &payer).await;
    let wrong = NewPayment { currency: "eur", ..paid(&order, "pi_1") };

    payments::fulfil(&store, &wrong).await.unwrap();

    assert!(!recorded_payments::is_granted(&store, "pi_1").await.unwrap());
    assert_eq!(recorded_payments::list(&store, NOON.day()).await.unwrap(), []);
    assert_eq!(money_back::sale_paid_by(&store, "pi_1").await.unwrap(), None);
    assert_eq!(payments::receipt(&store, order.id).await.unwrap(), None);
}

#[tokio::test]
async fn a_receipt_shows_what_the_order_granted_and_the_balance_now() {
    let store = testing::store().await;
    let (caller, payer) = payer(&store).await;
    let (order, other) =
        (ordered(&store, &caller, &payer).await, ordered(&store, &caller, &payer).await);
    let shown = async || payments::receipt(&store, order.id).await.unwrap();
    let receipt = |balance: i64| PaymentReceipt {
        customer: caller.customer,
        credits: credits(100),
        balance: credits(balance),
    };
    assert_eq!(shown().await, None);

    payments::fulfil(&store, &paid(&order, "pi_1")).await.unwrap();
    assert_eq!(shown().await, Some(receipt(100)));
    payments::fulfil(&store, &paid(&other, "pi_2")).await.unwrap();
    assert_eq!(shown().await, Some(receipt(200)));
    assert_eq!(taken(&store, &refund("re_1", "pi_1", 999)).await, 100);
    assert_eq!(shown().await, Some(receipt(100)));
}

#[tokio::test]
async fn payments_are_listed_by_the_time_of_their_orders_with_both_ends() {
    let store = testing::store().await;
    let (caller, payer) = payer(&store).await;
    let (other, other_payer) = crate::payments::payer(&store).await;
    let (start, end) = (NOON, NOON.plus_seconds(10));
    let who = (&caller, payer.as_str());
    let first = opened_at(&store, who, start).await;
    let last = opened_at(&store, who, end).await;
    opened_at(&store, who, NOON.plus_seconds(5)).await;
    let foreign = opened_at(&store, (&other, &other_payer), NOON.plus_seconds(5)).await;
    let late = NOON.plus_seconds(900);
    for (order, payment) in [(&first, "pi_1"), (&last, "pi_2"), (&foreign, "pi_3")] {
        let money =
            NewPayment { amount_cents: 1_189, tax_cents: 190, at: late, ..paid(order, payment) };
        payments::fulfil(&store, &money).await.unwrap();
    }
    let listed = async |from: Timestamp, until: Timestamp| {
        let found = order_payments::list(&store, caller.customer, from, until).await.unwrap();
        found.into_keys().collect::<Vec<_>>()
    };

    let mut both = vec![first.id, last.id];
    both.sort();
    assert_eq!(listed(start, end).await, both);
    assert_eq!(listed(start.plus_micros(1), end).await, [last.id]);
    assert_eq!(listed(start, end.plus_micros(-1)).await, [first.id]);
    assert_eq!(listed(end, start).await, []);
    let found = order_payments::list(&store, caller.customer, start, start).await.unwrap();
    let expected = OrderPayment { charged_cents: 1_189, tax_cents: 190, ..OrderPayment::default() };
    assert_eq!(found[&first.id], expected);
    assert_sound(&store).await;
}

#[tokio::test]
async fn a_payment_is_listed_with_its_first_invoice_of_the_same_customer() {
    let store = testing::store().await;
    let (caller, payer) = payer(&store).await;
    let (other, _) = crate::payments::payer(&store).await;
    let order = opened_at(&store, (&caller, &payer), NOON).await;
    payments::fulfil(&store, &paid(&order, "pi_1")).await.unwrap();
    for (customer, id) in
        [(other.customer, "in_0"), (caller.customer, "in_2"), (caller.customer, "in_1")]
    {
        let made = crate::invoices::invoice(customer, id, NOON);
        let made = StoredInvoice { order: Some(order.id), subscription: None, ..made };
        invoices::insert(&store, &made).await.unwrap();
    }

    let found = order_payments::list(&store, caller.customer, NOON, NOON).await.unwrap();

    assert_eq!(found.len(), 1, "each payment is listed once");
    assert_eq!(found[&order.id].invoice_id.as_deref(), Some("in_1"));
}

#[tokio::test]
async fn the_last_receipt_of_an_order_is_kept() {
    let store = testing::store().await;
    let (caller, payer) = payer(&store).await;
    let order = opened_at(&store, (&caller, &payer), NOON).await;
    let other = opened_at(&store, (&caller, &payer), NOON).await;
    for (bought, payment) in [(&order, "pi_1"), (&other, "pi_2")] {
        payments::fulfil(&store, &paid(bought, payment)).await.unwrap();
    }
    assert!(!order_payments::has_receipt(&store, order.id).await.unwrap());

    let (old, new) = ("https://pay.example.com/r?a=1&b='%25'", "https://pay.example.com/é");
    order_payments::note_receipt(&store, &receipt(&order, "ch_1", old)).await.unwrap();
    assert_eq!(url_of(&store, &order).await.as_deref(), Some(old));
    order_payments::note_receipt(&store, &receipt(&order, "ch_2", new)).await.unwrap();

    assert_eq!(url_of(&store, &order).await.as_deref(), Some(new));
    assert_eq!(url_of(&store, &other).await, None);
    assert!(order_payments::has_receipt(&store, order.id).await.unwrap());
    assert!(!order_payments::has_receipt(&store, other.id).await.unwrap());
    let unknown = domain::id::OrderId::new(NOON, unique());
    let stray = OrderReceipt { order: unknown, charge_id: "ch_3", url: "https://example.com" };
    order_payments::note_receipt(&store, &stray).await.unwrap();
    assert!(!order_payments::has_receipt(&store, unknown).await.unwrap());
}

#[tokio::test]
async fn an_erased_customers_order_gets_no_receipt_again() {
    let store = testing::store().await;
    let (caller, payer) = payer(&store).await;
    let order = ordered(&store, &caller, &payer).await;
    payments::fulfil(&store, &paid(&order, "pi_1")).await.unwrap();
    let address = "https://pay.example.com/r";
    order_payments::note_receipt(&store, &receipt(&order, "ch_1", address)).await.unwrap();
    let by = entry(caller.customer);
    let erased = erasure::erase(&store, &by, ErasureMode::Commit, &|_| Vec::new()).await.unwrap();
    assert!(matches!(erased, ErasureOutcome::Erased(_)), "{erased:?}");
    assert!(!order_payments::has_receipt(&store, order.id).await.unwrap());

    // The processor reports the charge once more.
    order_payments::note_receipt(&store, &receipt(&order, "ch_1", address)).await.unwrap();

    assert!(!order_payments::has_receipt(&store, order.id).await.unwrap());
    assert!(recorded_payments::is_granted(&store, "pi_1").await.unwrap());
    assert_sound(&store).await;
}

#[tokio::test]
async fn credits_paid_for_after_their_period_can_be_spent_for_30_days() {
    let store = testing::store().await;
    let (caller, payer) = payer(&store).await;
    let sold = month(100, 4_900);
    let period_end = sold.parts[0].period_end;
    let own_end = sold.parts[0].expires_at.unwrap();
    let day = 86_400;
    for (number, at, ends) in [
        (1, period_end, own_end),
        (2, period_end.plus_micros(1), own_end),
        (3, own_end.plus_seconds(-30 * day + 1), own_end.plus_seconds(1)),
        (4, own_end, own_end.plus_seconds(30 * day)),
    ] {
        let (id, intent) = (format!("in_{number}"), format!("pi_{number}"));
        let entry = EntryId::new(at, unique());
        let mut one = sold.clone();
        one.number = format!("A-{number}");
        let late = NewPayment { at, entry, ..invoice(&one, (&id, &intent), &payer, 4_900) };
        payments::fulfil(&store, &late).await.unwrap();

        let lots = store::lots::list(&store, caller.customer, at).await.unwrap();
        let granted = lots.iter().find(|lot| lot.granted_at == at).unwrap();
        assert_eq!(granted.expires_at, Some(ends), "paid at {}", at.to_rfc3339());
    }
}
