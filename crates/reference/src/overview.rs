//! `/docs`: what the service is, the first call, and the way to everything else.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use http::HeaderMap;

use crate::documents;
use crate::first_call::CallExamples;
use crate::platforms::catalogue::{self, PlatformSummary};
use crate::shell::{DocsFrame, show};
use crate::state::ReferenceState;

pub(super) fn router() -> Router<ReferenceState> {
    Router::new().route("/docs", get(overview))
}

/// The documents that the overview leads to, besides the sidebar.
const WAYS: &[&str] = &[
    "connecting",
    "paging",
    "writing",
    "handling-errors",
    "exports",
    "budgets",
    "production",
    "installation",
];

/// What is left before the first call, in its example.
const EXAMPLE_BALANCE: i64 = 500;

/// A card that leads to a document.
struct GuideCard {
    path: String,
    word: &'static str,
    about: &'static str,
}

#[derive(Template)]
#[template(path = "reference/overview.html")]
struct OverviewPage {
    frame: DocsFrame,
    account: String,
    first: CallExamples,
    /// What the call's response says besides its body.
    receipt: String,
    read: i64,
    write: i64,
    export: i64,
    ways: Vec<GuideCard>,
    platforms: Vec<PlatformSummary>,
}

async fn overview(State(reference): State<ReferenceState>, headers: HeaderMap) -> Response {
    let costs = reference.config().credits.costs();
    let example = catalogue::example(&reference);
    let address = format!("{}/v1/{}/native/{}", reference.base(), example.account, example.path);
    show(&OverviewPage {
        frame: DocsFrame::new(&reference, &headers, "/docs"),
        first: CallExamples::get(&address),
        receipt: receipt(costs.read.whole(), &example.route),
        account: example.account,
        read: costs.read.whole(),
        write: costs.write.whole(),
        export: costs.export.whole(),
        ways: WAYS.iter().filter_map(|slug| way(slug)).collect(),
        platforms: catalogue::summaries(&reference),
    })
}

/// The head of the response to the first call.
fn receipt(cost: i64, route: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\nX-Credits-Cost: {cost}\nX-Credits-Balance: {}\nX-Route: {route}\n\
         Server-Timing: upstream;dur=58.2, gateway;dur=0.7",
        EXAMPLE_BALANCE - cost
    )
}

fn way(slug: &str) -> Option<GuideCard> {
    let (_, document) = documents::find(slug)?;
    let path = format!("/docs/{slug}");
    let mut links = crate::shell::NAVIGATION.iter().flat_map(|group| group.links);
    let word = links.find(|link| link.path == path)?.word;
    Some(GuideCard { word, about: document.about, path })
}
