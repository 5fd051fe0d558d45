//! `/console/billing/ledger`: everything that changed the balance.

use askama::Template;
use axum::Router;
use axum::response::Response;
use axum::routing::get;
use http::StatusCode;

use crate::model::LedgerEntry;
use crate::part::{BillingPart, BillingTab, ROWS, show};
use crate::words;
use console_kit::ConsoleState;
use console_kit::address;
use console_kit::failure::PageFailure;
use console_kit::page_query::PageQuery;
use console_kit::shell::{ConsoleSection, PageShell};
use console_kit::visitor::ConsoleVisitor;

const PATH: &str = "/console/billing/ledger";

pub(crate) fn router() -> Router<ConsoleState> {
    Router::new().route(PATH, get(list))
}

/// Which lines to show. What there is not is left out.
#[derive(serde::Deserialize)]
struct LedgerQuery {
    #[serde(default)]
    before: String,
    #[serde(default)]
    kind: String,
}

impl LedgerQuery {
    /// The query of the route.
    fn asked(&self) -> String {
        address::query(&[("kind", self.kind()), ("before", &self.before), ("limit", ROWS)])
    }

    /// The query of links to this page.
    fn written(&self, before: &str) -> String {
        address::query(&[("kind", self.kind()), ("before", before)])
    }

    /// The kind, if it is one.
    fn kind(&self) -> &str {
        domain::ledger::KINDS.into_iter().find(|kind| *kind == self.kind).unwrap_or_default()
    }
}

#[derive(serde::Deserialize)]
struct LedgerPageList {
    entries: Vec<LedgerEntry>,
    next_before: Option<String>,
}

#[derive(Template)]
#[template(path = "console/billing/ledger.html")]
struct LedgerPage {
    frame: PageShell,
    part: BillingPart,
    entries: Vec<LedgerEntry>,
    /// The link to older lines, if there are some.
    older: Option<String>,
    /// The link to the newest lines, on another page.
    newest: Option<String>,
    kind: String,
    /// Whether the address names a kind that there is not.
    is_unknown: bool,
}

impl LedgerPage {
    /// The kinds to choose from, with their words.
    #[expect(clippy::unused_self, reason = "templates call it on the page")]
    fn kinds(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        domain::ledger::KINDS.into_iter().map(|kind| (kind, words::ledger_kind(kind)))
    }
}

async fn list(
    PageQuery(query): PageQuery<LedgerQuery>,
    visitor: ConsoleVisitor,
) -> Result<Response, PageFailure> {
    let path = format!("/v1/billing/ledger{}", query.asked());
    let list: LedgerPageList = visitor.get(&path).await?;
    let older = list.next_before.map(|before| format!("{PATH}{}", query.written(&before)));
    let page = LedgerPage {
        frame: visitor.shell(ConsoleSection::Billing),
        part: BillingPart::new(&visitor, BillingTab::Ledger),
        entries: list.entries,
        older,
        newest: (!query.before.is_empty()).then(|| format!("{PATH}{}", query.written(""))),
        kind: query.kind().to_owned(),
        is_unknown: query.kind() != query.kind,
    };
    let status = if page.is_unknown { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
    Ok(show(&visitor, status, &page))
}
