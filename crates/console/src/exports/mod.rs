//! `/console/exports`: the exports of all accounts, those under way with their progress, and new
//! ones.

mod create;
mod one;
mod view;

use askama::Template;
use axum::Router;
use axum::response::Response;
use axum::routing::get;
use futures_util::future::{try_join, try_join3};
use http::StatusCode;
use serde::Deserialize;

use crate::accounts::{AccountList, ShownAccount};
use crate::keys::view::KeyList;
use console_kit::ConsoleState;
use console_kit::address;
use console_kit::failure::PageFailure;
use console_kit::form::{FormData, FormView};
use console_kit::page_query::PageQuery;
use console_kit::shell::{ConsoleSection, PageShell};
use console_kit::visitor::ConsoleVisitor;
use create::NewExport;
use view::{DatasetList, ExportList, ShownExport};

/// The page's own path.
const PATH: &str = "/console/exports";
/// Exports on one page.
const PAGE_EXPORTS: &str = "50";

/// The states that the list can be limited to, with their words.
const STATES: &[(&str, &str)] = &[
    ("", "All"),
    ("running", "Running"),
    ("completed", "Completed"),
    ("failed", "Failed"),
    ("cancelled", "Cancelled"),
    ("expired", "Expired"),
];

pub(super) fn router() -> Router<ConsoleState> {
    Router::new()
        .route(PATH, get(show).post(create::create))
        .route("/console/exports/running", get(running))
        .merge(one::router())
}

/// What the page's address says.
#[derive(Deserialize, Default)]
struct ExportsQuery {
    account: Option<String>,
    dataset: Option<String>,
    status: Option<String>,
    before: Option<String>,
    /// The account and the dataset of a new export.
    new_account: Option<String>,
    new_dataset: Option<String>,
}

/// The filter of the list.
#[derive(Default, Clone)]
struct ExportFilter {
    account: String,
    dataset: String,
    status: String,
    before: String,
}

impl ExportFilter {
    fn is_empty(&self) -> bool {
        self.account.is_empty() && self.dataset.is_empty() && self.status.is_empty()
    }

    fn query(&self) -> String {
        let Self { account, dataset, status, before } = self;
        let pairs: [(&str, &str); 5] = [
            ("limit", PAGE_EXPORTS),
            ("account", account),
            ("dataset", dataset),
            ("status", status),
            ("before", before),
        ];
        address::query(&pairs)
    }

    fn is_state(&self, state: &str) -> bool {
        self.status == state
    }

    fn is_dataset(&self, dataset: &str) -> bool {
        self.dataset == dataset
    }

    /// The page's address with another state, or from another export on.
    fn link(&self, status: &str, before: &str) -> String {
        let pairs = [
            ("account", self.account.as_str()),
            ("dataset", &self.dataset),
            ("status", status),
            ("before", before),
        ];
        format!("{PATH}{}", address::query(&pairs))
    }
}

#[derive(Template)]
#[template(path = "console/exports/list.html")]
struct ExportsPage {
    frame: PageShell,
    filter: ExportFilter,
    filters: FormView,
    accounts: Vec<ShownAccount>,
    datasets: Vec<String>,
    /// Those under way, newest first.
    running: Vec<ShownExport>,
    past: Vec<ShownExport>,
    next: String,
    /// How long a finished file is kept.
    kept_for: String,
    new: Option<NewExport>,
    form: FormView,
}

/// Those under way alone, for the page to show again.
#[derive(Template)]
#[template(path = "console/exports/running.html")]
struct RunningRegion {
    running: Vec<ShownExport>,
}

async fn show(
    visitor: ConsoleVisitor,
    PageQuery(query): PageQuery<ExportsQuery>,
) -> Result<Response, PageFailure> {
    let filter = ExportFilter {
        account: query.account.unwrap_or_default(),
        dataset: query.dataset.unwrap_or_default(),
        status: query.status.unwrap_or_default(),
        before: query.before.unwrap_or_default(),
    };
    let data = FormData::default()
        .with("account", query.new_account.unwrap_or_default())
        .with("dataset", query.new_dataset.unwrap_or_default());
    page(&visitor, filter, FormView::filled(data)).await
}

/// The page with the form for a new export.
async fn page(
    visitor: &ConsoleVisitor,
    filter: ExportFilter,
    form: FormView,
) -> Result<Response, PageFailure> {
    let ((list, filters), (accounts, datasets, keys)) = try_join(
        listed(visitor, &filter),
        try_join3(
            visitor.get::<AccountList>("/v1/accounts"),
            visitor.get::<DatasetList>("/v1/exports/datasets"),
            visitor.get::<KeyList>(crate::keys::ROUTE),
        ),
    )
    .await?;
    let status = if filters.summary.is_empty() { form.status() } else { filters.status() };
    let mut names: Vec<String> =
        datasets.datasets.iter().map(|dataset| dataset.name.clone()).collect();
    names.sort();
    names.dedup();
    let (running, past) = list.exports.into_iter().partition(ShownExport::is_running);
    let accounts = accounts.accounts;
    let new = NewExport::new(visitor, &accounts, (datasets.datasets, keys), &form).await;
    let page = ExportsPage {
        frame: visitor.shell(ConsoleSection::Exports),
        filter,
        filters,
        datasets: names,
        accounts,
        running,
        past,
        next: list.next_before.unwrap_or_default(),
        kept_for: visitor.config().exports.kept_for(),
        new,
        form,
    };
    Ok(visitor.show(status, &page))
}

/// The list. A wrong value of a filter is said, and the whole list shown.
async fn listed(
    visitor: &ConsoleVisitor,
    filter: &ExportFilter,
) -> Result<(ExportList, FormView), PageFailure> {
    match visitor.try_get(&format!("/v1/exports{}", filter.query())).await {
        Ok(list) => Ok((list, FormView::default())),
        Err(problem) if problem.status == StatusCode::UNPROCESSABLE_ENTITY => {
            let whole = format!("/v1/exports{}", ExportFilter::default().query());
            let view = FormView::refused(FormData::default(), &problem, &[]);
            Ok((visitor.get(&whole).await?, view))
        }
        Err(problem) => Err(visitor.fail(problem)),
    }
}

async fn running(visitor: ConsoleVisitor) -> Result<Response, PageFailure> {
    let list: ExportList =
        visitor.get(&format!("/v1/exports{}", ExportFilter::default().query())).await?;
    let running = list.exports.into_iter().filter(ShownExport::is_running).collect();
    Ok(ConsoleVisitor::show_part(&RunningRegion { running }))
}
