//! Customers as the operator lists and searches them.

use domain::charge::Outcome;
use domain::customer::CustomerState;
use domain::id::{CustomerId, RequestId};
use domain::invoice::InvoiceState;
use domain::subscription::SubscriptionStatus::{Active, Canceled};
use store::customer_list::{self, CustomerQuery};
use store::customer_search::{self, FoundCustomer};
use store::customers::{self, CustomerCreation, NewCustomer};
use store::disputes::{self, DisputeReading};
use store::erasure::{self, ErasureMode};
use store::invoices::{self, InvoiceSums, StoredInvoice};
use store::metering::Hold;
use store::order_payments::{self, OrderReceipt};
use store::reversals;
use store::{Store, ledger, orders, suspensions, testing};

use crate::disputes::reading;
use crate::exports::created;
use crate::ledger::purchase;
use crate::payments::{invoice, month, ordered, paid, payer, refund};
use crate::subscriptions::{apply, pro};
use crate::support::{NOON, TestCaller, TestMetering, entry, is_held, new_customer, unique};

async fn registered(store: &Store, email: &str) -> CustomerId {
    let new = NewCustomer { email_verified_at: Some(NOON), ..new_customer(email) };
    assert_eq!(customers::create(store, &new).await.unwrap(), CustomerCreation::Created);
    new.id
}

async fn listed(store: &Store, query: &CustomerQuery<'_>) -> Vec<CustomerId> {
    let found = customer_list::list(store, query).await.unwrap();
    found.into_iter().map(|customer| customer.id).collect()
}

fn all() -> CustomerQuery<'static> {
    CustomerQuery { limit: 100, ..CustomerQuery::default() }
}

async fn search(store: &Store, text: &str) -> Vec<FoundCustomer> {
    customer_search::find(store, text).await.unwrap()
}

/// The one customer that the text names, and what matched. The addresses of test callers contain
/// their ids, which is not looked at.
async fn named(store: &Store, text: &str) -> (CustomerId, &'static str) {
    let mut found = search(store, text).await;
    if text.parse::<CustomerId>().is_ok() {
        found.retain(|one| one.matched != "email");
    }
    assert_eq!(found.len(), 1, "{text}: {found:?}");
    (found[0].id, found[0].matched)
}

#[tokio::test]
async fn customers_are_listed_newest_first_in_pages() {
    let store = testing::store().await;
    let mut expected = Vec::new();
    for number in 0..5 {
        expected.push(registered(&store, &format!("c{number}@example.com")).await);
    }
    expected.sort();
    expected.reverse();

    for limit in 1..=6 {
        let (mut query, mut found) = (CustomerQuery { limit, ..all() }, Vec::new());
        loop {
            let page = listed(&store, &query).await;
            let Some(last) = page.last() else { break };
            query.before = Some(*last);
            found.extend(page);
        }
        assert_eq!(found, expected, "in pages of {limit}");
    }
    assert_eq!(listed(&store, &CustomerQuery { limit: 0, ..all() }).await, []);
}

#[tokio::test]
async fn a_text_is_found_in_addresses_as_it_is_written() {
    let store = testing::store().await;
    let underscore = registered(&store, "a_b@example.com").await;
    let letter = registered(&store, "axb@example.com").await;
    let percent = registered(&store, "a%b@example.com").await;
    let found = async |text| {
        let mut found = listed(&store, &CustomerQuery { text: Some(text), ..all() }).await;
        found.sort();
        found
    };
    let mut everyone = vec![underscore, letter, percent];
    everyone.sort();

    assert_eq!(found("a_b").await, [underscore]);
    assert_eq!(found("a%b").await, [percent]);
    assert_eq!(found("axb@").await, [letter]);
    assert_eq!(found("@example.com").await, everyone);
    assert_eq!(found("%").await, [percent]);
    for none in ["a__b", "' or 1=1", "axb@example.com ", "\\"] {
        assert_eq!(found(none).await, [], "{none}");
    }
}

#[tokio::test]
async fn customers_are_listed_by_what_they_can_do() {
    let store = testing::store().await;
    let active = registered(&store, "active@example.com").await;
    let unconfirmed = new_customer("unconfirmed@example.com");
    customers::create(&store, &unconfirmed).await.unwrap();
    let suspended = registered(&store, "suspended@example.com").await;
    suspensions::suspend(&store, "a test", &entry(suspended)).await.unwrap();
    let closed = registered(&store, "closed@example.com").await;
    customers::disable(&store, closed, NOON).await.unwrap();
    let erased = registered(&store, "erased@example.com").await;
    let by = entry(erased);
    erasure::erase(&store, &by, ErasureMode::Commit, &|_| Vec::new()).await.unwrap();

    for (state, expected) in [
        (CustomerState::Active, active),
        (CustomerState::Unconfirmed, unconfirmed.id),
        (CustomerState::Suspended, suspended),
        (CustomerState::Closed, closed),
        (CustomerState::Erased, erased),
    ] {
        let query = CustomerQuery { state: Some(state), ..all() };
        let found = customer_list::list(&store, &query).await.unwrap();
        assert_eq!(found.len(), 1, "{state}");
        assert_eq!((found[0].id, found[0].state), (expected, state));
        let page = CustomerQuery { limit: 1, ..query };
        assert_eq!(listed(&store, &page).await, [expected], "the page is filled after filtering");
    }
}

#[tokio::test]
async fn customers_are_listed_by_plan_and_by_debt() {
    let store = testing::store().await;
    let (payer, former) = (TestCaller::with(&store, 20).await, TestCaller::with(&store, 0).await);
    apply(&store, payer.customer, &pro(Active, 0, 0)).await;
    apply(&store, former.customer, &pro(Canceled, 0, 0)).await;
    let debtor = TestCaller::with(&store, 10).await;
    let metering = TestMetering::start(&store).await;
    let hold = debtor.hold(10);
    assert!(is_held(&metering.hold(hold.clone()).await));
    assert!(metering.end(hold.call_id, Outcome::Answered).await);
    metering.stop().await;
    ledger::remove(&store, &purchase(&debtor, 4, "re_1")).await.unwrap();
    let with_plan = async |plan| {
        let mut found = listed(&store, &CustomerQuery { plan: Some(plan), ..all() }).await;
        found.sort();
        found
    };

    assert_eq!(with_plan("pro").await, [payer.customer]);
    assert_eq!(with_plan("none").await, [former.customer, debtor.customer]);
    assert_eq!(with_plan("p%").await, []);
    let owing = CustomerQuery { in_debt: true, ..all() };
    let found = customer_list::list(&store, &owing).await.unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].id, found[0].debt.whole()), (debtor.customer, 4));
    assert_eq!((found[0].balance.whole(), found[0].plan.as_deref()), (0, None));
    let on_pro = CustomerQuery { plan: Some("pro"), ..all() };
    let subscribed = customer_list::list(&store, &on_pro).await.unwrap();
    assert_eq!((subscribed[0].subscription, subscribed[0].balance.whole()), (Active, 20));
    let both = CustomerQuery { plan: Some("pro"), ..owing };
    assert_eq!(listed(&store, &both).await, []);
}

#[tokio::test]
async fn a_customer_is_found_by_whatever_is_its_own() {
    let store = testing::store().await;
    let (caller, name) = payer(&store).await;
    let (other, _) = payer(&store).await;
    crate::support::grant(&store, caller.customer, 100).await;
    let order = ordered(&store, &caller, &name).await;
    orders::set_session(&store, order.id, "cs_1").await.unwrap();
    store::payments::fulfil(&store, &paid(&order, "pi_1")).await.unwrap();
    let sold = month(30_000, 4_900);
    let paid_month = invoice(&sold, ("in_1", "pi_2"), &name, 4_900);
    store::payments::fulfil(&store, &paid_month).await.unwrap();
    let receipt = OrderReceipt { order: order.id, charge_id: "ch_1", url: "https://receipt" };
    order_payments::note_receipt(&store, &receipt).await.unwrap();
    reversals::apply(&store, &refund("re_1", "pi_1", 1), &|_| Vec::new()).await.unwrap();
    for (id, charge) in [("dp_2", "ch_2"), ("issfr_1", "ch_2")] {
        let reading = DisputeReading { id, charge: Some(charge), ..reading("pi_2") };
        disputes::note(&store, &reading, &|_| Vec::new()).await.unwrap().unwrap();
    }
    invoices::insert(&store, &void_invoice(caller.customer)).await.unwrap();
    let metering = TestMetering::start(&store).await;
    let hold = Hold { request_id: "my-request-1".to_owned(), ..caller.hold(1) };
    assert!(is_held(&metering.hold(hold).await));
    metering.stop().await;
    let export = created(&store, &caller).await;
    apply(&store, caller.customer, &pro(Active, 0, 0)).await;

    for (text, matched) in [
        (caller.customer.to_string(), "customer"),
        (caller.key.to_string(), "key"),
        (name, "processor_customer"),
        ("sub_1".to_owned(), "subscription"),
        (order.id.to_string(), "order"),
        ("pi_1".to_owned(), "payment"),
        ("cs_1".to_owned(), "checkout"),
        ("in_1".to_owned(), "invoice"),
        ("pi_2".to_owned(), "payment"),
        ("ch_1".to_owned(), "charge"),
        ("ch_2".to_owned(), "charge"),
        ("re_1".to_owned(), "refund"),
        ("dp_2".to_owned(), "dispute"),
        ("issfr_1".to_owned(), "warning"),
        ("in_void".to_owned(), "invoice"),
        ("ACME-0007".to_owned(), "invoice_number"),
        ("acme-0007".to_owned(), "invoice_number"),
        ("my-request-1".to_owned(), "request"),
        (export.to_string(), "export"),
    ] {
        assert_eq!(named(&store, &text).await, (caller.customer, matched), "{text}");
    }
    // Both have connected an account with this id, and with this id at its platform.
    let both = search(&store, "ada").await;
    let mut customers: Vec<_> = both.iter().map(|found| found.id).collect();
    customers.sort();
    assert_eq!(customers, [caller.customer, other.customer]);
    assert!(search(&store, "4711").await.iter().all(|one| one.matched == "platform_account"));
    for none in ["", "%", "_", "sub_", "pi_9", "' or '1'='1", "cus_"] {
        let found = search(&store, none).await;
        assert!(found.iter().all(|one| one.matched == "email"), "{none}: {found:?}");
    }
}

/// An invoice that was never paid.
fn void_invoice(customer: CustomerId) -> StoredInvoice {
    StoredInvoice {
        id: "in_void".to_owned(),
        customer,
        number: "ACME-0007".to_owned(),
        state: InvoiceState::Void,
        reason: "subscription_cycle".to_owned(),
        subscription: Some("sub_9".to_owned()),
        order: None,
        currency: "usd".to_owned(),
        sums: InvoiceSums::default(),
        hosted_url: None,
        pdf_url: None,
        created_at: NOON,
        paid_at: None,
        read_at: NOON,
        lines: Vec::new(),
    }
}

#[tokio::test]
async fn an_address_is_found_by_any_part_of_it_in_either_case() {
    let store = testing::store().await;
    let ada = registered(&store, "ada.b@example.com").await;
    registered(&store, "bob@example.com").await;

    for text in ["ada.b@example.com", "ADA", "a.b@", "Ada.B@Example.com"] {
        assert_eq!(named(&store, text).await, (ada, "email"), "{text}");
    }
    assert_eq!(search(&store, "@example.com").await.len(), 2);
    assert_eq!(search(&store, "adab").await, []);
}

#[tokio::test]
async fn a_key_is_found_by_the_start_of_its_secret_and_more() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 0).await;
    let new = crate::support::new_key(crate::support::secret(77));
    crate::support::create_key(&store, caller.customer, &new).await;
    let shown = new.secret.shown_prefix;

    assert_eq!(named(&store, &shown).await, (caller.customer, "key_prefix"));
    let whole = format!("{shown}_the_rest_of_it");
    let found = named(&store, &whole).await;
    assert_eq!(found, (caller.customer, "key_prefix"));
    let value = &search(&store, &whole).await[0].value;
    assert_eq!(*value, shown, "the result never has more of the secret than is stored");
    assert_eq!(search(&store, &shown[..shown.len() - 1]).await, []);
}

#[tokio::test]
async fn a_call_names_its_customer_by_its_id_and_by_the_id_of_its_request() {
    let store = testing::store().await;
    let (caller, other) = (TestCaller::with(&store, 5).await, TestCaller::with(&store, 5).await);
    let metering = TestMetering::start(&store).await;
    let request = RequestId::new(NOON, unique()).to_string();
    let hold = Hold { request_id: request.clone(), ..caller.hold(1) };
    assert!(is_held(&metering.hold(hold.clone()).await));
    assert!(is_held(&metering.hold(other.hold(1)).await));

    assert_eq!(named(&store, &request).await, (caller.customer, "request"));
    assert_eq!(named(&store, &hold.call_id.to_string()).await, (caller.customer, "request"));
    let unknown = RequestId::new(NOON, unique()).to_string();
    assert_eq!(search(&store, &unknown).await, []);
    metering.stop().await;
}

#[tokio::test]
async fn at_most_twenty_customers_are_found_by_one_kind_of_match() {
    let store = testing::store().await;
    for number in 0..21 {
        registered(&store, &format!("c{number}@shared.example.com")).await;
    }

    assert_eq!(search(&store, "@shared.example.com").await.len(), 20);
}
