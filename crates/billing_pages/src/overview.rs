//! `/console/billing`: what is left, packs, the saved card, automatic top-up, and what came last.

use askama::Template;
use axum::Router;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use futures_util::future::join4;
use http::StatusCode;

use crate::model::{CardState, CreditState, LedgerEntry, OrderList, Subscription};
use crate::part::{BillingPart, BillingTab, HOME, PORTAL, show};
use crate::returned::ReturnAddress;
use crate::{buy, card};
use console_kit::ConsoleState;
use console_kit::failure::PageFailure;
use console_kit::form::{FormData, FormView};
use console_kit::form_target::FormTarget;
use console_kit::format;
use console_kit::page_query::PageQuery;
use console_kit::shell::{ConsoleSection, PageShell};
use console_kit::visitor::ConsoleVisitor;

/// Lines of the ledger and orders on this page.
const LATEST: usize = 6;

pub(crate) fn router() -> Router<ConsoleState> {
    Router::new().route(HOME, get(show_page))
}

#[derive(Template)]
#[template(path = "console/billing/overview.html")]
struct OverviewPage {
    frame: PageShell,
    part: BillingPart,
    /// The choice of a pack.
    form: FormView,
    buy: FormTarget,
    /// Lets the processor try the card again.
    sync: FormTarget,
    /// Opens the portal to replace the card.
    replace: FormTarget,
    credits: CreditState,
    card: CardState,
    /// None if it could not be read.
    subscription: Option<Subscription>,
    /// None if they could not be read.
    orders: Option<OrderList>,
}

impl OverviewPage {
    fn available(&self) -> String {
        format::number(self.credits.balance)
    }

    fn held(&self) -> String {
        format::number(self.credits.held)
    }

    /// Credits that are owed, if some are.
    fn debt(&self) -> Option<String> {
        (self.credits.debt > 0).then(|| format::credits(self.credits.debt))
    }

    fn latest(&self) -> impl Iterator<Item = &LedgerEntry> {
        self.credits.ledger.iter().take(LATEST)
    }
}

/// The page, or the one for those who return from the processor: their addresses were this one
/// before there was a page here, and emails and open checkouts still have them.
async fn show_page(
    PageQuery(back): PageQuery<ReturnAddress>,
    visitor: Result<ConsoleVisitor, PageFailure>,
) -> Result<Response, PageFailure> {
    if let Some(address) = back.address() {
        return Ok(Redirect::to(&address).into_response());
    }
    let visitor = visitor?;
    render(&visitor, StatusCode::OK, BuyForm::empty(&visitor)).await
}

/// The form for buying credits, as it is shown.
pub(crate) struct BuyForm {
    pub(crate) view: FormView,
    pub(crate) target: FormTarget,
}

impl BuyForm {
    /// With nothing chosen, and a key of its own.
    pub(crate) fn empty(visitor: &ConsoleVisitor) -> Self {
        let view = FormView::filled(FormData::default());
        Self { view, target: FormTarget::once(visitor, buy::PATH) }
    }
}

/// Shows the page with this form.
pub(crate) async fn render(
    visitor: &ConsoleVisitor,
    status: StatusCode,
    form: BuyForm,
) -> Result<Response, PageFailure> {
    let orders = format!("/v1/billing/orders?limit={LATEST}");
    let (credits, card, subscription, orders) = join4(
        visitor.get::<CreditState>("/v1/billing"),
        visitor.get::<CardState>("/v1/billing/card"),
        visitor.try_get::<Subscription>("/v1/billing/subscription"),
        visitor.try_get::<OrderList>(&orders),
    )
    .await;
    let page = OverviewPage {
        frame: visitor.shell(ConsoleSection::Billing),
        part: BillingPart::new(visitor, BillingTab::Credits),
        form: form.view,
        buy: form.target,
        sync: FormTarget::new(visitor, card::SYNC_PATH),
        replace: FormTarget::new(visitor, PORTAL),
        credits: credits?,
        card: card?,
        subscription: subscription.ok(),
        orders: orders.ok(),
    };
    Ok(show(visitor, status, &page))
}
