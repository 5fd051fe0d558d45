//! Adds to a refusal for lack of credits whether the customer owes credits, or has a free trial
//! that waits for a confirmed email address.

use domain::credits::Credits;
use domain::customer::TrialState;
use domain::id::CustomerId;
use failures::Failure;
use store::StoreError;

use crate::WebState;
use crate::error::ApiError;

/// Adds the debt or the pending trial to a refusal for lack of credits; returns any other refusal,
/// and one whose lookup fails, unchanged.
pub async fn explained(web: &WebState, customer: CustomerId, refusal: ApiError) -> ApiError {
    let ApiError::Failure(Failure::InsufficientCredits { balance, cost }) = refusal else {
        return refusal;
    };
    if let Some(debt) = owed(web, customer).await {
        return ApiError::Failure(Failure::InDebt { balance, cost, debt });
    }
    match waiting(web, customer).await {
        Some(trial) => ApiError::Failure(Failure::TrialPending { balance, cost, trial }),
        None => refusal,
    }
}

/// What the customer owes, if anything.
async fn owed(web: &WebState, customer: CustomerId) -> Option<Credits> {
    let store = web.store.clone();
    let lookup = async move { store::usage::balance(&store, customer).await };
    let debt = web.tasks.on_control(lookup).await.ok()?.ok()??.debt;
    (debt > Credits::ZERO).then_some(debt)
}

/// The credits of a pending trial, if there is one.
async fn waiting(web: &WebState, customer: CustomerId) -> Option<Credits> {
    let trial = Credits::from_whole(web.config.credits.trial);
    let store = web.store.clone();
    let lookup = async move { store::customers::find_by_id(&store, customer).await };
    let found = web.tasks.on_control(lookup).await.ok()?.ok()??;
    (found.trial == TrialState::Pending && trial > Credits::ZERO).then_some(trial)
}

/// The credits of a trial in this state: those that it would grant, or those that it granted, which
/// stay the same when the configuration changes.
pub async fn credits(
    web: &WebState,
    customer: CustomerId,
    state: TrialState,
) -> Result<i64, StoreError> {
    match state {
        TrialState::Granted => Ok(store::ledger::trial(&web.store, customer).await?.whole()),
        TrialState::Pending | TrialState::None => Ok(promised(web, state)),
    }
}

/// The credits that a trial in this state would grant.
pub fn promised(web: &WebState, state: TrialState) -> i64 {
    if state == TrialState::Pending { web.config.credits.trial } else { 0 }
}
