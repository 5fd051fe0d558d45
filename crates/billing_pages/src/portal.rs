//! The processor's portal: cards, tax details, the end of a plan.

use axum::Router;
use axum::response::Response;
use axum::routing::post;
use http::{Method, StatusCode};

use crate::model::ProcessorPage;
use crate::part::{HOME, PORTAL};
use crate::processor;
use crate::words;
use console_kit::ConsoleState;
use console_kit::failure::PageFailure;
use console_kit::flash::FlashMessage;
use console_kit::form::SentForm;

pub(crate) fn router() -> Router<ConsoleState> {
    Router::new().route(PORTAL, post(open))
}

async fn open(SentForm { visitor, .. }: SentForm) -> Result<Response, PageFailure> {
    let sent = visitor.send_empty(&Method::POST, "/v1/billing/portal").await;
    match sent.and_then(|response| response.json::<ProcessorPage>()) {
        Ok(page) => Ok(processor::lead_out(&visitor, &page.url)),
        Err(problem) if problem.status == StatusCode::UNAUTHORIZED => Err(visitor.fail(problem)),
        Err(problem) => Ok(visitor.lead_to(HOME, &FlashMessage::bad(words::of_problem(&problem)))),
    }
}
