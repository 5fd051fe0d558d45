//! What the processor owes a customer: its balance, and the items that wait for the next invoice.

use std::collections::BTreeMap;

use domain::id::CustomerId;
use failures::Failure;

use crate::{BillingState, credit_adjustments};

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

/// The same for one of our customers, as it will be when every change that was made for a sale
/// agrees with the ledger. After the database was restored from an older copy, the processor may
/// have made changes for reversals that the ledger records only now.
pub(super) async fn of_customer(
    billing: &BillingState,
    customer: CustomerId,
) -> Result<i64, Failure> {
    let Some(payer) = store::processor_customers::find(&billing.store, customer).await? else {
        return Ok(0);
    };
    let mut ahead = 0_i64;
    for (sale, cents) in made_for_sales(billing, &payer).await? {
        if let Some(recorded) = store::sales::withdrawn(&billing.store, &sale).await? {
            ahead = ahead.saturating_add(cents.saturating_sub(recorded));
        }
    }
    Ok(of_payer(billing, &payer).await?.saturating_add(ahead).max(0))
}

/// The sum of the changes at the processor for each sale.
async fn made_for_sales(
    billing: &BillingState,
    payer: &str,
) -> Result<BTreeMap<String, i64>, Failure> {
    let mut sums = BTreeMap::new();
    for made in credit_adjustments::list(billing, payer, None).await? {
        if let Some(sale) = made.metadata.get(credit_adjustments::SALE) {
            let sum: &mut i64 = sums.entry(sale.clone()).or_default();
            *sum = sum.saturating_add(made.amount);
        }
    }
    Ok(sums)
}
