//! The page of results.

use askama::Template;
use axum::Router;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use axum::routing::get;
use http::HeaderMap;
use web::error::ApiError;

use super::index::{SearchEntry, SearchResult};
use super::query;
use crate::shell::{DocsFrame, show};
use crate::state::ReferenceState;

pub(crate) fn router() -> Router<ReferenceState> {
    Router::new().route("/docs/search", get(search))
}

#[derive(Template)]
#[template(path = "reference/search.html")]
struct SearchPage<'a> {
    frame: DocsFrame,
    results: Vec<SearchResult<'a>>,
    /// What is offered where nothing was found.
    closest: Vec<&'a SearchEntry>,
}

async fn search(
    State(reference): State<ReferenceState>,
    RawQuery(raw): RawQuery,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let wanted = query::value(&raw.unwrap_or_default(), "q");
    let index = reference.index().await?;
    let mut frame = DocsFrame::new(&reference, &headers, "/docs/search");
    let find = move || {
        let results = index.find(&wanted);
        let is_missing = results.is_empty() && !wanted.is_empty();
        let closest = if is_missing { index.closest(&wanted) } else { Vec::new() };
        frame.query = wanted;
        show(&SearchPage { frame, results, closest })
    };
    reference.costly().run(find).await
}
