//! Changes of a customer's credit at the processor, as the processor lists them. Their metadata
//! says what they were made for.

use failures::Failure;
use processor_client::ProcessorError;
use processor_client::objects::BalanceTransaction;

use crate::BillingState;

/// The sale whose money went back after it had been credited.
pub(super) const SALE: &str = "sale";
/// The job that made the change. Changes by earlier versions do not have it.
pub(super) const JOB: &str = "job";
/// The voided invoice whose credit was returned.
pub(super) const VOIDED: &str = "voided_invoice";
/// The processor's word for a change that was asked for; all others follow from invoices.
const ASKED_FOR: &str = "adjustment";

/// The changes of a customer's credit that were asked for, oldest first. `since` (seconds since
/// 1970) limits them to those made since then. A customer that was deleted at the processor has
/// none.
pub(super) async fn list(
    billing: &BillingState,
    payer: &str,
    since: Option<i64>,
) -> Result<Vec<BalanceTransaction>, Failure> {
    let processor = billing.processor()?;
    let (mut found, mut after) = (Vec::new(), None::<String>);
    loop {
        let page = match processor.list_balance_transactions(payer, after.as_deref()).await {
            Err(ProcessorError::Missing) => return Ok(Vec::new()),
            page => page?,
        };
        let is_read = page.data.last().is_none_or(|last| since.is_some_and(|it| last.created < it));
        after = page.next().filter(|_| !is_read).map(str::to_owned);
        found.extend(page.data);
        if after.is_none() {
            break;
        }
    }
    found.retain(|made| made.kind == ASKED_FOR && since.is_none_or(|since| made.created >= since));
    found.reverse();
    Ok(found)
}

/// Those that were made for a sale.
pub(super) fn of_sale<'a>(
    made: &'a [BalanceTransaction],
    sale: &str,
) -> impl Iterator<Item = &'a BalanceTransaction> + use<'a> {
    let sale = sale.to_owned();
    made.iter().filter(move |made| made.metadata.get(SALE) == Some(&sale))
}

/// The sum of these changes, in cents; above zero the customer owes it.
pub(super) fn sum<'a>(made: impl Iterator<Item = &'a BalanceTransaction>) -> i64 {
    made.fold(0, |sum, made| sum.saturating_add(made.amount))
}
