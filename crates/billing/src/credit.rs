//! What the processor owes a customer: its balance, and the items that wait for the next invoice.

use failures::Failure;

use crate::BillingState;

/// The customer's credit at the processor, in cents: its balance and the items that wait for the
/// next invoice. 0 if the customer owes money.
pub(super) async fn of_payer(billing: &BillingState, payer: &str) -> Result<i64, Failure> {
    let processor = billing.processor()?;
    let balance = processor.retrieve_customer(payer).await?.balance;
    let mut waiting = 0_i64;
    let mut after: Option<String> = None;
    loop {
        let page = processor.list_pending_items(payer, after.as_deref()).await?;
        let sum: i64 =
            page.data.iter().map(processor_client::objects::InvoiceItem::net_amount).sum();
        waiting = waiting.saturating_add(sum);
        after = page.next().map(str::to_owned);
        if after.is_none() {
            break;
        }
    }
    Ok(balance.saturating_add(waiting).saturating_neg().max(0))
}

/// The same for the customer who paid with this payment intent.
pub(super) async fn of_payer_of(billing: &BillingState, intent: &str) -> Result<i64, Failure> {
    let customer = store::payments::payer_of(&billing.store, intent).await?;
    let Some(customer) = customer else { return Ok(0) };
    match store::processor_customers::find(&billing.store, customer).await? {
        Some(payer) => of_payer(billing, &payer).await,
        None => Ok(0),
    }
}
