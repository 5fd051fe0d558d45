//! `/console/billing/pay/{order_id}`: a payment that waits for the customer or for the bank.

use askama::Template;
use axum::Router;
use axum::extract::Path;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use futures_util::future::join;
use http::{Method, StatusCode};
use serde_json::json;

use crate::buy::{CHECKOUT_PATH, ChargeResult};
use crate::model::{CardState, SavedCard, ShownOrder};
use crate::part::HOME;
use crate::processor;
use crate::words;
use console_kit::ConsoleState;
use console_kit::address::segment;
use console_kit::failure::PageFailure;
use console_kit::flash::FlashMessage;
use console_kit::form::SentForm;
use console_kit::form_target::FormTarget;
use console_kit::format;
use console_kit::service::ServiceProblem;
use console_kit::shell::{ConsoleSection, PageShell};
use console_kit::visitor::{ConsoleVisitor, ServiceRequest};

pub(crate) fn router() -> Router<ConsoleState> {
    Router::new()
        .route("/console/billing/pay/{order_id}", get(show_payment).post(confirm))
        .route("/console/billing/pay/{order_id}/status", get(show_status))
}

/// The page of an order's payment.
pub(crate) fn path(order_id: &str) -> String {
    format!("/console/billing/pay/{order_id}")
}

/// `GET /v1/billing/orders/{order_id}`.
#[derive(serde::Deserialize)]
struct OrderView {
    #[serde(flatten)]
    order: ShownOrder,
    /// `requires_action`, `processing`, `paid` or `over`.
    payment: String,
    pi_id: Option<String>,
    action: Option<BankAction>,
}

/// What the processor's script needs.
#[derive(serde::Deserialize)]
struct BankAction {
    client_secret: String,
    payment_method_id: Option<String>,
    publishable_key: Option<String>,
    js_url: Option<String>,
    expires_at: String,
}

impl OrderView {
    /// What the script needs, if it can run here.
    fn script(&self) -> Option<ScriptData<'_>> {
        let action = self.action.as_ref()?;
        Some(ScriptData {
            js_url: action.js_url.as_deref()?,
            publishable_key: action.publishable_key.as_deref()?,
            client_secret: &action.client_secret,
            payment_method: action.payment_method_id.as_deref().unwrap_or_default(),
        })
    }

    fn until(&self) -> String {
        self.action.as_ref().map(|action| format::moment(&action.expires_at)).unwrap_or_default()
    }

    /// Whether it still waits for the customer.
    fn waits(&self) -> bool {
        self.payment == "requires_action"
    }
}

/// The attributes of the section that the script reads.
struct ScriptData<'a> {
    js_url: &'a str,
    publishable_key: &'a str,
    client_secret: &'a str,
    payment_method: &'a str,
}

#[derive(Template)]
#[template(path = "console/billing/pay.html")]
struct PayPage {
    frame: PageShell,
    region: PayRegion,
    /// What went wrong when it was confirmed; empty if nothing did.
    problem: String,
}

/// The part that is asked for again while the bank processes a payment.
#[derive(Template)]
#[template(path = "console/billing/pay_region.html")]
struct PayRegion {
    view: OrderView,
    card: Option<SavedCard>,
    confirm: FormTarget,
    checkout: FormTarget,
}

async fn show_payment(
    Path(order_id): Path<String>,
    visitor: ConsoleVisitor,
) -> Result<Response, PageFailure> {
    page(&visitor, &order_id, None).await
}

async fn show_status(
    Path(order_id): Path<String>,
    visitor: ConsoleVisitor,
) -> Result<Response, PageFailure> {
    let region = region(&visitor, &order_id).await?;
    Ok(visitor.show(StatusCode::OK, &region))
}

/// The page, with the problem of an attempt to confirm it.
async fn page(
    visitor: &ConsoleVisitor,
    order_id: &str,
    problem: Option<&ServiceProblem>,
) -> Result<Response, PageFailure> {
    let region = region(visitor, order_id).await?;
    let page = PayPage {
        frame: visitor.shell(ConsoleSection::Billing),
        region,
        problem: problem.map(words::of_problem).unwrap_or_default(),
    };
    let section = &visitor.config().processor;
    let runs_script = page.region.view.waits() && page.region.view.script().is_some();
    let policy = if runs_script {
        processor::running_script(section)
    } else {
        processor::leading_out(section)
    };
    let status = problem.map_or(StatusCode::OK, |problem| problem.status);
    Ok(visitor.show_with(status, &page, &policy))
}

async fn region(visitor: &ConsoleVisitor, order_id: &str) -> Result<PayRegion, PageFailure> {
    let order = format!("/v1/billing/orders/{}", segment(order_id));
    let (view, card) =
        join(visitor.get::<OrderView>(&order), visitor.try_get::<CardState>("/v1/billing/card"))
            .await;
    let view = view?;
    Ok(PayRegion {
        confirm: FormTarget::new(visitor, path(&view.order.order_id)),
        checkout: FormTarget::once(visitor, CHECKOUT_PATH),
        card: card.ok().and_then(|state| state.card),
        view,
    })
}

/// Asks the service for the result, which grants what was paid.
async fn confirm(
    Path(order_id): Path<String>,
    SentForm { visitor, data }: SentForm,
) -> Result<Response, PageFailure> {
    let body = json!({ "pi_id": data.text("pi_id") });
    let about = ServiceRequest::default();
    let sent = visitor.send(&Method::POST, "/v1/billing/confirm-charge", &body, &about).await;
    match sent.and_then(|response| response.json::<ChargeResult>()) {
        Ok(result) if result.status == "paid" => Ok(visitor.lead_to(HOME, &result.paid())),
        Ok(result) if result.status == "requires_action" => {
            let text = "The payment isn't confirmed yet. Nothing has been charged.";
            Ok(visitor.lead_to(&path(&result.order_id), &FlashMessage::warn(text)))
        }
        Ok(result) => Ok(Redirect::to(&path(&result.order_id)).into_response()),
        Err(problem) if problem.status == StatusCode::UNAUTHORIZED => Err(visitor.fail(problem)),
        Err(problem) => page(&visitor, &order_id, Some(&problem)).await,
    }
}
