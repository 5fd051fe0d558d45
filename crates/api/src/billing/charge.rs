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

use super::card::Script;
use super::checkout::PackChoice;
use crate::ApiState;

pub(super) fn router() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new().routes(routes!(charge_card)).routes(routes!(confirm_charge))
}

/// How a charge ended, or what it waits for.
#[derive(serde::Serialize, utoipa::ToSchema)]
#[serde(untagged)]
enum ChargeOut {
    /// Paid, and the credits granted.
    Paid(PaidOut),
    /// The bank wants the customer to authenticate in the browser; confirm the charge afterwards.
    ActionRequired(ActionOut),
    /// The bank takes its time (202); confirm the charge later, or wait for its order to be paid.
    Processing(ProcessingOut),
}

/// A charge that was paid.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct PaidOut {
    /// `paid`.
    status: &'static str,
    /// True.
    ok: bool,
    /// What the pack brought.
    credits: i64,
    /// What may be spent now.
    balance: i64,
    /// The order that was paid.
    #[schema(value_type = String)]
    order_id: OrderId,
}

/// A charge that waits for the customer, with what a browser needs to go on with it.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct ActionOut {
    /// `requires_action`.
    status: &'static str,
    /// True.
    requires_action: bool,
    /// For the processor's script in the customer's browser.
    client_secret: String,
    /// The card that pays, for the same script.
    payment_method_id: Option<String>,
    /// What to confirm.
    pi_id: String,
    /// The order that is to be paid.
    #[schema(value_type = String)]
    order_id: OrderId,
    /// What the processor's script is started with.
    publishable_key: Option<String>,
    /// Where that script is.
    js_url: Option<String>,
    /// When the charge is cancelled if it has not been confirmed.
    #[schema(value_type = String, format = DateTime)]
    expires_at: Timestamp,
}

/// A charge that waits for the bank.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct ProcessingOut {
    /// `processing`.
    status: &'static str,
    /// False.
    ok: bool,
    /// True.
    processing: bool,
    /// What to confirm.
    pi_id: String,
    /// The order that is to be paid.
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
        // A client secret is not stored, and whoever asks again hears how the payment stands by then.
        response.extensions_mut().insert(NotKept);
    }
    response
}

fn waiting(api: &ApiState, order_id: OrderId, action: RequiredAction) -> ActionOut {
    let Script { publishable_key, js_url } = Script::of(api);
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

/// Charges the saved card for a credit pack. A charge of the same pack that is still in progress is continued.
#[utoipa::path(
    post, path = "/v1/billing/charge", tag = "billing", request_body = PackChoice,
    responses(
        (status = 200, body = ChargeOut),
        (status = 202, body = ProcessingOut, description = "the bank takes its time"),
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

/// A charge that the customer authenticated.
#[derive(serde::Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Confirmation {
    /// The `pi_id` of the charge.
    #[schema(max_length = 255)]
    pi_id: String,
}

impl RequestBody for Confirmation {}

/// Grants the credits of a charge that the customer has authenticated, if it is paid. A charge that still waits for the
/// customer is 200 with `status: "requires_action"` and what the browser needs; one that was declined is 402.
#[utoipa::path(
    post, path = "/v1/billing/confirm-charge", tag = "billing", request_body = Confirmation,
    responses(
        (status = 200, body = ChargeOut),
        (status = 202, body = ProcessingOut, description = "the bank takes its time"),
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
