//! Buying a pack: with the saved card in one click, or on the processor's page.

use axum::Router;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::post;
use http::{Method, StatusCode};
use serde_json::json;

use crate::model::ProcessorPage;
use crate::overview::{self, BuyForm};
use crate::part::HOME;
use crate::processor;
use crate::{pay, words};
use console_kit::ConsoleState;
use console_kit::failure::PageFailure;
use console_kit::flash::{FlashKind, FlashMessage};
use console_kit::form::{FormData, FormView, SentForm};
use console_kit::form_target::FormTarget;
use console_kit::format;
use console_kit::service::ServiceProblem;
use console_kit::visitor::{ConsoleVisitor, ServiceRequest};

/// Where the form for buying is sent.
pub(crate) const PATH: &str = "/console/billing/buy";
/// A payment page whose opening failed at the processor. Nobody can have paid on it.
const PAGE_NOT_OPENED: &str = "page_not_opened";
/// Where the button for paying on the processor's page is sent.
pub(crate) const CHECKOUT_PATH: &str = "/console/billing/checkout";

pub(crate) fn router() -> Router<ConsoleState> {
    Router::new().route(PATH, post(buy)).route(CHECKOUT_PATH, post(check_out))
}

/// What `charge` and `confirm-charge` return.
#[derive(serde::Deserialize)]
pub(crate) struct ChargeResult {
    pub(crate) status: String,
    pub(crate) order_id: String,
    #[serde(default)]
    credits: i64,
    #[serde(default)]
    balance: i64,
}

impl ChargeResult {
    /// The message about a payment that arrived.
    pub(crate) fn paid(&self) -> FlashMessage {
        let (added, balance) = (format::credits(self.credits), format::number(self.balance));
        let verb = if self.credits == 1 { "was" } else { "were" };
        FlashMessage {
            kind: FlashKind::Ok,
            title: "Payment received".to_owned(),
            text: format!("{added} {verb} added. Your balance is {balance}."),
        }
    }
}

async fn buy(form: SentForm) -> Result<Response, PageFailure> {
    if form.data.text("pay") == "page" { check_out(form).await } else { charge(form).await }
}

/// Charges the saved card.
async fn charge(SentForm { visitor, data }: SentForm) -> Result<Response, PageFailure> {
    let choice = json!({ "pack_id": data.text("pack_id") });
    let about = ServiceRequest { idempotency_key: data.text("key"), ..ServiceRequest::default() };
    let sent = visitor.send(&Method::POST, "/v1/billing/charge", &choice, &about).await;
    match sent.and_then(|response| response.json::<ChargeResult>()) {
        Ok(result) if result.status == "paid" => Ok(visitor.lead_to(HOME, &result.paid())),
        Ok(result) => Ok(Redirect::to(&pay::path(&result.order_id)).into_response()),
        Err(problem) => charge_refused(&visitor, data, &problem).await,
    }
}

/// A charge that is under way leads to its payment; any other refusal to the form again.
async fn charge_refused(
    visitor: &ConsoleVisitor,
    data: FormData,
    problem: &ServiceProblem,
) -> Result<Response, PageFailure> {
    let order = problem.members.get("order_id").and_then(serde_json::Value::as_str);
    if let Some(order) = order.filter(|_| problem.code == "change_in_progress") {
        let text =
            "A payment for this pack is already under way. Finish it before you start another one.";
        return Ok(visitor.lead_to(&pay::path(order), &FlashMessage::warn(text)));
    }
    again(visitor, data, problem).await
}

/// Opens the processor's page.
async fn check_out(SentForm { visitor, data }: SentForm) -> Result<Response, PageFailure> {
    let choice = json!({ "pack_id": data.text("pack_id") });
    // The key of the form would be taken for a charge's: a checkout has one of its own.
    let key = format!("{}-page", data.text("key"));
    let about = ServiceRequest { idempotency_key: &key, ..ServiceRequest::default() };
    let sent = visitor.send(&Method::POST, "/v1/billing/checkout", &choice, &about).await;
    match sent.and_then(|response| response.json::<ProcessorPage>()) {
        Ok(page) => Ok(processor::lead_out(&visitor, &page.url)),
        Err(problem) if problem.code == "payment_outcome_unknown" => {
            let code = PAGE_NOT_OPENED.to_owned();
            again(&visitor, data, &ServiceProblem { code, ..problem }).await
        }
        Err(problem) => again(&visitor, data, &problem).await,
    }
}

/// The form again, with what was wrong. After a payment whose outcome is unknown it keeps its key,
/// so that sending it again asks about the same payment.
async fn again(
    visitor: &ConsoleVisitor,
    data: FormData,
    problem: &ServiceProblem,
) -> Result<Response, PageFailure> {
    if problem.status == StatusCode::UNAUTHORIZED {
        return Err(visitor.fail(problem.clone()));
    }
    let key = data.text("key").to_owned();
    let mut view = FormView::refused(data, problem, &[]);
    if problem.fields.is_empty() {
        view.summary = match problem.code.as_str() {
            PAGE_NOT_OPENED => {
                "The payment page couldn't be opened. Nothing was charged. Try again in a minute."
                    .to_owned()
            }
            "not_found" => "This pack isn't sold any more. Choose another one.".to_owned(),
            _ => words::of_problem(problem),
        };
    }
    let mut target = FormTarget::once(visitor, PATH);
    if problem.code == "payment_outcome_unknown" {
        target.key = key;
    }
    overview::render(visitor, problem.status, BuyForm { view, target }).await
}
