//! Lists of exports: of all accounts, of one account, and of a customer for staff.

use axum::Json;
use axum::extract::State;
use domain::account::CreatorId;
use domain::dataset::DatasetName;
use domain::export::ExportState;
use domain::id::{CustomerId, ExportId};
use domain::platform::Platform;
use domain::staff::Permission;
use failures::Failure;
use identity::support::{self, StaffVisit};
use runtime::audit;
use serde_json::json;
use store::exports::{self, ExportList};
use web::auth::Caller;
use web::error::ApiError;
use web::extract::{Path, Query};
use web::fields::RequestQuery;
use web::page::{FilteredPageQuery, PageQuery};
use web::words;

use super::record::{ExportOut, Sight};
use crate::ApiState;

pub(super) type ListParams = PageQuery<ExportId>;

/// Every export of a customer, from the wanted page on.
fn wanted(customer: CustomerId, page: &ListParams) -> ExportList {
    ExportList {
        customer,
        account: None,
        allowed_accounts: Vec::new(),
        platform: None,
        dataset: None,
        state: None,
        before: page.before(),
        limit: page.to_read(),
    }
}

/// Which exports of all accounts to list.
#[derive(serde::Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ExportFilter {
    /// The `creator_id` of an account, which may have been deleted since.
    #[param(value_type = Option<String>, min_length = 1, max_length = 64, format = "creator-id")]
    account: Option<CreatorId>,
    /// Only exports of this platform.
    #[param(schema_with = words::platform)]
    platform: Option<Platform>,
    /// Only exports of this dataset.
    #[param(schema_with = words::dataset)]
    dataset: Option<DatasetName>,
    /// Only exports with this status. Without it, all except those that were removed (`deleted`),
    /// which a limited key cannot list.
    #[param(schema_with = words::export_state)]
    status: Option<ExportState>,
}

impl RequestQuery for ExportFilter {}

pub(super) type AllParams = FilteredPageQuery<ExportFilter, ExportId>;

/// Exports, newest first.
#[derive(serde::Serialize, utoipa::ToSchema)]
pub(super) struct Exports {
    exports: Vec<ExportOut>,
    /// The `before` for the next page; null on the last one.
    #[schema(value_type = Option<String>)]
    next_before: Option<ExportId>,
}

/// Lists the exports of an account, newest first.
#[utoipa::path(
    get, path = "/v1/{account}/exports", tag = "exports",
    params(("account" = String, Path, description = "its creator_id"), ListParams),
    responses(
        (status = 200, body = Exports),
    )
)]
pub(super) async fn list_exports(
    State(api): State<ApiState>,
    caller: Caller,
    Path(account): Path<String>,
    Query(page): Query<ListParams>,
) -> Result<Json<Exports>, ApiError> {
    let creator: CreatorId =
        account.parse().map_err(|_| ApiError::Failure(Failure::AccountNotFound))?;
    if !caller.may_use(&creator) {
        return Err(ApiError::Failure(Failure::AccountNotFound));
    }
    let wanted = ExportList { account: Some(creator.clone()), ..wanted(caller.customer, &page) };
    let listed = listed(&api, wanted, &page, Sight::Own).await?;
    // Exports outlive their account.
    if listed.exports.is_empty()
        && store::accounts::find(&api.store, caller.customer, &creator).await?.is_none()
    {
        return Err(ApiError::Failure(Failure::AccountNotFound));
    }
    Ok(Json(listed))
}

/// Lists the exports of all accounts, newest first, with the cost of each. A key that is limited to
/// some accounts sees those of its accounts.
#[utoipa::path(
    get, path = "/v1/exports", tag = "exports", params(AllParams),
    responses(
        (status = 200, body = Exports),
    )
)]
pub(super) async fn list_all_exports(
    State(api): State<ApiState>,
    caller: Caller,
    Query(params): Query<AllParams>,
) -> Result<Json<Exports>, ApiError> {
    let FilteredPageQuery { filter, page } = params;
    if filter.status == Some(ExportState::Deleted) {
        caller.refuse_limited()?;
    }
    let wanted = ExportList {
        account: filter.account,
        allowed_accounts: caller.allowed_accounts().to_vec(),
        platform: filter.platform,
        dataset: filter.dataset,
        state: filter.status,
        ..wanted(caller.customer, &page)
    };
    listed(&api, wanted, &page, Sight::Own).await.map(Json)
}

/// For staff: lists the exports of a customer who allows it, without their data. Each access is in
/// the customer's audit list.
#[utoipa::path(
    get, path = "/v1/support/customers/{customer_id}/exports", tag = "support",
    params(("customer_id" = String, Path, description = "the customer"), ListParams),
    responses(
        (status = 200, body = Exports),
    )
)]
pub(super) async fn list_customer_exports(
    State(api): State<ApiState>,
    caller: Caller,
    Path(customer): Path<CustomerId>,
    Query(page): Query<ListParams>,
) -> Result<Json<Exports>, ApiError> {
    let visit = StaffVisit {
        customer,
        needs: Permission::TO_LOOK,
        action: audit::STAFF_READ_EXPORTS,
        details: json!({}),
    };
    support::visit(&api.identity, &caller, visit).await?;
    listed(&api, wanted(customer, &page), &page, Sight::Record).await.map(Json)
}

/// One page of a list.
async fn listed(
    api: &ApiState,
    wanted: ExportList,
    page: &ListParams,
    sight: Sight,
) -> Result<Exports, ApiError> {
    let page = page.page(exports::list(&api.store, &wanted).await?, |export| export.id);
    let records = page.entries.into_iter().map(|export| ExportOut::of(api, export, sight));
    Ok(Exports { exports: records.collect(), next_before: page.next_before })
}
