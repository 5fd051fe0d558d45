//! A customer without credits whose free trial waits for a confirmed email address, or who owes credits, is told so.

use domain::credits::Credits;
use domain::customer::TrialState;
use domain::id::CustomerId;
use failures::Failure;

use crate::WebState;
use crate::error::ApiError;

/// A refusal for want of credits with the trial that would help, or with the debt; any other as it is. Whatever keeps them
/// from being looked up leaves the refusal as it is.
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

/// The credits of a trial that waits.
async fn waiting(web: &WebState, customer: CustomerId) -> Option<Credits> {
    let trial = Credits::from_whole(web.config.credits.trial);
    let store = web.store.clone();
    let lookup = async move { store::customers::find_by_id(&store, customer).await };
    let found = web.tasks.on_control(lookup).await.ok()?.ok()??;
    (found.trial == TrialState::Pending && trial > Credits::ZERO).then_some(trial)
}

/// What a trial in this state brings, or brought.
pub fn credits(web: &WebState, state: TrialState) -> i64 {
    match state {
        TrialState::Pending | TrialState::Granted => web.config.credits.trial,
        TrialState::None => 0,
    }
}
