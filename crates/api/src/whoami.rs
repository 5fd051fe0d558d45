//! Who am I: what the calling key or session is, and what it may do.

use axum::Json;
use axum::extract::State;
use domain::account::CreatorId;
use domain::id::{CustomerId, KeyId};
use domain::key::KeyScope;
use domain::platform::Platform;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use web::auth::Caller;
use web::error::ApiError;
use web::extract::NoQuery;

use crate::ApiState;

pub(crate) fn router() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new().routes(routes!(get_whoami))
}

/// The caller and its customer.
#[derive(serde::Serialize, utoipa::ToSchema)]
pub(crate) struct WhoAmI {
    /// The calling key; absent with a session.
    #[schema(value_type = Option<String>)]
    key_id: Option<KeyId>,
    /// The first characters of the key; absent with a session.
    prefix: Option<String>,
    #[schema(schema_with = web::words::key_scope)]
    scope: KeyScope,
    #[schema(value_type = String)]
    customer_id: CustomerId,
    email_verified: bool,
    /// The accounts that the caller is limited to, by their `creator_id`; null means no
    /// restriction.
    accounts: Option<Vec<String>>,
    /// The connected accounts that the caller may use, by their `creator_id`.
    connected_accounts: Vec<String>,
    limits: LimitsOut,
}

/// The limits of the caller.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct LimitsOut {
    /// Requests per second for each key: the sustained rate, and the burst.
    requests_per_second: u32,
    burst: u32,
    /// The number of accounts that may be active, by platform.
    #[schema(value_type = std::collections::BTreeMap<String, i64>)]
    accounts: std::collections::BTreeMap<Platform, i64>,
}

/// Shows what the calling key or session is, and what it may do.
#[utoipa::path(get, path = "/v1/whoami", tag = "auth", responses((status = 200, body = WhoAmI)))]
async fn get_whoami(
    State(api): State<ApiState>,
    caller: Caller,
    _: NoQuery,
) -> Result<Json<WhoAmI>, ApiError> {
    let accounts = store::accounts::list(&api.store, caller.customer).await?;
    let may_use = accounts.into_iter().filter(|account| caller.may_use(&account.creator_id));
    let usage = store::slot_limits::usage(&api.store, caller.customer, &api.allowances).await?;
    let limit = |platform: Platform| (platform, usage.limits.limit.on(platform));
    Ok(Json(WhoAmI {
        key_id: caller.key().map(|key| key.id),
        prefix: caller.key().map(|key| key.shown_prefix.clone()),
        scope: caller.scope(),
        customer_id: caller.customer,
        email_verified: caller.is_email_verified,
        accounts: Some(names(caller.allowed_accounts())).filter(|names| !names.is_empty()),
        connected_accounts: may_use.map(|account| account.creator_id.to_string()).collect(),
        limits: LimitsOut {
            requests_per_second: api.config.rate_limits.per_key_per_second,
            burst: api.config.rate_limits.per_key_burst,
            accounts: Platform::all().into_iter().map(limit).collect(),
        },
    }))
}

fn names(accounts: &[CreatorId]) -> Vec<String> {
    accounts.iter().map(ToString::to_string).collect()
}
