//! What can be bought once: credit packs.

use axum::extract::State;
use billing::offered_prices::{self, PricedOffer};
use failures::Failure;
use settings::billing::{CURRENCY, Pack};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use web::auth::Caller;
use web::error::ApiError;
use web::extract::NoQuery;

use crate::ApiState;

pub(super) fn router() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new().routes(routes!(list_packs))
}

/// A credit pack.
#[derive(serde::Serialize, utoipa::ToSchema)]
pub(super) struct PackOut {
    pack_id: String,
    name: String,
    /// The price, in cents.
    price_cents: i64,
    /// Use `price_cents`: the same amount in dollars.
    #[schema(deprecated)]
    price_usd: f64,
    /// Always `usd`.
    currency: &'static str,
    /// The credits that it grants.
    credits: i64,
    /// Whether `POST /v1/billing/checkout` sells it. False while its price at the payment processor
    /// is not the one here; a saved card can be charged, and automatic top-up goes on.
    available: bool,
}

impl PackOut {
    fn new(pack: &Pack, available: bool) -> Self {
        Self {
            available,
            pack_id: pack.id.clone(),
            name: pack.name.clone(),
            price_cents: pack.price_cents,
            // Prices have at most eight digits by configuration.
            price_usd: f64::from(i32::try_from(pack.price_cents).unwrap_or(i32::MAX)) / 100.0,
            currency: CURRENCY,
            credits: pack.credits,
        }
    }
}

/// What is for sale.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct Packs {
    packs: Vec<PackOut>,
    /// Whether payments are possible on this deployment.
    processor_configured: bool,
}

/// The packs, as callers see them.
pub(super) async fn packs(api: &ApiState) -> Result<Vec<PackOut>, Failure> {
    let unavailable = offered_prices::unavailable(&api.billing).await?;
    let pack = |pack| PackOut::new(pack, unavailable.allow(PricedOffer::Pack(pack)));
    Ok(api.config.packs.iter().map(pack).collect())
}

/// Lists the credit packs that can be bought.
#[utoipa::path(
    get, path = "/v1/billing/plans", tag = "billing", responses((status = 200, body = Packs))
)]
async fn list_packs(
    State(api): State<ApiState>,
    _caller: Caller,
    _: NoQuery,
) -> Result<axum::Json<Packs>, ApiError> {
    let processor_configured = api.config.processor.is_configured();
    Ok(axum::Json(Packs { packs: packs(&api).await?, processor_configured }))
}
