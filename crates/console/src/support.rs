//! `/console/support`, for staff: what they may do, and the calls and usage of a customer who
//! allows it. Each look is in the customer's audit list.

use askama::Template;
use axum::Router;
use axum::response::Response;
use axum::routing::get;
use http::StatusCode;

use crate::calls::view::{CallList, ShownCall};
use crate::chart::{CallChart, ChartDay};
use crate::usage::DailyUsage;
use console_kit::ConsoleState;
use console_kit::address;
use console_kit::failure::PageFailure;
use console_kit::form::FormView;
use console_kit::page_query::PageFilters;
use console_kit::service::ServiceProblem;
use console_kit::shell::{ConsoleSection, PageShell};
use console_kit::visitor::ConsoleVisitor;
use pages::plain::sentence;

const PATH: &str = "/console/support";
/// The days of the chart.
const DAYS: &str = "30";

pub(super) fn router() -> Router<ConsoleState> {
    Router::new().route(PATH, get(show))
}

/// What a customer allows staff to see.
struct CustomerLook {
    id: String,
    chart: CallChart,
    days: Vec<ChartDay>,
    calls: Vec<ShownCall>,
    newest: String,
    older: String,
}

#[derive(Template)]
#[template(path = "console/support.html")]
struct SupportPage {
    frame: PageShell,
    permissions: Vec<String>,
    form: FormView,
    look: Option<CustomerLook>,
}

/// Only staff learn that there is such a page.
async fn show(
    visitor: ConsoleVisitor,
    PageFilters(filters): PageFilters,
) -> Result<Response, PageFailure> {
    if visitor.permissions.is_empty() {
        let missing = ServiceProblem::missing("not_found", "There's nothing here.");
        return Err(visitor.fail(missing));
    }
    let customer = filters.text("customer").to_owned();
    let mut form = FormView::filled(filters.clone());
    let mut look = None;
    if !customer.is_empty() {
        match look_at(&visitor, &customer, filters.text("before")).await {
            Ok(found) => look = Some(found),
            Err(problem) if problem.status == StatusCode::UNAUTHORIZED => {
                return Err(visitor.fail(problem));
            }
            Err(problem) => {
                form = FormView::refused(filters, &problem, &[("customer_id", "customer")]);
                form = form.mark("customer", sentence(&problem.detail));
            }
        }
    }
    let page = SupportPage {
        frame: visitor.shell(ConsoleSection::Support),
        permissions: visitor.permissions.iter().map(ToString::to_string).collect(),
        form,
        look,
    };
    Ok(visitor.show(page.form.status(), &page))
}

async fn look_at(
    visitor: &ConsoleVisitor,
    customer: &str,
    before: &str,
) -> Result<CustomerLook, ServiceProblem> {
    let base = format!("/v1/support/customers/{}", address::segment(customer));
    let calls = format!("{base}/calls{}", address::query(&[("limit", "50"), ("before", before)]));
    let usage = format!("{base}/usage?days={DAYS}");
    let (calls, usage) = futures_util::try_join!(
        visitor.try_get::<CallList>(&calls),
        visitor.try_get::<DailyUsage>(&usage),
    )?;
    let days = usage.chart_days(visitor.now());
    let next = calls.next_before.as_ref().map(|at| link(customer, at.get()));
    Ok(CustomerLook {
        id: customer.to_owned(),
        chart: CallChart::new(&days),
        days,
        calls: calls.calls,
        newest: if before.is_empty() { String::new() } else { link(customer, "") },
        older: next.unwrap_or_default(),
    })
}

fn link(customer: &str, before: &str) -> String {
    format!("{PATH}{}", address::query(&[("customer", customer), ("before", before)]))
}
