//! `/console/pay`: the page that the email about a payment to be confirmed links to. It needs no
//! session: the link is signed. The customer confirms the payment with the processor's script; the
//! form that is then submitted reads the result.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use billing::charge::{self, ChargeState, PaymentStanding, RequiredAction};
use emails::pay_links;
use failures::Failure;
use failures::PaymentProblem;
use http::{HeaderMap, StatusCode};
use pages::PageFrame;
use pages::respond::PagePolicy;
use store::orders::Order;
use web::error::ApiError;

use crate::processor;
use crate::words::decline;
use console_kit::ConsoleState;
use console_kit::form::OpenForm;
use console_kit::format;
use console_kit::page_query::PageQuery;

const PATH: &str = "/console/pay";

pub(crate) fn router() -> Router<ConsoleState> {
    Router::new().route(PATH, get(show_payment).post(confirm))
}

/// The token in the page's address.
#[derive(serde::Deserialize)]
struct PayLink {
    #[serde(default)]
    token: String,
}

#[derive(Template)]
#[template(path = "console/pay.html")]
struct PayPage {
    frame: PageFrame,
    view: PayView,
}

/// What the page shows.
enum PayView {
    /// The bank requires the customer to confirm.
    Open(Box<OpenPayment>),
    /// Paid: the credits that were added.
    Paid(String),
    /// The payment is being processed.
    Processing,
    /// The bank declined: its reason.
    Declined(String),
    /// There is nothing to confirm, or the link is invalid: the reason.
    Refused(&'static str),
}

/// A payment to be confirmed.
struct OpenPayment {
    token: String,
    amount: String,
    credits: String,
    /// Such as `visa ending in 4242`.
    card: Option<String>,
    until: String,
    /// What the scripts need; `None` if they are not configured.
    script: Option<ScriptData>,
    /// Whether an attempt to confirm it has just failed.
    is_again: bool,
}

/// The attributes of the section that the script reads.
struct ScriptData {
    js_url: String,
    publishable_key: String,
    client_secret: String,
    payment_method: String,
}

/// A visitor with a link.
struct LinkVisitor {
    console: ConsoleState,
    frame: PageFrame,
    token: String,
}

impl LinkVisitor {
    fn new(console: ConsoleState, headers: &HeaderMap, token: String) -> Self {
        Self { frame: console.pages.frame(headers), console, token }
    }

    fn show(self, status: StatusCode, view: PayView) -> Response {
        let needs_script = matches!(&view, PayView::Open(open) if open.script.is_some());
        let policy = if needs_script {
            processor::running_script(&self.console.config.processor)
        } else {
            PagePolicy::default()
        };
        pages::plain::or_apology(status, &PayPage { frame: self.frame, view }, &policy)
    }
}

/// Shows the payment to be confirmed, without changing anything.
async fn show_payment(
    State(console): State<ConsoleState>,
    PageQuery(link): PageQuery<PayLink>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let visitor = LinkVisitor::new(console, &headers, link.token);
    let order = match pay_links::open(&visitor.console.emails, &visitor.token).await {
        Ok(order) => order,
        Err(error) => return refused_or(visitor, error.into()),
    };
    match charge::look(&visitor.console.billing, &order).await {
        Ok(PaymentStanding::Waiting(action)) => waiting(visitor, &order, action, false).await,
        Ok(PaymentStanding::Processing) => Ok(visitor.show(StatusCode::OK, PayView::Processing)),
        Ok(PaymentStanding::Paid) => Ok(visitor.show(StatusCode::OK, paid(&order))),
        Ok(PaymentStanding::Over) => Ok(visitor.show(StatusCode::GONE, PayView::Refused(OVER))),
        Err(error) => refused_or(visitor, error.into()),
    }
}

/// Reads the result of the payment, and grants what was paid.
async fn confirm(
    State(console): State<ConsoleState>,
    headers: HeaderMap,
    OpenForm(form): OpenForm,
) -> Result<Response, ApiError> {
    let visitor = LinkVisitor::new(console, &headers, form.raw("token").to_owned());
    let order = match pay_links::open(&visitor.console.emails, &visitor.token).await {
        Ok(order) => order,
        Err(error) => return refused_or(visitor, error.into()),
    };
    match charge::confirm_order(&visitor.console.billing, &order).await {
        Ok(ChargeState::Paid(_)) => Ok(visitor.show(StatusCode::OK, paid(&order))),
        Ok(ChargeState::ActionRequired(action)) => waiting(visitor, &order, action, true).await,
        Ok(ChargeState::Processing { .. }) => {
            Ok(visitor.show(StatusCode::ACCEPTED, PayView::Processing))
        }
        Err(Failure::Payment(PaymentProblem::Failed { decline_code })) => {
            let view = PayView::Declined(decline(&decline_code));
            Ok(visitor.show(StatusCode::PAYMENT_REQUIRED, view))
        }
        Err(error) => refused_or(visitor, error.into()),
    }
}

async fn waiting(
    visitor: LinkVisitor,
    order: &Order,
    action: RequiredAction,
    is_again: bool,
) -> Result<Response, ApiError> {
    let saved = store::cards::find(&visitor.console.store, order.customer).await?;
    let saved = saved.filter(|card| Some(&card.payment_method) == action.payment_method.as_ref());
    let open = OpenPayment {
        token: visitor.token.clone(),
        amount: emails::amount(order.amount_cents, &order.currency.to_uppercase()),
        credits: format::credits(order.credits.whole()),
        card: saved.map(|card| format!("{} ending in {}", card.brand, card.last4)),
        until: emails::time(action.until),
        script: script_of(&visitor.console, &action),
        is_again,
    };
    Ok(visitor.show(StatusCode::OK, PayView::Open(Box::new(open))))
}

fn script_of(console: &ConsoleState, action: &RequiredAction) -> Option<ScriptData> {
    let section = &console.config.processor;
    if section.js_url.is_empty() || section.publishable_key.is_empty() {
        return None;
    }
    Some(ScriptData {
        js_url: section.js_url.clone(),
        publishable_key: section.publishable_key.clone(),
        client_secret: action.client_secret.expose().to_owned(),
        payment_method: action.payment_method.clone()?,
    })
}

fn paid(order: &Order) -> PayView {
    PayView::Paid(format::credits(order.credits.whole()))
}

const OVER: &str =
    "This payment is no longer waiting: it was declined or cancelled. Nothing was charged.";

fn refused_or(visitor: LinkVisitor, error: ApiError) -> Result<Response, ApiError> {
    let reason = match error {
        ApiError::Failure(Failure::UnknownLink) => {
            "This link is not known. Part of it may be missing: copy the whole link from the email. A link also stops \
             working when the email address of the account changes."
        }
        ApiError::Failure(Failure::LinkExpired) => {
            "This link has expired, and the payment was cancelled. Nothing was charged."
        }
        ApiError::Failure(Failure::Payment(
            PaymentProblem::Unavailable(_)
            | PaymentProblem::RateLimited { .. }
            | PaymentProblem::Unknown(_),
        )) => "We can't reach the payment processor right now. Reload this page in a minute.",
        other => return Err(other),
    };
    Ok(visitor.show(error.row().status, PayView::Refused(reason)))
}
