//! Payments that are recorded as sales.

use domain::payment::PaymentSource;
use domain::time::UtcDay;

use crate::{Store, StoreError};

/// A recorded payment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedPayment {
    /// The payment intent or the invoice.
    pub payment: String,
    /// Which of the two it is.
    pub source: PaymentSource,
    /// The recorded amount, in the smallest unit of the currency.
    pub cents: i64,
    /// The currency, in lower case.
    pub currency: String,
}

/// Whether this invoice, or this payment intent of a pack, is recorded as a sale.
pub async fn is_granted(store: &Store, payment: &str) -> Result<bool, StoreError> {
    const SQL: &str = "select 1 from sales where id = $1";
    Ok(store.read().await?.row(SQL, &[payment.into()]).await?.is_some())
}

/// Every payment recorded on this UTC day.
pub async fn list(store: &Store, day: UtcDay) -> Result<Vec<RecordedPayment>, StoreError> {
    const SQL: &str = "
        select id, source, amount_cents, currency from sales
        where at >= $1 and at < $2 order by at, id";
    let values = [day.start().into(), day.plus_days(1).start().into()];
    let rows = store.read().await?.rows(SQL, &values).await?;
    rows.iter()
        .map(|row| {
            Ok(RecordedPayment {
                payment: row.text("id")?,
                source: row.parse("source", "sales")?,
                cents: row.int("amount_cents")?,
                currency: row.text("currency")?,
            })
        })
        .collect()
}
