//! The saved card: trying it again, and removing it.

use axum::Router;
use axum::response::Response;
use axum::routing::{get, post};
use http::{Method, StatusCode};
use serde_json::json;

use crate::model::{CardState, SavedCard};
use crate::part::HOME;
use crate::words;
use console_kit::ConsoleState;
use console_kit::failure::PageFailure;
use console_kit::flash::FlashMessage;
use console_kit::form::{FormData, FormView, SentForm};
use console_kit::format;
use console_kit::shell::ConsoleSection;
use console_kit::sure::{DangerousDeed, PASSWORD_FIELD};
use console_kit::visitor::{ConsoleVisitor, ServiceRequest};

/// Takes over the newest card, and lets it pay what is open.
pub(crate) const SYNC_PATH: &str = "/console/billing/card/sync";
const REMOVE_PATH: &str = "/console/billing/card/remove";

pub(crate) fn router() -> Router<ConsoleState> {
    Router::new().route(SYNC_PATH, post(sync)).route(REMOVE_PATH, get(ask).post(remove))
}

/// What `sync-card` returns.
#[derive(serde::Deserialize)]
struct SyncedCard {
    card: Option<SavedCard>,
    invoices_paid: Vec<OpenInvoice>,
    invoices_failed: Vec<OpenInvoice>,
}

#[derive(serde::Deserialize)]
struct OpenInvoice {
    amount_cents: i64,
}

async fn sync(SentForm { visitor, .. }: SentForm) -> Result<Response, PageFailure> {
    let about = ServiceRequest::default();
    let sent = visitor.send(&Method::POST, "/v1/billing/sync-card", &json!({}), &about).await;
    let flash = match sent.and_then(|response| response.json::<SyncedCard>()) {
        Ok(synced) => said(&synced),
        Err(problem) if problem.status == StatusCode::UNAUTHORIZED => {
            return Err(visitor.fail(problem));
        }
        Err(problem) => FlashMessage::bad(words::of_problem(&problem)),
    };
    Ok(visitor.lead_to(HOME, &flash))
}

fn said(synced: &SyncedCard) -> FlashMessage {
    let sum = |invoices: &[OpenInvoice]| {
        let cents = invoices.iter().map(|invoice| invoice.amount_cents);
        format::dollars(cents.fold(0, i64::saturating_add))
    };
    let Some(card) = &synced.card else {
        return FlashMessage::warn(
            "There's no card to save. Buy credits on the payment page to save one.",
        );
    };
    if !synced.invoices_failed.is_empty() {
        let due = sum(&synced.invoices_failed);
        return FlashMessage::bad(format!(
            "{} couldn't pay the open invoices ({due}).",
            card.short()
        ));
    }
    if synced.invoices_paid.is_empty() {
        return FlashMessage::ok(format!("{} is your saved card.", card.short()));
    }
    let paid = sum(&synced.invoices_paid);
    FlashMessage::ok(format!("{} paid the open invoices ({paid}).", card.short()))
}

async fn ask(visitor: ConsoleVisitor) -> Result<Response, PageFailure> {
    render(&visitor, &FormView::default()).await
}

/// Asks before the card is removed.
async fn render(visitor: &ConsoleVisitor, form: &FormView) -> Result<Response, PageFailure> {
    let state: CardState = visitor.get("/v1/billing/card").await?;
    let Some(card) = &state.card else {
        return Ok(visitor.lead_to(HOME, &FlashMessage::warn("There's no saved card to remove.")));
    };
    let is_on = state.autotopup.enabled;
    let deed = DangerousDeed {
        path: REMOVE_PATH.to_owned(),
        back_path: HOME,
        back_word: "Billing",
        thing: card.short(),
        question: format!("Remove {}?", card.short()),
        consequence: "The card is deleted here and at the payment processor. Automatic top-up is turned off, and you'll have to enter a card for your next payment."
            .to_owned(),
        facts: vec![
            ("Expires", card.expires()),
            ("Automatic top-up", if is_on { "On, will be turned off" } else { "Off" }.to_owned()),
        ],
        asks_password: true,
        button: "Remove card",
        keep: "Keep card",
        ..DangerousDeed::default()
    };
    Ok(deed.show(visitor, ConsoleSection::Billing, form))
}

async fn remove(SentForm { visitor, data }: SentForm) -> Result<Response, PageFailure> {
    let body = json!({ "current_password": data.raw(PASSWORD_FIELD) });
    let about = ServiceRequest::default();
    let sent = visitor.send(&Method::DELETE, "/v1/billing/card", &body, &about).await;
    let problem = match sent {
        Ok(_) => {
            let text = "The card was removed. Automatic top-up is off.";
            return Ok(visitor.lead_to(HOME, &FlashMessage::ok(text)));
        }
        Err(problem) if problem.status == StatusCode::UNAUTHORIZED => {
            return Err(visitor.fail(problem));
        }
        Err(problem) => problem,
    };
    // A password is never shown again.
    let mut view = FormView::refused(FormData::default(), &problem, &[]);
    if problem.code == "wrong_password" {
        view = view.mark(PASSWORD_FIELD, "The password is wrong.");
    } else if problem.fields.is_empty() {
        view.summary = words::of_problem(&problem);
    }
    render(&visitor, &view).await
}
