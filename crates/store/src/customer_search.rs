//! Customers found by anything that names them or something of theirs.

use domain::customer::CustomerState;
use domain::id::CustomerId;

use crate::suspensions::STATE;
use crate::tx::Tx;
use crate::{Store, StoreError, call_details};

/// How many matches of one kind are returned.
const MATCHES_MAX: i64 = 20;

/// A customer that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundCustomer {
    /// The customer.
    pub id: CustomerId,
    /// Its address.
    pub email: String,
    /// What it can do.
    pub state: CustomerState,
    /// What matched, such as `order`.
    pub matched: &'static str,
    /// The value that matched.
    pub value: String,
}

/// What can name a customer: its word, and the query for (customer, value).
const WAYS: &[(&str, &str)] = &[
    ("customer", "select id as customer, id as matched from customers where id = $1"),
    (
        "email",
        "select id as customer, email as matched from customers where replace(email, lower($1), '') <> email",
    ),
    ("key", "select customer_id as customer, id as matched from keys where id = $1"),
    (
        "key_prefix",
        "select customer_id as customer, shown_prefix as matched from keys
         where shown_prefix <> '' and substr($1, 1, length(shown_prefix)) = shown_prefix",
    ),
    (
        "account",
        "select customer_id as customer, creator_id as matched from accounts where creator_id = $1",
    ),
    (
        "platform_account",
        "select customer_id as customer, platform_account_id as matched from accounts
         where platform_account_id = $1 and platform_account_id <> ''",
    ),
    (
        "processor_customer",
        "select customer_id as customer, processor_customer_id as matched from processor_customers
         where processor_customer_id = $1",
    ),
    (
        "subscription",
        "select customer_id as customer, subscription_id as matched from subscriptions where subscription_id = $1",
    ),
    ("order", "select customer_id as customer, id as matched from orders where id = $1"),
    (
        "payment",
        "select customer_id as customer, payment_id as matched from orders where payment_id = $1",
    ),
    (
        "payment",
        "select customer_id as customer, intent_id as matched from sales
         where intent_id = $1 and order_id is null",
    ),
    (
        "checkout",
        "select customer_id as customer, session_id as matched from orders where session_id = $1",
    ),
    (
        "checkout",
        "select customer_id as customer, session_id as matched from subscription_offers where session_id = $1",
    ),
    (
        "charge",
        "select o.customer_id as customer, r.charge_id as matched
         from order_receipts r join orders o on o.id = r.order_id where r.charge_id = $1",
    ),
    (
        "charge",
        "select distinct customer_id as customer, charge_id as matched from disputes
         where charge_id = $1 and customer_id is not null
         and not exists (select 1 from order_receipts r where r.charge_id = $1)",
    ),
    (
        "invoice",
        "select customer_id as customer, id as matched from invoices where id = $1
         union select customer_id as customer, id as matched from sales where id = $1 and source = 'invoice'",
    ),
    (
        "invoice_number",
        "select customer_id as customer, number as matched from invoices where number = upper($1) and number <> ''
         union select customer_id as customer, number as matched from invoices where number = $1 and number <> ''",
    ),
    ("refund", "select customer_id as customer, id as matched from reversals where id = $1 and kind = 'refund'"),
    (
        "dispute",
        "select customer_id as customer, id as matched from reversals where id = $1 and kind = 'dispute'
         union select customer_id as customer, id as matched from disputes
         where id = $1 and customer_id is not null and substr(id, 1, 6) <> 'issfr_'",
    ),
    (
        "warning",
        "select customer_id as customer, id as matched from disputes
         where id = $1 and customer_id is not null and substr(id, 1, 6) = 'issfr_'",
    ),
    ("export", "select customer_id as customer, id as matched from export_jobs where id = $1"),
];

/// Every customer that the text names, by whatever it names.
pub async fn find(store: &Store, text: &str) -> Result<Vec<FoundCustomer>, StoreError> {
    let mut tx = store.inspect().await?;
    let mut found = Vec::new();
    for (matched, sql) in WAYS {
        let sql = sql.replace("$1", "cast($1 as text)");
        let sql = format!("{sql} limit $2");
        let values = [text.into(), MATCHES_MAX.into()];
        for row in tx.rows(sqlx::AssertSqlSafe(sql), &values).await? {
            found.push((row.parse("customer", "customers")?, *matched, row.text("matched")?));
        }
    }
    // Ids that contain their time, and those that a caller chose, are found without reading every
    // call.
    if found.is_empty() {
        let wanted = call_details::CallSearch::of_request(text, None);
        let calls = call_details::find_in(&mut tx, &wanted).await?;
        found.extend(
            calls.into_iter().map(|call| (call.call.customer, "request", call.call.request)),
        );
    }
    let mut customers = Vec::new();
    for (id, matched, value) in found {
        customers.extend(described(&mut tx, id, matched, value).await?);
    }
    Ok(customers)
}

/// A customer that is known by something that is not stored here.
pub async fn describe(
    store: &Store,
    id: CustomerId,
    matched: &'static str,
    value: &str,
) -> Result<Option<FoundCustomer>, StoreError> {
    described(&mut store.inspect().await?, id, matched, value.to_owned()).await
}

async fn described(
    tx: &mut Tx,
    id: CustomerId,
    matched: &'static str,
    value: String,
) -> Result<Option<FoundCustomer>, StoreError> {
    let sql = format!("select c.email, {STATE} as state from customers c where c.id = $1");
    let row = tx.row(sqlx::AssertSqlSafe(sql), &[id.into()]).await?;
    row.map(|row| {
        let (email, state) = (row.text("email")?, row.parse("state", "customers")?);
        Ok(FoundCustomer { id, email, state, matched, value })
    })
    .transpose()
}
