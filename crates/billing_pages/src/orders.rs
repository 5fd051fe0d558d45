//! `/console/billing/orders`: what was bought, or tried.

use askama::Template;
use axum::Router;
use axum::response::Response;
use axum::routing::get;
use http::StatusCode;

use crate::model::OrderList;
use crate::part::{BillingPart, BillingTab, ROWS, show};
use console_kit::ConsoleState;
use console_kit::address;
use console_kit::failure::PageFailure;
use console_kit::page_query::PageQuery;
use console_kit::shell::{ConsoleSection, PageShell};
use console_kit::visitor::ConsoleVisitor;

const PATH: &str = "/console/billing/orders";

pub(crate) fn router() -> Router<ConsoleState> {
    Router::new().route(PATH, get(list))
}

/// Where a page of a list begins.
#[derive(serde::Deserialize)]
pub(crate) struct ListQuery {
    /// The `next_before` of the page before; empty for the newest.
    #[serde(default)]
    before: String,
}

impl ListQuery {
    /// The query of the route.
    pub(crate) fn written(&self) -> String {
        address::query(&[("before", &self.before), ("limit", ROWS)])
    }

    /// Whether these are the newest.
    pub(crate) const fn is_first(&self) -> bool {
        self.before.is_empty()
    }
}

/// The query of the link to the page that begins after this entry; nothing for the newest.
pub(crate) fn beginning_at(before: &str) -> String {
    address::query(&[("before", before)])
}

#[derive(Template)]
#[template(path = "console/billing/orders.html")]
struct OrdersPage {
    frame: PageShell,
    part: BillingPart,
    list: OrderList,
    /// The link to older ones, if there are some.
    older: Option<String>,
    is_first: bool,
}

async fn list(
    PageQuery(query): PageQuery<ListQuery>,
    visitor: ConsoleVisitor,
) -> Result<Response, PageFailure> {
    let list: OrderList = visitor.get(&format!("/v1/billing/orders{}", query.written())).await?;
    let older = list.next_before.as_deref().map(beginning_at);
    let page = OrdersPage {
        frame: visitor.shell(ConsoleSection::Billing),
        part: BillingPart::new(&visitor, BillingTab::Orders),
        older: older.map(|place| format!("{PATH}{place}")),
        list,
        is_first: query.is_first(),
    };
    Ok(show(&visitor, StatusCode::OK, &page))
}
