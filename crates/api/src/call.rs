//! One call of the call log, by its id or by the id of its request.

use axum::Json;
use axum::extract::State;
use domain::time::Timestamp;
use failures::Failure;
use store::call_details::{self, CallDetails, CallSearch};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use web::auth::Caller;
use web::error::ApiError;
use web::extract::{NoQuery, Path};

use super::usage::CallOut;
use crate::ApiState;

const NO_CALL: ApiError = ApiError::Failure(Failure::NotFound(
    "there is no such call of yours, or it is older than the call log keeps calls",
));

pub(crate) fn router() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new().routes(routes!(get_call))
}

/// One call, with what was held for it.
#[derive(serde::Serialize, utoipa::ToSchema)]
pub(crate) struct CallDetailsOut {
    #[serde(flatten)]
    call: CallOut,
    /// The credits that were held for it: the cost of its route. What was not charged of it was
    /// returned.
    held: i64,
    /// When it ended; null while it is running.
    #[schema(value_type = Option<String>, format = DateTime)]
    ended_at: Option<Timestamp>,
    /// Whether it had an `Idempotency-Key`.
    has_idempotency_key: bool,
}

/// Shows one call. Of several calls with the same `request_id`, the newest is shown that the caller
/// may see. A limited key sees its own calls, for the accounts that it may use.
#[utoipa::path(
    get, path = "/v1/billing/usage/calls/{id}", tag = "usage",
    params(("id" = String, Path, description = "the `call_id` or `request_id` of the call")),
    responses((status = 200, body = CallDetailsOut))
)]
async fn get_call(
    State(api): State<ApiState>,
    caller: Caller,
    Path(id): Path<String>,
    _: NoQuery,
) -> Result<Json<CallDetailsOut>, ApiError> {
    let search = CallSearch::of_request(&id, Some(caller.customer));
    let found = call_details::find_soon(&api.store, &search).await?;
    let is_visible = |call: &CallDetails| {
        caller.may_use(&call.call.account)
            && caller.key().is_none_or(|key| !key.is_limited || key.id == call.call.key)
    };
    let newest = found.into_iter().find(is_visible).ok_or(NO_CALL)?;
    Ok(Json(newest.into()))
}

impl From<CallDetails> for CallDetailsOut {
    fn from(found: CallDetails) -> Self {
        Self {
            held: found.call.cost.whole(),
            ended_at: found.call.resolved_at,
            has_idempotency_key: found.has_idempotency_key,
            call: found.call.into(),
        }
    }
}
