//! What at the processor agrees with nothing here: recorded for the operator, who is alerted once.

use domain::payment::Mismatch;
use failures::Failure;
use runtime::metrics;
use store::payments;
use store::unmatched::UnmatchedMoney;

use crate::BillingState;

/// Records a payment that could not be granted, and alerts the operator.
pub async fn note_unmatched(
    billing: &BillingState,
    object: &str,
    reason: Mismatch,
    details: &str,
) -> Result<(), Failure> {
    let unmatched = UnmatchedMoney { object, reason, details, at: billing.clock.now() };
    let is_new = payments::note_unmatched(&billing.store, &unmatched).await?;
    tell_unmatched(object, reason, details, is_new);
    Ok(())
}

/// Alerts the operator to a payment that could not be granted, once for each object and reason.
pub fn tell_unmatched(object: &str, reason: Mismatch, details: &str, is_new: bool) {
    if is_new {
        metrics::payment_unmatched(reason);
        tracing::error!(
            payment.object = object,
            reason = reason.as_str(),
            details,
            "a payment at the processor could not be matched"
        );
    }
}
