//! Receipts of paid orders: their address is stored when the payment is granted.

use domain::id::OrderId;
use failures::Failure;
use processor_client::ProcessorError;
use processor_client::objects::PaymentIntent;
use store::order_payments::{self, OrderReceipt};

use crate::BillingState;

/// Stores the receipt of a paid order, unless it is stored. A failure does not undo the payment.
pub(super) async fn note(billing: &BillingState, order: OrderId, intent: &PaymentIntent) {
    if let Err(error) = note_new(billing, order, intent).await {
        tracing::warn!(%error, order.id = %order, "the receipt of a payment was not stored");
    }
}

async fn note_new(
    billing: &BillingState,
    order: OrderId,
    intent: &PaymentIntent,
) -> Result<(), Failure> {
    let Some(charge) = &intent.latest_charge else { return Ok(()) };
    if order_payments::has_receipt(&billing.store, order).await? {
        return Ok(());
    }
    let read = match charge.object() {
        Some(read) => read.clone(),
        None => match billing.processor()?.retrieve_charge(charge.id()).await {
            Err(ProcessorError::Missing) => return Ok(()),
            read => read?,
        },
    };
    let Some(url) = &read.receipt_url else { return Ok(()) };
    let receipt = OrderReceipt { order, charge_id: &read.id, url };
    Ok(order_payments::note_receipt(&billing.store, &receipt).await?)
}
