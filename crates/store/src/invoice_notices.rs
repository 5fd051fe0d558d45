//! Invoice notices: a customer is notified of each failed payment once, however often the processor
//! reports it.

use domain::id::CustomerId;
use domain::time::Timestamp;

use crate::jobs::{self, NewJob};
use crate::{Store, StoreError};

/// A failed payment of an invoice.
#[derive(Debug, Clone, Copy)]
pub struct FailedPayment<'a> {
    /// The invoice at the processor.
    pub invoice_id: &'a str,
    /// The number of the payment attempt.
    pub attempt: i64,
    /// The customer whose invoice it is.
    pub customer: CustomerId,
    /// The current time.
    pub at: Timestamp,
}

/// Enqueues the email, unless the customer was notified of this attempt before. Then it returns
/// false.
pub async fn tell_once(
    store: &Store,
    payment: FailedPayment<'_>,
    letter: &NewJob,
) -> Result<bool, StoreError> {
    const SQL: &str = "
        insert into invoice_notices (invoice_id, attempt, customer_id, told_at)
        values ($1, $2, $3, $4) on conflict (invoice_id, attempt) do nothing";
    let values = [
        payment.invoice_id.into(),
        payment.attempt.into(),
        payment.customer.into(),
        payment.at.into(),
    ];
    let mut tx = store.write().await?;
    if tx.execute(SQL, &values).await? == 0 {
        return Ok(false);
    }
    jobs::insert(&mut tx, letter).await?;
    tx.commit().await?;
    Ok(true)
}
