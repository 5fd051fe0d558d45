//! Where the processor delivers its events.

use axum::extract::{Request, State};
use billing::webhook;
use settings::http::EVENT_BYTES_MAX;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use web::error::ApiError;
use web::fields;

use crate::ApiState;

const SIGNATURE: &str = "stripe-signature";

pub(super) fn router() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new().routes(routes!(receive_event))
}

/// An event was received.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct Received {
    /// Always true: the event is stored, and processed now or later.
    received: bool,
}

/// Receives an event of the payment processor. It is authenticated by its signature; a repeated
/// event changes nothing.
#[utoipa::path(
    post, path = "/v1/billing/webhook", tag = "billing",
    params(("Stripe-Signature" = String, Header, description = "`t=…,v1=…` over the body's bytes")),
    request_body(content = Object, description = "an event, as the processor signed it"),
    responses(
        (status = 200, body = Received),
    )
)]
async fn receive_event(
    State(api): State<ApiState>,
    request: Request,
) -> Result<axum::Json<Received>, ApiError> {
    let (parts, incoming) = request.into_parts();
    fields::refuse_query(parts.uri.query())?;
    let mut signatures = parts.headers.get_all(SIGNATURE).iter();
    let signature = signatures.next().and_then(|value| value.to_str().ok());
    let signature = signature.filter(|_| signatures.next().is_none());
    let event = api.web.read_body(&parts.extensions, incoming, EVENT_BYTES_MAX).await?;
    webhook::receive(&api.billing, signature, &event).await?;
    Ok(axum::Json(Received { received: true }))
}
