//! What stands around every page of billing, and where the pages are.

use axum::response::Response;
use console_kit::form_target::FormTarget;
use console_kit::service::ServiceProblem;
use console_kit::shell::{ConsoleSection, PageShell};
use console_kit::visitor::ConsoleVisitor;
use http::StatusCode;

use crate::{processor, words};

/// The first page.
pub(crate) const HOME: &str = "/console/billing";
/// Rows of a page of a list.
pub(crate) const ROWS: &str = "50";
/// Opens the processor's portal.
pub(crate) const PORTAL: &str = "/console/billing/portal";

/// One of the pages, as the row of links names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BillingTab {
    Credits,
    Plans,
    TopUp,
    Orders,
    Invoices,
    Usage,
    Ledger,
}

/// The pages, their addresses and their words.
const TABS: [(BillingTab, &str, &str); 7] = [
    (BillingTab::Credits, HOME, "Credits"),
    (BillingTab::Plans, "/console/billing/plans", "Plan and slots"),
    (BillingTab::TopUp, "/console/billing/topup", "Automatic top-up"),
    (BillingTab::Orders, "/console/billing/orders", "Orders"),
    (BillingTab::Invoices, "/console/billing/invoices", "Invoices"),
    (BillingTab::Usage, "/console/billing/usage", "Usage"),
    (BillingTab::Ledger, "/console/billing/ledger", "Changes"),
];

/// What stands above every page of billing. Templates call it `part`.
pub(crate) struct BillingPart {
    tab: BillingTab,
    /// Opens the processor's portal.
    pub(crate) portal: FormTarget,
    /// Whether payments are possible here.
    pub(crate) is_configured: bool,
}

impl BillingPart {
    pub(crate) fn new(visitor: &ConsoleVisitor, tab: BillingTab) -> Self {
        let portal = FormTarget::new(visitor, PORTAL);
        Self { tab, portal, is_configured: visitor.config().processor.is_configured() }
    }

    /// The row of links: address, word, and whether it is this page.
    pub(crate) fn tabs(&self) -> impl Iterator<Item = (&'static str, &'static str, bool)> {
        TABS.iter().map(|(tab, path, word)| (*path, *word, *tab == self.tab))
    }
}

/// Shows a page whose buttons may lead to the processor.
pub(crate) fn show<T: askama::Template>(
    visitor: &ConsoleVisitor,
    status: StatusCode,
    page: &T,
) -> Response {
    visitor.show_with(status, page, &processor::leading_out(&visitor.config().processor))
}

/// What a person reads instead of a preview or a payment that there cannot be.
#[derive(askama::Template)]
#[template(path = "console/billing/refused.html")]
struct RefusedPage {
    frame: PageShell,
    part: BillingPart,
    title: &'static str,
    text: String,
    code: String,
}

/// The page about a refusal of the service, with the status that it had.
pub(crate) fn refused(
    visitor: &ConsoleVisitor,
    tab: BillingTab,
    problem: &ServiceProblem,
) -> Response {
    let page = RefusedPage {
        frame: visitor.shell(ConsoleSection::Billing),
        part: BillingPart::new(visitor, tab),
        title: words::title_of(problem),
        text: words::of_problem(problem),
        code: problem.code.clone(),
    };
    show(visitor, problem.status, &page)
}
