//! Disputes and warnings of fraud, with what to do about each.

use failures::Failure;
use store::disputes::Dispute;

use crate::customers::page_size;
use crate::{DisputeLine, OperatorOutcome, OperatorsState};

/// The newest disputes and warnings that are not over, and lost ones whose subscription goes on;
/// with `with_ended` all of them.
pub(crate) async fn list(
    operators: &OperatorsState,
    with_ended: bool,
    limit: Option<i64>,
) -> Result<OperatorOutcome, Failure> {
    let limit = page_size(limit)?;
    let found = store::disputes::list(&operators.store, with_ended, limit).await?;
    Ok(OperatorOutcome::Disputes { disputes: found.into_iter().map(DisputeLine::from).collect() })
}

impl From<Dispute> for DisputeLine {
    fn from(found: Dispute) -> Self {
        Self {
            next: found.facts().next_step(),
            dispute_id: found.id,
            stage: found.stage.to_string(),
            status: found.status,
            amount_cents: found.amount_cents,
            currency: found.currency,
            reason: found.reason,
            due_by: found.due_by,
            customer_id: found.customer,
            order_id: found.order,
            invoice_id: found.invoice,
            charge: found.charge,
            payment: found.intent,
            opened_at: found.opened_at,
            changed_at: found.changed_at,
        }
    }
}
