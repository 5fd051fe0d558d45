//! Buying a pack on the processor's page.

use axum::Extension;
use axum::extract::State;
use billing::checkout;
use domain::id::OrderId;
use failures::Failure;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use web::auth::UnrestrictedCaller;
use web::error::ApiError;
use web::extract::Json;
use web::fields::RequestBody;
use web::idempotency_key::OptionalRequestKey;
use web::own_requests::NotKept;

use crate::ApiState;

pub(super) fn router() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new().routes(routes!(begin_checkout))
}

/// What to buy. The server sets the price and the pages to which the customer returns.
#[derive(serde::Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PackChoice {
    /// A pack of `GET /v1/billing/plans`.
    pub(super) pack_id: String,
}

impl RequestBody for PackChoice {}

/// A page of the processor.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct CheckoutOut {
    /// Where to send the customer.
    url: String,
    /// The `session_id` that the success page receives.
    session_id: String,
    #[schema(value_type = String)]
    order_id: OrderId,
    /// Credits owed because of a refund or a dispute; the purchase pays them first.
    debt: i64,
}

/// Starts a checkout for a credit pack. Repeated with the same `Idempotency-Key`, it returns the
/// same page while the page is open.
#[utoipa::path(
    post, path = "/v1/billing/checkout", tag = "billing", request_body = PackChoice,
    responses(
        (status = 200, body = CheckoutOut),
    )
)]
async fn begin_checkout(
    State(api): State<ApiState>,
    UnrestrictedCaller(caller): UnrestrictedCaller,
    OptionalRequestKey(idempotency): OptionalRequestKey,
    Json(choice): Json<PackChoice>,
) -> Result<(Extension<NotKept>, axum::Json<CheckoutOut>), ApiError> {
    let begun =
        checkout::begin(&api.billing, caller.customer, &choice.pack_id, idempotency).await?;
    let balance = store::usage::balance(&api.store, caller.customer).await?;
    let debt = balance.ok_or(ApiError::Failure(Failure::InvalidKey))?.debt.whole();
    let (url, session_id, order_id) = (begun.url, begun.session, begun.order);
    // A repetition must notice when the page has been closed.
    Ok((Extension(NotKept), axum::Json(CheckoutOut { url, session_id, order_id, debt })))
}
