//! The pages: all groups, the operations of one group, one operation.

use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::get;
use http::HeaderMap;
use web::error::ApiError;

use super::model::{ApiOperation, OperationBook, OperationGroup};
use crate::shell::{DocsFrame, show};
use crate::state::ReferenceState;

pub(crate) fn router() -> Router<ReferenceState> {
    Router::new()
        .route("/docs/api", get(groups))
        .route("/docs/api/{group}", get(group))
        .route("/docs/api/{group}/{operation}", get(operation))
}

#[derive(Template)]
#[template(path = "reference/operation_groups.html")]
struct GroupsPage {
    frame: DocsFrame,
    book: Arc<OperationBook>,
    base: String,
}

#[derive(Template)]
#[template(path = "reference/operation_group.html")]
struct GroupPage<'a> {
    frame: DocsFrame,
    group: &'a OperationGroup,
}

#[derive(Template)]
#[template(path = "reference/operation.html")]
struct OperationPage<'a> {
    frame: DocsFrame,
    group: &'a OperationGroup,
    operation: &'a ApiOperation,
}

async fn groups(
    State(reference): State<ReferenceState>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let book = reference.operations().await?;
    let frame = DocsFrame::new(&reference, &headers, "/docs/api");
    Ok(show(&GroupsPage { frame, book, base: reference.base().to_owned() }))
}

async fn group(
    State(reference): State<ReferenceState>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let book = reference.operations().await?;
    let Some(group) = book.group(&name) else { return Ok(crate::shell::nothing_here()) };
    let frame = DocsFrame::new(&reference, &headers, &format!("/docs/api/{name}"));
    Ok(show(&GroupPage { frame, group }))
}

async fn operation(
    State(reference): State<ReferenceState>,
    Path((name, id)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let book = reference.operations().await?;
    let found = book.group(&name).and_then(|group| Some((group, group.find(&id)?)));
    let Some((group, operation)) = found else { return Ok(crate::shell::nothing_here()) };
    let frame = DocsFrame::new(&reference, &headers, &format!("/docs/api/{name}/{id}"));
    Ok(show(&OperationPage { frame, group, operation }))
}
