//! `/console/billing/topup`: automatic top-up.

use askama::Template;
use axum::Router;
use axum::response::Response;
use axum::routing::get;
use http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::model::{CardState, ChargeNow};
use crate::part::{BillingPart, BillingTab, show};
use crate::words;
use console_kit::ConsoleState;
use console_kit::failure::PageFailure;
use console_kit::flash::FlashMessage;
use console_kit::form::{FormData, FormView, SentForm};
use console_kit::form_target::FormTarget;
use console_kit::shell::{ConsoleSection, PageShell};
use console_kit::values;
use console_kit::visitor::{ConsoleVisitor, ServiceRequest};

const PATH: &str = "/console/billing/topup";

pub(crate) fn router() -> Router<ConsoleState> {
    Router::new().route(PATH, get(show_settings).post(save))
}

#[derive(Template)]
#[template(path = "console/billing/topup.html")]
struct TopUpPage {
    frame: PageShell,
    part: BillingPart,
    form: FormView,
    target: FormTarget,
    state: CardState,
}

async fn show_settings(visitor: ConsoleVisitor) -> Result<Response, PageFailure> {
    render(&visitor, StatusCode::OK, None).await
}

async fn render(
    visitor: &ConsoleVisitor,
    status: StatusCode,
    sent: Option<FormView>,
) -> Result<Response, PageFailure> {
    let state: CardState = visitor.get("/v1/billing/card").await?;
    let page = TopUpPage {
        frame: visitor.shell(ConsoleSection::Billing),
        part: BillingPart::new(visitor, BillingTab::TopUp),
        form: sent.unwrap_or_else(|| FormView::filled(as_set(&state))),
        target: FormTarget::new(visitor, PATH),
        state,
    };
    Ok(show(visitor, status, &page))
}

/// The settings in force, as the form's values.
fn as_set(state: &CardState) -> FormData {
    let set = &state.autotopup;
    let number = |value: Option<i64>| value.map(|value| value.to_string()).unwrap_or_default();
    let cap = set.daily_cap_cents.map(|cents| format!("{}.{:02}", cents / 100, cents % 100));
    FormData::default()
        .with("threshold_credits", number(set.threshold_credits))
        .with("pack_id", set.pack_id.clone().unwrap_or_default())
        .with("daily_cap_usd", cap.unwrap_or_default())
}

async fn save(SentForm { visitor, data }: SentForm) -> Result<Response, PageFailure> {
    let is_on = data.text("enabled") != "false";
    let body = if is_on { wanted(&data) } else { json!({ "enabled": false }) };
    let about = ServiceRequest::default();
    let sent = visitor.send(&Method::POST, "/v1/billing/autotopup", &body, &about).await;
    match sent {
        Ok(saved) => {
            let top_up: Value = saved.json().map_err(|problem| visitor.fail(problem))?;
            Ok(visitor.lead_to(PATH, &FlashMessage::ok(outcome(is_on, &top_up))))
        }
        Err(problem) if problem.status == StatusCode::UNAUTHORIZED => Err(visitor.fail(problem)),
        Err(problem) => {
            let mut view = FormView::refused(data, &problem, &[]);
            if problem.fields.is_empty() {
                view.summary = words::of_problem(&problem);
            }
            render(&visitor, problem.status, Some(view)).await
        }
    }
}

/// What was done, with what is charged now.
fn outcome(is_on: bool, set: &Value) -> String {
    if !is_on {
        return "Automatic top-up is off.".to_owned();
    }
    let charge = ChargeNow::deserialize(&set["charge_now"]).ok();
    charge.map_or_else(
        || "Automatic top-up is on.".to_owned(),
        |charge| format!("Automatic top-up is on. Your card is charged for {} now.", charge.text()),
    )
}

/// The request: numbers as they were typed, so that the service says what is wrong with others.
fn wanted(data: &FormData) -> Value {
    json!({
        "enabled": true,
        "threshold_credits": values::decimal(data.text("threshold_credits")),
        "pack_id": data.text("pack_id"),
        "daily_cap_usd": values::decimal(data.text("daily_cap_usd")),
    })
}
