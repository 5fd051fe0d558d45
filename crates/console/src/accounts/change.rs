//! One account: switched off or on, or disconnected.

use axum::Router;
use axum::extract::Path;
use axum::response::Response;
use axum::routing::{get, post};
use http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::json;

use super::PATH;
use super::view::ShownAccount;
use console_kit::ConsoleState;
use console_kit::address;
use console_kit::failure::PageFailure;
use console_kit::flash::FlashMessage;
use console_kit::form::{FormView, SentForm};
use console_kit::service::ServiceProblem;
use console_kit::shell::ConsoleSection;
use console_kit::sure::{DangerousDeed, NAME_FIELD};
use console_kit::visitor::{ConsoleVisitor, ServiceRequest};

pub(super) fn router() -> Router<ConsoleState> {
    Router::new()
        .route("/console/accounts/{account}/switch", post(switch))
        .route("/console/accounts/{account}/disconnect", get(show).post(disconnect))
}

fn route_of(account: &str) -> String {
    format!("/v1/accounts/{}", address::segment(account))
}

async fn switch(Path(account): Path<String>, form: SentForm) -> Result<Response, PageFailure> {
    let SentForm { visitor, data } = form;
    let is_on = data.text("state") == "active";
    let body = json!({ "state": data.text("state") });
    let about = ServiceRequest::default();
    let flash = match visitor.send(&Method::PATCH, &route_of(&account), &body, &about).await {
        Ok(_) if is_on => FlashMessage::ok(format!("{account} is active again.")),
        Ok(_) => FlashMessage::ok(format!(
            "{account} is switched off. Its calls are refused, and its slot is free. The credentials are kept."
        )),
        Err(problem) if problem.code == "no_free_slot" => no_slot(&problem),
        Err(problem) => return Err(visitor.fail(problem)),
    };
    Ok(visitor.lead_to(PATH, &flash))
}

/// Which accounts use the slots, and what to do.
fn no_slot(problem: &ServiceProblem) -> FlashMessage {
    let member = |name: &str| problem.members.get(name);
    let limit = member("limit").and_then(serde_json::Value::as_i64).unwrap_or_default();
    let platform = member("platform").and_then(|name| name.as_str()).unwrap_or_default();
    let accounts = member("accounts").and_then(|list| list.as_array()).into_iter().flatten();
    let names: Vec<&str> = accounts.filter_map(|name| name.as_str()).take(10).collect();
    FlashMessage::bad(format!(
        "All {limit} {platform} slots are in use: {}. Switch one of these off, disconnect one, or get a slot.",
        names.join(", ")
    ))
}

/// How many exports of an account run or wait, for the page that disconnects it.
#[derive(Deserialize)]
struct RunningExports {
    exports: Vec<serde::de::IgnoredAny>,
}

async fn find(visitor: &ConsoleVisitor, account: &str) -> Result<ShownAccount, PageFailure> {
    visitor.get(&route_of(account)).await
}

async fn show(
    visitor: ConsoleVisitor,
    Path(account): Path<String>,
) -> Result<Response, PageFailure> {
    let found = find(&visitor, &account).await?;
    let query = [("account", account.as_str()), ("status", "running"), ("limit", "20")];
    let route = format!("/v1/exports{}", address::query(&query));
    let running: Result<RunningExports, _> = visitor.try_get(&route).await;
    let mut deed = disconnection(&found);
    if let Ok(RunningExports { exports }) = running
        && !exports.is_empty()
    {
        deed.facts.push(("Running exports", format!("{}, which will fail", exports.len())));
    }
    Ok(deed.show(&visitor, ConsoleSection::Accounts, &FormView::default()))
}

fn disconnection(account: &ShownAccount) -> DangerousDeed {
    let name = &account.creator_id;
    DangerousDeed {
        path: format!("{PATH}/{name}/disconnect"),
        back_path: PATH,
        back_word: "Accounts",
        thing: name.clone(),
        question: format!("Disconnect {name}?"),
        consequence: "We'll forget the credentials, and calls to this account will be refused. The call log and finished exports stay.".to_owned(),
        facts: vec![
            ("Platform", account.platform.clone()),
            ("Platform's ID", account.platform_id().to_owned()),
            ("Connected", account.connected()),
        ],
        asks_name: true,
        button: "Disconnect account",
        keep: "Keep account",
        ..DangerousDeed::default()
    }
}

async fn disconnect(Path(account): Path<String>, form: SentForm) -> Result<Response, PageFailure> {
    let SentForm { visitor, data } = form;
    let found: ShownAccount = match visitor.try_get(&route_of(&account)).await {
        Ok(found) => found,
        // The form was sent twice.
        Err(problem) if problem.code == "account_not_found" => {
            return Ok(
                visitor.lead_to(PATH, &FlashMessage::warn(format!("{account} isn't connected.")))
            );
        }
        Err(problem) => return Err(visitor.fail(problem)),
    };
    let deed = disconnection(&found);
    if !deed.is_named(data.text(NAME_FIELD)) {
        return Ok(deed.show(&visitor, ConsoleSection::Accounts, &DangerousDeed::unnamed()));
    }
    match visitor.send_empty(&Method::DELETE, &route_of(&account)).await {
        Err(problem) if problem.status != StatusCode::NOT_FOUND => Err(visitor.fail(problem)),
        _ => {
            let text = format!("{account} is disconnected. Its credentials are deleted.");
            Ok(visitor.lead_to(PATH, &FlashMessage::ok(text)))
        }
    }
}
