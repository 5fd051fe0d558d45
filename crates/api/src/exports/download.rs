//! Downloading the finished file, with a key, a session or a signed link. If the storage can be
//! reached directly, a link redirects there.

use std::time::Duration;

use ::exports::links::{self, DownloadLink};
use ::exports::place;
use axum::body::Body;
use axum::extract::{FromRequestParts as _, Request, State};
use axum::response::{IntoResponse, Response};
use domain::export::{ExportRemoval, ExportState};
use domain::id::ExportId;
use failures::ExportProblem;
use failures::Failure;
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode, header};
use store::exports::{self, Export, ExportOutput};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use web::auth::Caller;
use web::byte_range::RequestedRange;
use web::error::ApiError;
use web::extract::Path;
use web::fields;

use super::jobs;
use crate::ApiState;

pub(super) fn router() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new().routes(routes!(download_export))
}

/// The parameters of a signed link.
const LINK_PARAMETERS: &[&str] = &["token", "exp", "signature"];

/// The content of a signed link.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkParams {
    token: i64,
    exp: i64,
    signature: String,
}

/// Downloads the file of a completed export, with a key, a session, or a link returned in the last
/// five minutes by `GET /v1/exports/{job_id}`. One range at a time; HEAD returns the headers only.
/// If files are in object storage, a link redirects there.
#[utoipa::path(
    get, path = "/v1/exports/{job_id}/download", tag = "exports",
    params(
        ("job_id" = String, Path, description = "the export"),
        ("token" = Option<i64>, Query, description = "of a signed link"),
        ("exp" = Option<i64>, Query, description = "of a signed link"),
        ("signature" = Option<String>, Query, description = "of a signed link"),
    ),
    responses(
        (status = 200, description = "the file", content_type = "application/octet-stream"),
        (status = 206, description = "the requested part of the file"),
        (status = 307, description = "the file is at `Location`"),
    )
)]
async fn download_export(
    State(api): State<ApiState>,
    Path(named): Path<String>,
    request: Request,
) -> Result<Response, ApiError> {
    let (mut parts, _) = request.into_parts();
    if has_link(parts.uri.query()) {
        let export = linked(&api, &named, &parts).await?;
        return by_link(&api, export, &parts).await;
    }
    let caller = Caller::from_request_parts(&mut parts, &api).await?;
    fields::refuse_query_beside(parts.uri.query(), LINK_PARAMETERS)?;
    let id = named.parse::<ExportId>().map_err(|_| jobs::not_found())?;
    let export = jobs::own(&api, &caller, id).await?.ok_or_else(jobs::not_found)?;
    match (&export.output, export.state) {
        (Some(output), ExportState::Completed) => {
            let output = output.clone();
            streamed(&api, &export, &output, &parts).await
        }
        (_, ExportState::Expired) if lost_early(&export) => Err(ExportProblem::FileMissing.into()),
        (_, ExportState::Expired) => Err(ExportProblem::Expired.into()),
        (_, state) => Err(ExportProblem::NotReady(state).into()),
    }
}

fn lost_early(export: &Export) -> bool {
    export.removal.is_some_and(|removal| removal.reason == ExportRemoval::FileMissing)
}

/// Records that the file is missing from the storage, and returns the refusal. If the whole storage
/// is unavailable, that is a different error, and nothing is recorded.
async fn missing(api: &ApiState, export: &Export) -> ApiError {
    let noted = async {
        api.exports.storage.list(&place::folder(export.id)?, "").await?;
        Ok::<_, ApiError>(exports::note_file(&api.store, export.id, Some(api.clock.now())).await?)
    };
    match noted.await {
        Err(error) => return error,
        Ok(true) => {
            tracing::warn!(export.id = %export.id, "the file of a completed export is missing from the storage");
        }
        Ok(false) => {}
    }
    ExportProblem::FileMissing.into()
}

/// Records that a file reported as missing is there after all.
async fn found(api: &ApiState, export: &Export) -> Result<(), ApiError> {
    if lost_early(export) {
        exports::note_file(&api.store, export.id, None).await?;
    }
    Ok(())
}

/// Whether the query contains parameters of a signed link.
fn has_link(query: Option<&str>) -> bool {
    let query = query.unwrap_or_default().as_bytes();
    form_urlencoded::parse(query).any(|(name, _)| LINK_PARAMETERS.contains(&&*name))
}

/// The export of a signed link. Whatever is wrong with a link, the response is the same.
async fn linked(api: &ApiState, named: &str, parts: &Parts) -> Result<Export, ApiError> {
    let refused = || ApiError::from(ExportProblem::InvalidLink);
    let id = named.parse::<ExportId>().map_err(|_| refused())?;
    let query = parts.uri.query().unwrap_or_default();
    let params: LinkParams = serde_urlencoded::from_str(query).map_err(|_| refused())?;
    let link = DownloadLink { export: id, token: params.token, ends_at_s: params.exp };
    if !link.is_good(&api.exports, &params.signature) {
        return Err(refused());
    }
    let found = exports::find_of_any(&api.store, id).await?;
    let is_same = |export: &Export| {
        export.state == ExportState::Completed && export.lease_token == params.token
    };
    found.filter(is_same).ok_or_else(refused)
}

/// Redirects to the storage if it can be reached directly; otherwise streams the file.
async fn by_link(api: &ApiState, export: Export, parts: &Parts) -> Result<Response, ApiError> {
    let output = export.output.clone().ok_or(ExportProblem::InvalidLink)?;
    if parts.method == Method::HEAD {
        // The storage's own address would be valid for GET only.
        return streamed(api, &export, &output, parts).await;
    }
    let name = place::name(output.key.clone())?;
    let valid_for = Duration::from_secs(links::VALID_FOR_S.unsigned_abs());
    let (file, media_type) = (file_name(&export), export.format.media_type());
    match api.exports.storage.presign_get(&name, valid_for, &file, media_type).await? {
        None => streamed(api, &export, &output, parts).await,
        Some(address) => {
            // Checked first, because an error from the storage would not be one of our responses.
            if api.exports.storage.find(&name).await?.is_none() {
                return Err(missing(api, &export).await);
            }
            found(api, &export).await?;
            let location = HeaderValue::try_from(address).map_err(|_| {
                ApiError::Failure(Failure::Internal(
                    "the storage's address is not a valid header value".to_owned(),
                ))
            })?;
            let mut response = StatusCode::TEMPORARY_REDIRECT.into_response();
            response.headers_mut().insert(header::LOCATION, location);
            Ok(response)
        }
    }
}

fn file_name(export: &Export) -> String {
    format!("export-{}.{}", export.id, export.format)
}

async fn streamed(
    api: &ApiState,
    export: &Export,
    output: &ExportOutput,
    parts: &Parts,
) -> Result<Response, ApiError> {
    let length = u64::try_from(output.bytes).unwrap_or(0);
    let tag = format!("\"{}\"", output.sha256);
    // Ranges apply to GET only (RFC 9110, section 14.2).
    let is_head = parts.method == Method::HEAD;
    let asked = if is_head {
        Some(RequestedRange::Whole)
    } else {
        RequestedRange::read(&parts.headers, &tag, length)?
    };
    let Some(wanted) = asked else { return Ok(behind_end(output.bytes)) };
    let range = match &wanted {
        RequestedRange::Whole => 0..length,
        RequestedRange::Part(range) => range.clone(),
    };
    let name = place::name(output.key.clone())?;
    let Some(download) = api.exports.storage.read(&name, range.clone()).await? else {
        return Err(missing(api, export).await);
    };
    found(api, export).await?;
    let body = if is_head {
        Body::empty()
    } else {
        let chunks = futures_util::stream::try_unfold(download, async |mut rest| {
            Ok::<_, ::exports::StorageError>(rest.next().await?.map(|part| (part, rest)))
        });
        Body::from_stream(chunks)
    };
    let mut response = Response::new(body);
    if let RequestedRange::Part(_) = &wanted {
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
        let last = range.end.saturating_sub(1);
        put(
            &mut response,
            header::CONTENT_RANGE,
            &format!("bytes {}-{last}/{length}", range.start),
        );
    }
    let disposition = format!("attachment; filename=\"{}\"", file_name(export));
    put(&mut response, header::CONTENT_DISPOSITION, &disposition);
    put(&mut response, header::CONTENT_TYPE, export.format.media_type());
    put(&mut response, header::CONTENT_LENGTH, &(range.end - range.start).to_string());
    put(&mut response, header::ACCEPT_RANGES, "bytes");
    put(&mut response, header::ETAG, &tag);
    Ok(response)
}

fn put(response: &mut Response, name: header::HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}

fn behind_end(bytes: i64) -> Response {
    let mut response = ApiError::from(ExportProblem::RangeBehindEnd(bytes)).into_response();
    put(&mut response, header::CONTENT_RANGE, &format!("bytes */{bytes}"));
    response
}
