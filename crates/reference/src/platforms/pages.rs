//! The pages: all platforms, and the routes of one with a search.

use askama::Template;
use axum::Router;
use axum::extract::{Path, RawQuery, State};
use axum::response::Response;
use axum::routing::get;
use domain::platform::Platform;
use http::HeaderMap;
use web::error::ApiError;

use super::catalogue::{self, PlatformSummary, RouteRow};
use super::route_page::{self, RouteField};
use crate::markdown::render_inline;
use crate::search::query;
use crate::shell::{DocsFrame, show};
use crate::state::ReferenceState;

/// The routes on one page: all of a usual platform, and no more than a browser shows at once.
const ROWS: usize = 120;

pub(crate) fn router() -> Router<ReferenceState> {
    Router::new()
        .route("/docs/platforms", get(platforms))
        .route("/docs/platforms/{platform}", get(routes))
        .merge(route_page::router())
}

#[derive(Template)]
#[template(path = "reference/platforms.html")]
struct PlatformsPage {
    frame: DocsFrame,
    platforms: Vec<PlatformSummary>,
}

/// A list that can be exported.
struct DatasetRow {
    name: &'static str,
    /// What a row is, as HTML.
    about: String,
}

#[derive(Template)]
#[template(path = "reference/platform.html")]
struct PlatformPage {
    frame: DocsFrame,
    name: &'static str,
    total: usize,
    auth: Vec<RouteField>,
    datasets: Vec<DatasetRow>,
    wanted: WantedRoutes,
    groups: Vec<String>,
    methods: [&'static str; 5],
    rows: Vec<RouteRow>,
    found: usize,
    /// The query of the next page; empty on the last one.
    next: String,
    is_first: bool,
}

/// What the visitor looks for.
#[derive(Default)]
struct WantedRoutes {
    text: String,
    method: String,
    group: String,
    /// The number of rows before this page.
    skip: usize,
}

async fn platforms(State(reference): State<ReferenceState>, headers: HeaderMap) -> Response {
    let frame = DocsFrame::new(&reference, &headers, "/docs/platforms");
    show(&PlatformsPage { frame, platforms: catalogue::summaries(&reference) })
}

async fn routes(
    State(reference): State<ReferenceState>,
    Path(name): Path<String>,
    RawQuery(raw): RawQuery,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let Some(platform) = catalogue::offered(&reference, &name) else {
        return Ok(crate::shell::nothing_here());
    };
    let wanted = WantedRoutes::read(&raw.unwrap_or_default());
    let frame = DocsFrame::new(&reference, &headers, &format!("/docs/platforms/{platform}"));
    let shown = reference.clone();
    reference.costly().run(move || page(&shown, platform, wanted, frame)).await
}

fn page(
    reference: &ReferenceState,
    platform: Platform,
    wanted: WantedRoutes,
    frame: DocsFrame,
) -> Response {
    let catalog = reference.catalog().platform(platform);
    let all = catalogue::rows(reference, platform);
    let groups = groups(&all);
    let total = all.len();
    let mut rows: Vec<RouteRow> = all.into_iter().filter(|row| wanted.matches(row)).collect();
    let found = rows.len();
    let end = wanted.skip.saturating_add(ROWS);
    let next = if found > end { wanted.query(end) } else { String::new() };
    rows = rows.into_iter().skip(wanted.skip).take(ROWS).collect();
    let datasets = catalog.datasets().iter();
    show(&PlatformPage {
        frame,
        name: platform.as_str(),
        total,
        auth: catalog.auth_fields().iter().map(RouteField::from).collect(),
        datasets: datasets
            .map(|one| DatasetRow {
                name: one.name.as_str(),
                about: render_inline(&one.description),
            })
            .collect(),
        is_first: wanted.skip == 0,
        wanted,
        groups,
        methods: ["GET", "POST", "PUT", "PATCH", "DELETE"],
        rows,
        found,
        next,
    })
}

/// The groups in the order of the catalogue, each once.
fn groups(rows: &[RouteRow]) -> Vec<String> {
    let mut groups: Vec<String> = Vec::new();
    for row in rows {
        if !row.group.is_empty() && !groups.contains(&row.group) {
            groups.push(row.group.clone());
        }
    }
    groups
}

impl WantedRoutes {
    /// Reads a query. What is unknown or cannot be read is ignored: people edit addresses.
    fn read(raw: &str) -> Self {
        let value = |name: &str| query::value(raw, name);
        Self {
            text: value("q"),
            method: value("method").to_ascii_uppercase(),
            group: value("group"),
            skip: value("skip").parse().unwrap_or_default(),
        }
    }

    fn matches(&self, row: &RouteRow) -> bool {
        (self.method.is_empty() || row.method == self.method)
            && (self.group.is_empty() || row.group.eq_ignore_ascii_case(&self.group))
            && query::words(&self.text).iter().all(|word| row.text.contains(word.as_str()))
    }

    /// The same filter from this row on.
    fn query(&self, skip: usize) -> String {
        let mut written = form_urlencoded::Serializer::new(String::new());
        for (name, value) in [("q", &self.text), ("method", &self.method), ("group", &self.group)] {
            if !value.is_empty() {
                written.append_pair(name, value);
            }
        }
        written.append_pair("skip", &skip.to_string()).finish()
    }

    /// Whether anything is filtered.
    fn is_filter(&self) -> bool {
        !(self.text.is_empty() && self.method.is_empty() && self.group.is_empty())
    }
}
