//! Invoices: mirrored, moving forward only, listed for their customer, read again within limits.

use domain::id::CustomerId;
use domain::invoice::InvoiceState;
use domain::sales::PartKind;
use domain::time::Timestamp;
use store::invoices::{
    self, InvoiceChange, InvoiceQuery, InvoiceSums, ListingClaim, StoredInvoice, StoredInvoiceLine,
};
use store::{Store, testing};

use crate::support::{NOON, TestCaller};

pub(crate) fn invoice(customer: CustomerId, id: &str, created_at: Timestamp) -> StoredInvoice {
    let line = |place: i64| StoredInvoiceLine {
        kind: PartKind::Plan,
        reference: Some("pro".to_owned()),
        description: format!("line {place}"),
        quantity: 1,
        amount_cents: 100 - 300 * place,
        discount_cents: 0,
        tax_cents: 19,
        starts_at: NOON,
        ends_at: NOON.plus_seconds(60),
        is_proration: place > 0,
    };
    StoredInvoice {
        id: id.to_owned(),
        customer,
        number: format!("A-{id}"),
        state: InvoiceState::Open,
        reason: "subscription_cycle".to_owned(),
        subscription: Some("sub_1".to_owned()),
        order: None,
        currency: "usd".to_owned(),
        sums: InvoiceSums { subtotal_cents: 100, total_cents: 119, ..InvoiceSums::default() },
        hosted_url: None,
        pdf_url: None,
        created_at,
        paid_at: None,
        read_at: NOON,
        lines: vec![line(0), line(1)],
    }
}

const fn paid(id: &str, state: InvoiceState) -> InvoiceChange<'_> {
    InvoiceChange {
        id,
        state,
        due_cents: 119,
        paid_cents: 119,
        hosted_url: Some("https://pay.example.com/i"),
        pdf_url: None,
        paid_at: None,
        read_at: NOON,
    }
}

async fn listed(store: &Store, query: &InvoiceQuery<'_>) -> Vec<String> {
    let found = invoices::list(store, query).await.unwrap();
    assert!(found.iter().all(|invoice| invoice.lines.len() == 2), "{found:?}");
    found.into_iter().map(|invoice| invoice.id).collect()
}

#[tokio::test]
async fn an_invoice_never_goes_back_to_an_earlier_state() {
    let store = testing::store().await;
    let customer = TestCaller::with(&store, 0).await.customer;
    let new = invoice(customer, "in_1", NOON);
    invoices::update(&store, &paid("in_1", InvoiceState::Paid)).await.unwrap();
    assert_eq!(invoices::state_of(&store, "in_1").await.unwrap(), None);
    invoices::insert(&store, &new).await.unwrap();
    invoices::insert(&store, &new).await.unwrap();
    assert_eq!(invoices::find(&store, customer, "in_1").await.unwrap(), Some(new));

    for state in [InvoiceState::Uncollectible, InvoiceState::Paid, InvoiceState::Open] {
        invoices::update(&store, &paid("in_1", state)).await.unwrap();
    }

    let state = invoices::state_of(&store, "in_1").await.unwrap();
    assert_eq!(state, Some(InvoiceState::Paid));
    let found = invoices::find(&store, customer, "in_1").await.unwrap().unwrap();
    assert_eq!((found.sums.paid_cents, found.lines.len()), (119, 2));
}

#[tokio::test]
async fn invoices_are_listed_newest_first_for_their_customer_only() {
    let store = testing::store().await;
    let customer = TestCaller::with(&store, 0).await.customer;
    let other = TestCaller::with(&store, 0).await.customer;
    // Two of one second are in the order of their numbers.
    for (id, at) in [("in_a", 0), ("in_c", 1), ("in_b", 1), ("in_d", 2)] {
        let new = invoice(customer, id, NOON.plus_seconds(at));
        invoices::insert(&store, &new).await.unwrap();
    }
    invoices::insert(&store, &invoice(other, "in_x", NOON)).await.unwrap();
    let query = InvoiceQuery { customer, before: None, limit: 3 };

    let first = listed(&store, &query).await;
    let rest = listed(&store, &InvoiceQuery { before: Some("in_b"), ..query }).await;
    let foreign = listed(&store, &InvoiceQuery { before: Some("in_x"), ..query }).await;

    assert_eq!(first, ["in_d", "in_c", "in_b"]);
    assert_eq!((rest, foreign), (vec!["in_a".to_owned()], Vec::new()));
    assert_eq!(invoices::find(&store, other, "in_a").await.unwrap(), None);
}

#[tokio::test]
async fn one_request_at_a_time_lists_at_the_processor_and_a_failure_is_tried_again() {
    let store = testing::store().await;
    let customer = TestCaller::with(&store, 0).await.customer;
    let claim = async |after_s: i64| {
        let now = NOON.plus_seconds(after_s);
        invoices::claim_listing(&store, customer, now, now.plus_seconds(-3_600)).await.unwrap()
    };

    assert_eq!(claim(0).await, ListingClaim::First);
    assert_eq!(claim(1).await, ListingClaim::NotDue);
    invoices::listing_failed(&store, customer, ListingClaim::First, NOON).await.unwrap();
    assert_eq!(claim(2).await, ListingClaim::First);
    assert_eq!(claim(3_603).await, ListingClaim::Again);
    assert_eq!(claim(3_604).await, ListingClaim::NotDue);
    invoices::listing_failed(&store, customer, ListingClaim::Again, NOON.plus_seconds(60))
        .await
        .unwrap();
    assert_eq!(claim(3_661).await, ListingClaim::Again);

    invoices::insert(&store, &invoice(customer, "in_1", NOON)).await.unwrap();
    let read = async |after_s: i64| {
        let now = NOON.plus_seconds(after_s);
        invoices::claim_reading(&store, "in_1", now, now.plus_seconds(-3_600)).await.unwrap()
    };
    assert_eq!([read(3_600).await, read(3_601).await, read(3_602).await], [false, true, false]);
}
