//! The saved card: shown, taken over after a checkout, and removed.

use axum::extract::State;
use billing::card_on_file::{PaidInvoice, UnpaidInvoice};
use billing::cards::SyncedCard;
use domain::field_error::FieldErrorKind;
use domain::id::CustomerId;
use failures::FieldProblem;
use identity::login;
use store::cards::{self, SavedCard};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use web::auth::device::CallingDevice;
use web::auth::{Caller, UnrestrictedCaller};
use web::error::ApiError;
use web::extract::{NoQuery, OptionalJson};
use web::fields::RequestBody;

use super::autotopup::{self, AutoTopUp};
use super::plans::{self, PackOut};
use crate::ApiState;

pub(super) fn router() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new().routes(routes!(get_card, delete_card)).routes(routes!(sync_card))
}

/// The saved card, and what it can be charged for.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct CardView {
    /// Null if none is saved.
    card: Option<CardOut>,
    autotopup: AutoTopUp,
    packs: Vec<PackOut>,
    /// The key with which the processor's script is started, if authentication is needed.
    publishable_key: Option<String>,
    /// The address of that script.
    js_url: Option<String>,
    /// Whether payments are possible on this deployment.
    processor_configured: bool,
}

/// What identifies a card to people.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct CardOut {
    /// The brand, such as `visa`.
    brand: String,
    /// The last four digits.
    last4: String,
    exp_month: i64,
    exp_year: i64,
}

impl From<SavedCard> for CardOut {
    fn from(card: SavedCard) -> Self {
        Self {
            brand: card.brand,
            last4: card.last4,
            exp_month: card.exp_month,
            exp_year: card.exp_year,
        }
    }
}

/// What a browser needs so that a customer can authenticate a payment.
pub(super) struct ProcessorScript {
    /// The key with which the processor's script is started.
    pub(super) publishable_key: Option<String>,
    /// Its address.
    pub(super) js_url: Option<String>,
}

impl ProcessorScript {
    pub(super) fn of(api: &ApiState) -> Self {
        let section = &api.config.processor;
        let shown = |text: &String| (!text.is_empty()).then(|| text.clone());
        Self { publishable_key: shown(&section.publishable_key), js_url: shown(&section.js_url) }
    }
}

/// Shows the saved card.
#[utoipa::path(
    get, path = "/v1/billing/card", tag = "billing", responses((status = 200, body = CardView))
)]
async fn get_card(
    State(api): State<ApiState>,
    caller: Caller,
    _: NoQuery,
) -> Result<axum::Json<CardView>, ApiError> {
    caller.refuse_limited()?;
    let card = cards::find(&api.store, caller.customer).await?;
    view(&api, caller.customer, card).await
}

async fn view(
    api: &ApiState,
    customer: CustomerId,
    card: Option<SavedCard>,
) -> Result<axum::Json<CardView>, ApiError> {
    let script = ProcessorScript::of(api);
    Ok(axum::Json(CardView {
        card: card.map(CardOut::from),
        autotopup: autotopup::shown(api, customer).await?,
        packs: plans::packs(api).await?,
        publishable_key: script.publishable_key,
        js_url: script.js_url,
        processor_configured: api.config.processor.is_configured(),
    }))
}

/// The removal of a card.
#[derive(serde::Deserialize, utoipa::ToSchema, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct CardRemoval {
    /// With a session: the customer's password, as a confirmation. Ignored with a key.
    #[schema(max_length = 128, format = Password)]
    current_password: Option<String>,
}

impl RequestBody for CardRemoval {}

/// Removes the saved card and turns automatic top-up off. Refused while a subscription is paid with
/// the card.
#[utoipa::path(
    delete, path = "/v1/billing/card", tag = "billing", request_body = Option<CardRemoval>,
    responses(
        (status = 200, body = CardView),
    )
)]
async fn delete_card(
    State(api): State<ApiState>,
    UnrestrictedCaller(caller): UnrestrictedCaller,
    device: CallingDevice,
    OptionalJson(removal): OptionalJson<CardRemoval>,
) -> Result<axum::Json<CardView>, ApiError> {
    if caller.key().is_none() {
        let password = removal.current_password.ok_or_else(missing_password)?;
        login::confirm(&api.identity, caller.customer, password, &device).await?;
    }
    billing::cards::remove(&api.billing, caller.customer).await?;
    view(&api, caller.customer, None).await
}

fn missing_password() -> FieldProblem {
    let message = "is required with a session";
    FieldProblem::new("body", "current_password", FieldErrorKind::Missing, message)
}

/// The card that was taken over, and what it paid.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct SyncOut {
    #[serde(flatten)]
    view: CardView,
    /// Open invoices of the subscription that the card paid.
    invoices_paid: Vec<InvoicePaidOut>,
    /// Open invoices of the subscription that the card did not pay. They stay open, and the
    /// customer gets an email for each.
    invoices_failed: Vec<InvoiceFailedOut>,
}

/// An invoice that was paid.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct InvoicePaidOut {
    /// The processor's id of the invoice.
    invoice_id: String,
    /// The amount charged, in cents.
    amount_cents: i64,
    /// The currency, such as `usd`.
    currency: String,
}

/// An invoice that is still open.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct InvoiceFailedOut {
    /// The processor's id of the invoice.
    invoice_id: String,
    /// The amount due, in cents.
    amount_cents: i64,
    /// The currency, such as `usd`.
    currency: String,
    /// The reason given by the bank or the processor.
    decline_code: String,
    /// The payment processor's page on which the invoice can be paid.
    url: Option<String>,
}

impl From<PaidInvoice> for InvoicePaidOut {
    fn from(invoice: PaidInvoice) -> Self {
        let PaidInvoice { id, amount_cents, currency } = invoice;
        Self { invoice_id: id, amount_cents, currency }
    }
}

impl From<UnpaidInvoice> for InvoiceFailedOut {
    fn from(invoice: UnpaidInvoice) -> Self {
        let UnpaidInvoice { id, amount_cents, currency, decline_code, url } = invoice;
        Self { invoice_id: id, amount_cents, currency, decline_code, url }
    }
}

/// A completed checkout.
#[derive(serde::Deserialize, utoipa::ToSchema, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct SyncIn {
    /// The completed checkout; the processor's newest card is used when absent.
    #[schema(max_length = 255)]
    session_id: Option<String>,
}

impl RequestBody for SyncIn {}

/// Saves the card of a completed checkout, or the newest card, and grants what was bought if it is
/// paid. The card then pays the subscription and its open invoices; if it is already saved, it
/// tries those again. The body is optional.
#[utoipa::path(
    post, path = "/v1/billing/sync-card", tag = "billing", request_body = Option<SyncIn>,
    responses(
        (status = 200, body = SyncOut),
    )
)]
async fn sync_card(
    State(api): State<ApiState>,
    UnrestrictedCaller(caller): UnrestrictedCaller,
    OptionalJson(sync): OptionalJson<SyncIn>,
) -> Result<axum::Json<SyncOut>, ApiError> {
    let session = sync.session_id.as_deref();
    let SyncedCard { card, invoices } =
        billing::cards::sync(&api.billing, caller.customer, session).await?;
    let axum::Json(view) = view(&api, caller.customer, card).await?;
    Ok(axum::Json(SyncOut {
        view,
        invoices_paid: invoices.paid.into_iter().map(InvoicePaidOut::from).collect(),
        invoices_failed: invoices.failed.into_iter().map(InvoiceFailedOut::from).collect(),
    }))
}
