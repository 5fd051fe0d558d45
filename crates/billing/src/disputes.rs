//! Disputes and warnings of fraud: what each takes of the credits (`reversals`), and what the
//! operator is told of it: once when it is new and whenever it moves on, by the log, a metric, an
//! email and a list.

use domain::dispute::DisputeStage;
use domain::time::Timestamp;
use emails::OperatorNotice;
use failures::Failure;
use processor_client::objects::{
    DisputeStatus, EarlyFraudWarning, ExpandableObject, PaymentDispute, PaymentIntent,
};
use processor_client::{ProcessorClient, ProcessorError};
use runtime::metrics;
use store::disputes::{self, Dispute, DisputeReading};
use store::jobs::NewJob;

use super::listing::{all, listing};
use super::reversals::{self, ReversalOutcome};
use crate::BillingState;

/// Something that a bank says about a payment.
#[derive(Debug)]
pub(super) enum BankNotice {
    /// A dispute.
    Dispute(Box<PaymentDispute>),
    /// A warning of fraud.
    Warning(Box<EarlyFraudWarning>),
}

impl BankNotice {
    /// Its id at the processor.
    pub(super) fn id(&self) -> &str {
        match self {
            Self::Dispute(dispute) => &dispute.id,
            Self::Warning(warning) => &warning.id,
        }
    }
}

/// Reads a dispute, takes or returns its credits, and tells the operator.
pub async fn dispute(billing: &BillingState, id: &str) -> Result<ReversalOutcome, Failure> {
    match billing.processor()?.retrieve_dispute(id).await {
        Ok(read) => take(billing, &BankNotice::Dispute(Box::new(read))).await,
        Err(ProcessorError::Missing) => Ok(ReversalOutcome::NotOurs),
        Err(error) => Err(error.into()),
    }
}

/// Reads a warning of fraud, and tells the operator. No money has moved.
pub async fn warning(billing: &BillingState, id: &str) -> Result<ReversalOutcome, Failure> {
    match billing.processor()?.retrieve_fraud_warning(id).await {
        Ok(read) => take(billing, &BankNotice::Warning(Box::new(read))).await,
        Err(ProcessorError::Missing) => Ok(ReversalOutcome::NotOurs),
        Err(error) => Err(error.into()),
    }
}

/// All disputes and warnings of this second or later, oldest first of each. A key that may not read
/// warnings still reads disputes.
pub(super) async fn listed(
    processor: &ProcessorClient,
    from: i64,
) -> Result<Vec<BankNotice>, ProcessorError> {
    let disputes = all(|after| {
        let processor = processor.clone();
        async move { processor.list_disputes(&listing(from, after.as_deref())).await }
    });
    let disputes = disputes.await?.into_iter().map(|one| BankNotice::Dispute(Box::new(one)));
    let mut notices: Vec<BankNotice> = disputes.collect();
    let warnings = all(|after| {
        let processor = processor.clone();
        async move { processor.list_fraud_warnings(&listing(from, after.as_deref())).await }
    });
    match warnings.await {
        Ok(warnings) => {
            notices.extend(warnings.into_iter().map(|one| BankNotice::Warning(Box::new(one))));
        }
        Err(error @ ProcessorError::Refused(_)) => {
            tracing::warn!(%error, "warnings of fraud cannot be read: allow the secret key to read them");
        }
        Err(error) => return Err(error),
    }
    Ok(notices)
}

/// Records what was read, and tells the operator what is new. What is about a payment that is not
/// ours is ignored.
pub(super) async fn take(
    billing: &BillingState,
    notice: &BankNotice,
) -> Result<ReversalOutcome, Failure> {
    match notice {
        BankNotice::Dispute(dispute) => take_dispute(billing, dispute).await,
        BankNotice::Warning(warning) => take_warning(billing, warning).await,
    }
}

/// How many disputes and warnings wait for the operator, for the metrics.
pub async fn count_waiting(billing: &BillingState) {
    match disputes::count_waiting(&billing.store).await {
        Ok(waiting) => metrics::disputes_waiting(waiting),
        Err(error) => tracing::warn!(%error, "open disputes could not be counted"),
    }
}

async fn take_dispute(
    billing: &BillingState,
    dispute: &PaymentDispute,
) -> Result<ReversalOutcome, Failure> {
    let outcome = reversals::take_dispute(billing, dispute).await?;
    if outcome == ReversalOutcome::NotOurs {
        return Ok(outcome);
    }
    let charge = dispute.charge.as_ref().map(ExpandableObject::id);
    let intent = reversals::intent_of(billing, dispute.payment_intent.as_ref(), charge).await?;
    let Some(intent) = intent else { return Ok(outcome) };
    let reading = DisputeReading {
        id: &dispute.id,
        stage: stage(dispute.status),
        status: dispute.status.as_str(),
        charge,
        intent: &intent,
        amount_cents: dispute.amount,
        currency: &dispute.currency,
        reason: dispute.reason.as_deref().unwrap_or("unknown"),
        due_by: dispute.evidence_details.due_by.map(time),
        opened_at: time(dispute.created),
        at: billing.clock.now(),
    };
    note(billing, &reading).await?;
    Ok(outcome)
}

async fn take_warning(
    billing: &BillingState,
    warning: &EarlyFraudWarning,
) -> Result<ReversalOutcome, Failure> {
    let charge = warning.charge.as_ref().map(ExpandableObject::id);
    let intent = reversals::intent_of(billing, warning.payment_intent.as_ref(), charge).await?;
    let Some(intent) = intent else { return Ok(ReversalOutcome::NotOurs) };
    if !reversals::is_payment_of_ours(billing, &intent).await? {
        return Ok(ReversalOutcome::NotOurs);
    }
    let paid = charged(billing, charge, &intent).await?;
    let (stage, status) = if warning.actionable {
        (DisputeStage::Warned, "actionable")
    } else {
        (DisputeStage::Ended, "not_actionable")
    };
    let reading = DisputeReading {
        id: &warning.id,
        stage,
        status,
        charge,
        intent: &intent,
        amount_cents: paid.cents,
        currency: &paid.currency,
        reason: &warning.fraud_type,
        due_by: None,
        opened_at: time(warning.created),
        at: billing.clock.now(),
    };
    note(billing, &reading).await?;
    Ok(ReversalOutcome::Booked)
}

/// What was charged, which a warning does not say.
struct ChargedMoney {
    cents: i64,
    currency: String,
}

async fn charged(
    billing: &BillingState,
    charge: Option<&str>,
    intent: &str,
) -> Result<ChargedMoney, Failure> {
    let processor = billing.processor()?;
    if let Some(charge) = charge {
        let read = processor.retrieve_charge(charge).await?;
        return Ok(ChargedMoney { cents: read.amount, currency: read.currency });
    }
    let PaymentIntent { amount_received, currency, .. } = processor.retrieve_intent(intent).await?;
    Ok(ChargedMoney { cents: amount_received, currency })
}

async fn note(billing: &BillingState, reading: &DisputeReading<'_>) -> Result<(), Failure> {
    let follow = |dispute: &Dispute| following(billing, dispute);
    let Some(noted) = disputes::note(&billing.store, reading, &follow).await? else {
        return Ok(());
    };
    billing.jobs.wake();
    metrics::dispute_moved(noted.stage);
    tracing::warn!(
        payment.object = noted.id,
        customer.id = noted.customer.map(|id| id.to_string()),
        stage = noted.stage.as_str(),
        reason = noted.reason,
        amount_cents = noted.amount_cents,
        due_by = noted.due_by.map(|at| at.to_string()),
        next = noted.facts().next_step(),
        "a dispute or a warning of fraud"
    );
    count_waiting(billing).await;
    Ok(())
}

/// An email to the operator, unless the dispute moved because the operator answered it.
fn following(billing: &BillingState, dispute: &Dispute) -> Vec<NewJob> {
    if matches!(dispute.stage, DisputeStage::InquiryAnswered | DisputeStage::Answered) {
        return Vec::new();
    }
    let notice = OperatorNotice::Dispute {
        dispute: dispute.id.clone(),
        stage: dispute.stage,
        amount_cents: dispute.amount_cents,
        currency: dispute.currency.clone(),
        reason: dispute.reason.clone(),
        customer: dispute.customer,
        due_by: dispute.due_by.filter(|_| dispute.stage.waits_for_operator()),
        next: dispute.facts().next_step(),
    };
    super::operator_email(billing, notice).into_iter().collect()
}

const fn stage(status: DisputeStatus) -> DisputeStage {
    match status {
        DisputeStatus::WarningNeedsResponse => DisputeStage::Inquiry,
        DisputeStatus::WarningUnderReview => DisputeStage::InquiryAnswered,
        // An unknown word: the operator should look.
        DisputeStatus::NeedsResponse | DisputeStatus::Other => DisputeStage::Open,
        DisputeStatus::UnderReview => DisputeStage::Answered,
        DisputeStatus::Lost => DisputeStage::Lost,
        DisputeStatus::WarningClosed | DisputeStatus::Prevented => DisputeStage::Ended,
        DisputeStatus::Won => DisputeStage::Won,
    }
}

const fn time(unix: i64) -> Timestamp {
    Timestamp::from_unix_micros(unix.saturating_mul(1_000_000))
}
