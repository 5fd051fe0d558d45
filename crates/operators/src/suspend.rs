//! Suspending and resuming customers, and ending their sessions.
//!
//! A suspended customer keeps everything and can use nothing. Its subscription is not touched
//! unless the operator asks for that; then it ends immediately at the payment processor, before the
//! suspension, so that a failure there leaves the customer as it was.

use domain::customer::{CustomerRef, CustomerState};
use domain::field_error::FieldErrorKind;
use domain::id::CustomerId;
use failures::{Failure, FieldProblem, OperatorProblem};
use processor_client::ProcessorError;
use runtime::audit;
use serde_json::json;
use store::suspensions::{self, SuspensionOutcome};

use crate::{OperatorIdentity, OperatorOutcome, OperatorsState, SuspensionView, unknown};

/// The longest reason, in characters.
const REASON_CHARS_MAX: usize = 200;

/// How a customer is to be suspended.
pub(crate) struct SuspensionWish<'a> {
    pub(crate) reason: &'a str,
    pub(crate) cancel_subscription: bool,
    pub(crate) dry_run: bool,
}

/// Suspends a customer. Its keys and sessions are refused on every node when this returns.
pub(crate) async fn suspend(
    operators: &OperatorsState,
    who: &OperatorIdentity,
    named: &CustomerRef,
    wish: &SuspensionWish<'_>,
) -> Result<OperatorOutcome, Failure> {
    check_text("reason", wish.reason)?;
    let customer = operators.find(named).await?.id;
    let standing = suspensions::find(&operators.store, customer).await?;
    let standing = standing.ok_or_else(|| unknown("customer", customer))?;
    refuse_closed(standing.state)?;
    let subscription =
        if wish.cancel_subscription { live_subscription(operators, customer).await? } else { None };
    if wish.dry_run {
        let details =
            json!({"command": "suspend", "cancel_subscription": wish.cancel_subscription});
        operators.record(who, customer, audit::OPERATOR_PREVIEWED, details).await?;
        let applied = standing.state != CustomerState::Suspended;
        return Ok(view(customer, CustomerState::Suspended, applied, subscription, true));
    }
    if let Some(subscription) = &subscription {
        end_subscription(operators, who, customer, subscription).await?;
    }
    let details = json!({});
    let entry = operators.entry(who, customer, audit::CUSTOMER_SUSPENDED, details);
    let outcome = suspensions::suspend(&operators.store, wish.reason.trim(), &entry).await?;
    operators.billing.cached.forget_keys_of(customer);
    let applied = applied(outcome, customer)?;
    Ok(view(customer, CustomerState::Suspended, applied, subscription, false))
}

/// Ends a suspension.
pub(crate) async fn resume(
    operators: &OperatorsState,
    who: &OperatorIdentity,
    named: &CustomerRef,
) -> Result<OperatorOutcome, Failure> {
    let customer = operators.find(named).await?.id;
    let entry = operators.entry(who, customer, audit::CUSTOMER_RESUMED, json!({}));
    let outcome = suspensions::resume(&operators.store, &entry).await?;
    operators.billing.cached.forget_keys_of(customer);
    let applied = applied(outcome, customer)?;
    let standing = suspensions::find(&operators.store, customer).await?;
    let state = standing.map_or(CustomerState::Active, |standing| standing.state);
    Ok(view(customer, state, applied, None, false))
}

/// Ends all sessions of a customer, on every node when this returns. Keys and the password last.
pub(crate) async fn end_sessions(
    operators: &OperatorsState,
    who: &OperatorIdentity,
    named: &CustomerRef,
) -> Result<OperatorOutcome, Failure> {
    let customer_id = operators.find(named).await?.id;
    let entry = operators.entry(who, customer_id, audit::SESSIONS_ENDED, json!({}));
    let ended = store::sessions::end_all(&operators.store, &entry).await?;
    Ok(OperatorOutcome::SessionsEnded { customer_id, ended })
}

/// Checks a text of the operator's.
pub(crate) fn check_text(field: &'static str, text: &str) -> Result<(), Failure> {
    let length = text.trim().chars().count();
    if (1..=REASON_CHARS_MAX).contains(&length) && !text.chars().any(char::is_control) {
        return Ok(());
    }
    let message = format!("must be one line of 1 to {REASON_CHARS_MAX} characters");
    Err(FieldProblem::new("body", field, FieldErrorKind::BadFormat, message).into())
}

fn view(
    customer_id: CustomerId,
    state: CustomerState,
    applied: bool,
    cancelled_subscription: Option<String>,
    dry_run: bool,
) -> OperatorOutcome {
    OperatorOutcome::Suspension(SuspensionView {
        customer_id,
        state,
        applied,
        cancelled_subscription,
        dry_run,
    })
}

fn applied(outcome: SuspensionOutcome, customer: CustomerId) -> Result<bool, Failure> {
    match outcome {
        SuspensionOutcome::Changed => Ok(true),
        SuspensionOutcome::Repeated => Ok(false),
        SuspensionOutcome::Closed(state) => {
            refuse_closed(state)?;
            Ok(false)
        }
        SuspensionOutcome::NoCustomer => Err(unknown("customer", customer)),
    }
}

fn refuse_closed(state: CustomerState) -> Result<(), Failure> {
    match state {
        CustomerState::Erased => Err(OperatorProblem::Erased.into()),
        CustomerState::Closed => Err(OperatorProblem::NotSuspended.into()),
        CustomerState::Active | CustomerState::Unconfirmed | CustomerState::Suspended => Ok(()),
    }
}

/// The customer's live subscription.
async fn live_subscription(
    operators: &OperatorsState,
    customer: CustomerId,
) -> Result<Option<String>, Failure> {
    let stored = store::subscriptions::find(&operators.store, customer).await?;
    let live = stored.filter(|it| it.view.status.is_live());
    Ok(live.and_then(|it| it.view.subscription_id))
}

/// Ends the subscription at the processor and reads its state again.
async fn end_subscription(
    operators: &OperatorsState,
    who: &OperatorIdentity,
    customer: CustomerId,
    subscription: &str,
) -> Result<(), Failure> {
    let details = json!({"subscription_id": subscription});
    operators.record(who, customer, audit::SUBSCRIPTION_CANCELLED, details).await?;
    match operators.billing.processor()?.cancel_subscription(subscription).await {
        Ok(_) | Err(ProcessorError::Missing) => {}
        Err(error) => return Err(error.into()),
    }
    let payer = store::processor_customers::find(&operators.store, customer).await?;
    if let Some(payer) = payer {
        billing::subscriptions::sync_customer(&operators.billing, customer, &payer).await?;
    }
    Ok(())
}
