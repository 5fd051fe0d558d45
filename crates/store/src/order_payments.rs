//! What was charged for orders, and where its receipt and its invoice are.

use std::collections::BTreeMap;

use domain::id::{CustomerId, OrderId};
use domain::time::Timestamp;

use crate::{Store, StoreError};

/// The payment of an order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OrderPayment {
    /// What was charged: after discounts, with tax.
    pub charged_cents: i64,
    /// The part of it that is tax.
    pub tax_cents: i64,
    /// The receipt's address at the processor.
    pub receipt_url: Option<String>,
    /// The invoice, if one was made.
    pub invoice_id: Option<String>,
}

/// The receipt of an order's payment.
#[derive(Debug, Clone, Copy)]
pub struct OrderReceipt<'a> {
    /// The order.
    pub order: OrderId,
    /// The charge at the processor.
    pub charge_id: &'a str,
    /// The receipt's address at the processor.
    pub url: &'a str,
}

/// The payments of a customer's paid orders that were opened between two times, both included.
pub async fn list(
    store: &Store,
    customer: CustomerId,
    from: Timestamp,
    until: Timestamp,
) -> Result<BTreeMap<OrderId, OrderPayment>, StoreError> {
    const SQL: &str = "
        select o.id, s.amount_cents, s.tax_cents, r.url,
               (select min(i.id) from invoices i where i.order_id = o.id and i.customer_id = o.customer_id) as invoice_id
        from orders o join sales s on s.order_id = o.id
        left join order_receipts r on r.order_id = o.id
        where o.customer_id = $1 and o.created_at >= $2 and o.created_at <= $3";
    let values = [customer.into(), from.into(), until.into()];
    let rows = store.read().await?.rows(SQL, &values).await?;
    rows.iter()
        .map(|row| {
            let payment = OrderPayment {
                charged_cents: row.int("amount_cents")?,
                tax_cents: row.int("tax_cents")?,
                receipt_url: row.optional_text("url")?,
                invoice_id: row.optional_text("invoice_id")?,
            };
            Ok((row.parse("id", "orders")?, payment))
        })
        .collect()
}

/// Whether the receipt of an order is stored.
pub async fn has_receipt(store: &Store, order: OrderId) -> Result<bool, StoreError> {
    const SQL: &str = "select 1 from order_receipts where order_id = $1";
    Ok(store.read().await?.row(SQL, &[order.into()]).await?.is_some())
}

/// Stores the receipt of an order, unless its customer was erased.
pub async fn note_receipt(store: &Store, receipt: &OrderReceipt<'_>) -> Result<(), StoreError> {
    const SQL: &str = "
        insert into order_receipts (order_id, charge_id, url)
        select o.id, $2, $3 from orders o join customers c on c.id = o.customer_id
        where o.id = $1 and c.erased_at is null
        on conflict (order_id) do update set charge_id = excluded.charge_id, url = excluded.url";
    let values = [receipt.order.into(), receipt.charge_id.into(), receipt.url.into()];
    let mut tx = store.write().await?;
    tx.execute(SQL, &values).await?;
    tx.commit().await
}
