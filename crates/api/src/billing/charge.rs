//! One click: charging the saved card for a pack, and confirming what the customer authenticated.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use billing::charge::{self, ChargeState, PackCharge, RequiredAction};
use domain::id::OrderId;
use domain::time::Timestamp;
use http::StatusCode;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use web::auth::UnrestrictedCaller;
use web::error::ApiError;
use web::extract::Json;
use web::fields::RequestBody;
use web::idempotency_key::OptionalRequestKey;
use web::own_requests::NotKept;

use super::card::ProcessorScript;
use super::checkout::PackChoice;
use crate::ApiState;

pub(super) fn router() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new().routes(routes!(charge_card)).routes(routes!(confirm_charge))
}

/// The result of a charge, or what it waits for.
#[derive(serde::Serialize, utoipa::ToSchema)]
#[serde(untagged)]
enum ChargeOut {
    /// Paid, and its credits are granted.
    Paid(PaidOut),
    /// The bank requires the customer to authenticate in the browser; confirm the charge
    /// afterwards.
    ActionRequired(ActionOut),
    /// The bank is still processing it (202); confirm the charge later, or wait for its order to be
    /// paid.
    Processing(ProcessingOut),
}

/// A charge that was paid.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct PaidOut {
    /// Always `paid`.
    status: &'static str,
    /// Always true.
    ok: bool,
    /// The credits granted.
    credits: i64,
    /// The balance now.
    balance: i64,
    /// The order that was paid.
    #[schema(value_type = String)]
    order_id: OrderId,
}

/// A charge that waits for the customer, with what a browser needs to continue.
#[derive(serde::Serialize, utoipa::ToSchema)]
pub(super) struct ActionOut {
    /// Always `requires_action`.
    status: &'static str,
    /// Always true.
    requires_action: bool,
    /// For the processor's script in the customer's browser.
    client_secret: String,
    /// The card to charge, for the same script.
    payment_method_id: Option<String>,
    /// The id to confirm.
    pi_id: String,
    /// The order to be paid.
    #[schema(value_type = String)]
    order_id: OrderId,
    /// The key with which the processor's script is started.
    publishable_key: Option<String>,
    /// The address of that script.
    js_url: Option<String>,
    /// When the charge is cancelled, unless it is confirmed before.
    #[schema(value_type = String, format = DateTime)]
    expires_at: Timestamp,
}

/// A charge that waits for the bank.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct ProcessingOut {
    /// Always `processing`.
    status: &'static str,
    /// Always false.
    ok: bool,
    /// Always true.
    processing: bool,
    /// The id to confirm.
    pi_id: String,
    /// The order to be paid.
    #[schema(value_type = String)]
    order_id: OrderId,
}

fn shown(api: &ApiState, charge: PackCharge) -> Response {
    let order_id = charge.order;
    let (status, out) = match charge.state {
        ChargeState::Paid(receipt) => {
            let (credits, balance) = (receipt.credits.whole(), receipt.balance.whole());
            let paid = PaidOut { status: "paid", ok: true, credits, balance, order_id };
            (StatusCode::OK, ChargeOut::Paid(paid))
        }
        ChargeState::ActionRequired(action) => {
            (StatusCode::OK, ChargeOut::ActionRequired(waiting(api, order_id, action)))
        }
        ChargeState::Processing { intent: pi_id } => {
            let (status, ok, processing) = ("processing", false, true);
            let waiting = ProcessingOut { status, ok, processing, pi_id, order_id };
            (StatusCode::ACCEPTED, ChargeOut::Processing(waiting))
        }
    };
    let is_final = matches!(out, ChargeOut::Paid(_));
    let mut response = (status, axum::Json(out)).into_response();
    if !is_final {
        // A client secret is not stored, and a repetition must see the payment's current state.
        response.extensions_mut().insert(NotKept);
    }
    response
}

pub(super) fn waiting(api: &ApiState, order_id: OrderId, action: RequiredAction) -> ActionOut {
    let ProcessorScript { publishable_key, js_url } = ProcessorScript::of(api);
    ActionOut {
        status: "requires_action",
        requires_action: true,
        client_secret: action.client_secret.expose().to_owned(),
        payment_method_id: action.payment_method,
        pi_id: action.intent,
        order_id,
        publishable_key,
        js_url,
        expires_at: action.until,
    }
}

/// Charges the saved card for a credit pack. A charge of the same pack that is still in progress is
/// continued.
#[utoipa::path(
    post, path = "/v1/billing/charge", tag = "billing", request_body = PackChoice,
    responses(
        (status = 200, body = ChargeOut),
        (status = 202, body = ProcessingOut, description = "the bank is still processing the payment"),
    )
)]
async fn charge_card(
    State(api): State<ApiState>,
    UnrestrictedCaller(caller): UnrestrictedCaller,
    OptionalRequestKey(idempotency): OptionalRequestKey,
    Json(choice): Json<PackChoice>,
) -> Result<Response, ApiError> {
    let charge =
        charge::charge(&api.billing, caller.customer, &choice.pack_id, idempotency).await?;
    Ok(shown(&api, charge))
}

/// A charge that the customer has authenticated.
#[derive(serde::Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Confirmation {
    /// The `pi_id` of the charge.
    #[schema(max_length = 255)]
    pi_id: String,
}

impl RequestBody for Confirmation {}

/// Grants the credits of a charge that the customer has authenticated, if it is paid. A charge that
/// still waits for the customer returns 200 with `status: "requires_action"` and what the browser
/// needs; a declined one returns 402.
#[utoipa::path(
    post, path = "/v1/billing/confirm-charge", tag = "billing", request_body = Confirmation,
    responses(
        (status = 200, body = ChargeOut),
        (status = 202, body = ProcessingOut, description = "the bank is still processing the payment"),
    )
)]
async fn confirm_charge(
    State(api): State<ApiState>,
    UnrestrictedCaller(caller): UnrestrictedCaller,
    Json(confirmation): Json<Confirmation>,
) -> Result<Response, ApiError> {
    let charge = charge::confirm(&api.billing, caller.customer, &confirmation.pi_id).await?;
    Ok(shown(&api, charge))
}
