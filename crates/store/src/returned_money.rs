//! Money that went back to customers, as orders, invoices and operators show it.

use std::collections::BTreeMap;

use domain::id::{CustomerId, OrderId};
use domain::payment::{ReversalKind, ReversalState};
use domain::time::Timestamp;

use crate::{Store, StoreError};

/// The money of a customer's payments that has gone back, in the smallest unit of the currency.
/// Payments of which nothing has are not here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReturnedMoney {
    by_order: BTreeMap<OrderId, i64>,
    by_sale: BTreeMap<String, i64>,
}

impl ReturnedMoney {
    /// What has gone back of an order.
    pub fn of_order(&self, order: OrderId) -> i64 {
        self.by_order.get(&order).copied().unwrap_or(0)
    }

    /// What has gone back of an invoice, which may be for an order.
    pub fn of_invoice(&self, invoice: &str, order: Option<OrderId>) -> i64 {
        let of_order = order.map_or(0, |order| self.of_order(order));
        self.by_sale.get(invoice).copied().unwrap_or(of_order)
    }
}

/// A refund or a dispute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedReversal {
    /// Its id at the processor.
    pub id: String,
    /// Refund or dispute.
    pub kind: ReversalKind,
    /// Whether the money has gone back.
    pub state: ReversalState,
    /// The payment intent of a pack, or the invoice.
    pub payment: String,
    /// The order, if a pack was bought.
    pub order: Option<OrderId>,
    /// How much, in the smallest unit of the currency.
    pub amount_cents: i64,
    /// The currency, in lower case.
    pub currency: String,
    /// When it was first seen.
    pub created_at: Timestamp,
}

/// What has gone back of a customer's payments, by refunds and disputes that stand.
pub async fn of_customer(store: &Store, customer: CustomerId) -> Result<ReturnedMoney, StoreError> {
    const SQL: &str = "
        select s.id, s.order_id, cast(sum(r.amount_cents) as bigint) as cents
        from sales s join reversals r on r.payment_id = s.id
        where s.customer_id = $1 and r.state = 'standing'
        group by s.id, s.order_id";
    let mut returned = ReturnedMoney::default();
    for row in store.read().await?.rows(SQL, &[customer.into()]).await? {
        let cents = row.int("cents")?;
        if let Some(order) = row.parse_optional("order_id", "sales")? {
            returned.by_order.insert(order, cents);
        }
        returned.by_sale.insert(row.text("id")?, cents);
    }
    Ok(returned)
}

/// The newest refunds and disputes of a customer, newest first.
pub async fn list(
    store: &Store,
    customer: CustomerId,
    limit: i64,
) -> Result<Vec<RecordedReversal>, StoreError> {
    const SQL: &str = "
        select r.id, r.kind, r.state, r.payment_id, s.order_id, r.amount_cents, s.currency, r.created_at
        from reversals r join sales s on s.id = r.payment_id
        where r.customer_id = $1 order by r.created_at desc, r.id limit $2";
    let rows = store.read().await?.rows(SQL, &[customer.into(), limit.into()]).await?;
    rows.iter()
        .map(|row| {
            Ok(RecordedReversal {
                id: row.text("id")?,
                kind: row.parse("kind", "reversals")?,
                state: row.parse("state", "reversals")?,
                payment: row.text("payment_id")?,
                order: row.parse_optional("order_id", "sales")?,
                amount_cents: row.int("amount_cents")?,
                currency: row.text("currency")?,
                created_at: row.time("created_at")?,
            })
        })
        .collect()
}
