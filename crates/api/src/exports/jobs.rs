//! Single exports: showing, cancelling and deleting them.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use domain::export::ExportRemoval;
use domain::id::ExportId;
use domain::staff::Permission;
use failures::ExportProblem;
use failures::Failure;
use identity::support::{self, StaffVisit};
use runtime::audit;
use serde_json::json;
use store::exports::{self, Export, ExportCancellation, ExportDeletion};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use web::auth::{Caller, FullCaller};
use web::error::ApiError;
use web::extract::{NoQuery, Path};

use super::record::{ExportOut, Sight};
use super::{create, lists};
use crate::ApiState;

pub(super) fn router() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new()
        .routes(routes!(lists::list_exports, create::create_export))
        .routes(routes!(get_export, delete_export))
        .routes(routes!(cancel_export))
        .routes(routes!(lists::list_all_exports))
        .routes(routes!(lists::list_customer_exports))
}

/// Shows the state of an export. For a finished one, each request returns a new link to its file.
/// Staff can see it while the customer allows support access.
#[utoipa::path(
    get, path = "/v1/exports/{job_id}", tag = "exports",
    params(("job_id" = String, Path, description = "the export")),
    responses(
        (status = 200, body = ExportOut),
    )
)]
async fn get_export(
    State(api): State<ApiState>,
    caller: Caller,
    Path(id): Path<ExportId>,
    _: NoQuery,
) -> Result<Json<ExportOut>, ApiError> {
    let (export, sight) =
        reach(&api, &caller, id, Permission::TO_LOOK, audit::STAFF_READ_EXPORTS).await?;
    Ok(Json(ExportOut::of(&api, export, sight)))
}

/// Cancels an export: immediately while it is waiting, within seconds while it is running. It is
/// free until its first page has been read, and charged from then on.
#[utoipa::path(
    post, path = "/v1/exports/{job_id}/cancel", tag = "exports",
    params(("job_id" = String, Path, description = "the export")),
    responses(
        (status = 200, description = "the export is cancelled", body = ExportOut),
        (status = 202, description = "the export is being stopped; check again", body = ExportOut),
    )
)]
async fn cancel_export(
    State(api): State<ApiState>,
    FullCaller(caller): FullCaller,
    Path(id): Path<ExportId>,
    _: NoQuery,
) -> Result<(StatusCode, Json<ExportOut>), ApiError> {
    own(&api, &caller, id).await?.ok_or_else(not_found)?;
    let cancelling = exports::cancel(&api.store, caller.customer, id, api.clock.now()).await?;
    let (status, export) = match cancelling {
        ExportCancellation::Cancelled(export) => (StatusCode::OK, export),
        ExportCancellation::Stopping(export) => {
            api.exports.at_work.stop(id);
            (StatusCode::ACCEPTED, export)
        }
        ExportCancellation::Over(state) => return Err(ExportProblem::Over(state).into()),
        ExportCancellation::NotFound => return Err(not_found()),
    };
    Ok((status, Json(ExportOut::of(&api, *export, Sight::Own))))
}

/// Deletes an export that has ended, and its file. Nothing changes on the platform. Staff can do so
/// with the permission `data-export.manage` while the customer allows them to look.
#[utoipa::path(
    delete, path = "/v1/exports/{job_id}", tag = "exports",
    params(("job_id" = String, Path, description = "the export")),
    responses(
        (status = 204, description = "the export is deleted"),
    )
)]
async fn delete_export(
    State(api): State<ApiState>,
    FullCaller(caller): FullCaller,
    Path(id): Path<ExportId>,
    _: NoQuery,
) -> Result<StatusCode, ApiError> {
    let (export, sight) =
        reach(&api, &caller, id, Permission::TO_MANAGE_EXPORTS, audit::STAFF_DELETED_EXPORT)
            .await?;
    let reason = match sight {
        Sight::Own => ExportRemoval::ByCustomer,
        Sight::Record => ExportRemoval::BySupport,
    };
    match exports::delete(&api.store, export.customer, id, reason, api.clock.now()).await? {
        ExportDeletion::Deleted => {
            api.exports.signal.notify_one();
            Ok(StatusCode::NO_CONTENT)
        }
        ExportDeletion::NotOver => Err(ExportProblem::NotOver.into()),
        ExportDeletion::NotFound => Err(not_found()),
    }
}

pub(super) const fn not_found() -> ApiError {
    ApiError::Failure(Failure::NotFound("there is no export with that id"))
}

/// The caller's own export.
pub(super) async fn own(
    api: &ApiState,
    caller: &Caller,
    id: ExportId,
) -> Result<Option<Export>, ApiError> {
    let found = exports::find(&api.store, id, caller.customer).await?;
    Ok(found.filter(|export| caller.may_use(&export.account)))
}

/// An export that the caller owns, or may see as staff, which is recorded. Callers who are not
/// staff cannot find out that another customer's export exists, and neither can a limited key of
/// staff.
async fn reach(
    api: &ApiState,
    caller: &Caller,
    id: ExportId,
    needs: &'static [Permission],
    action: &'static str,
) -> Result<(Export, Sight), ApiError> {
    if let Some(export) = own(api, caller, id).await? {
        return Ok((export, Sight::Own));
    }
    caller.refuse_limited().map_err(|_| not_found())?;
    let export = exports::find_of_any(&api.store, id).await?.ok_or_else(not_found)?;
    let staff = store::permissions::list(&api.store).await?;
    let is_staff = staff.iter().any(|granted| granted.customer == caller.customer);
    if export.customer == caller.customer || !is_staff {
        return Err(not_found());
    }
    let visit =
        StaffVisit { customer: export.customer, needs, action, details: json!({"job_id": id}) };
    support::visit(&api.identity, caller, visit).await?;
    Ok((export, Sight::Record))
}
