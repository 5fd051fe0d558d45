//! One key: its limits edited, its secret rotated, the key revoked.

use askama::Template;
use axum::Router;
use axum::extract::Path;
use axum::response::Response;
use axum::routing::get;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::limits::{self, AccountChoice};
use super::view::ShownKey;
use super::{PATH, ROUTE};
use crate::accounts::AccountList;
use console_kit::ConsoleState;
use console_kit::failure::PageFailure;
use console_kit::flash::FlashMessage;
use console_kit::form::{FormData, FormView, SentForm};
use console_kit::shell::{ConsoleSection, PageShell};
use console_kit::sure::{DangerousDeed, NAME_FIELD, PASSWORD_FIELD};
use console_kit::values;
use console_kit::visitor::{ConsoleVisitor, ServiceRequest};

pub(super) fn router() -> Router<ConsoleState> {
    Router::new()
        .route("/console/keys/{key}/edit", get(show_limits).post(change))
        .route("/console/keys/{key}/rotate", get(show_rotation).post(rotate))
        .route("/console/keys/{key}/revoke", get(show_revocation).post(revoke))
}

/// How long the old secret still works: seconds and words.
const GRACES: &[(&str, &str)] = &[
    ("0", "Stops now"),
    ("3600", "Works for one more hour"),
    ("86400", "Works for one more day"),
    ("604800", "Works for seven more days"),
];

/// What a rotated key may do.
const SCOPES: &[(&str, &str)] = &[("", "As it is"), ("read_only", "Read-only"), ("full", "Full")];

#[derive(Template)]
#[template(path = "console/keys/edit.html")]
struct EditPage {
    frame: PageShell,
    name: String,
    hint: String,
    path: String,
    form: FormView,
    choice: AccountChoice,
    token: String,
    key: String,
}

#[derive(Template)]
#[template(path = "console/keys/rotate.html")]
struct RotatePage {
    frame: PageShell,
    name: String,
    hint: String,
    access: &'static str,
    path: String,
    form: FormView,
    token: String,
    key: String,
}

/// The path of a deed with a key.
fn path_of(key: &str, deed: &str) -> String {
    format!("{PATH}/{key}/{deed}")
}

/// A key of the customer's, by its id. What is no id leads nowhere.
async fn find(visitor: &ConsoleVisitor, key: &str) -> Result<ShownKey, PageFailure> {
    visitor.get(&route_of(key)).await
}

fn route_of(key: &str) -> String {
    format!("{ROUTE}/{}", console_kit::address::segment(key))
}

async fn show_limits(
    visitor: ConsoleVisitor,
    Path(key): Path<String>,
) -> Result<Response, PageFailure> {
    let found = find(&visitor, &key).await?;
    let form = FormView::filled(limits::filled(&found));
    edit_page(&visitor, &found, form).await
}

async fn edit_page(
    visitor: &ConsoleVisitor,
    key: &ShownKey,
    form: FormView,
) -> Result<Response, PageFailure> {
    let accounts: AccountList = visitor.get("/v1/accounts").await?;
    let path = path_of(&key.id, "edit");
    let status = form.status();
    let page = EditPage {
        frame: visitor.shell(ConsoleSection::Keys),
        name: key.name.clone(),
        hint: key.hint(),
        form,
        choice: AccountChoice::new(accounts.names(), Some(key)),
        token: visitor.token(&path),
        key: visitor.new_idempotency_key(),
        path,
    };
    Ok(visitor.show(status, &page))
}

async fn change(Path(key): Path<String>, form: SentForm) -> Result<Response, PageFailure> {
    let SentForm { visitor, data } = form;
    let found = find(&visitor, &key).await?;
    let body = match limits::change(&data, &found) {
        Ok(body) => body,
        Err(view) => return edit_page(&visitor, &found, view).await,
    };
    if body.as_object().is_none_or(serde_json::Map::is_empty) {
        return Ok(visitor.lead_to(PATH, &FlashMessage::ok("Nothing was changed.")));
    }
    let about = ServiceRequest { idempotency_key: data.text("key"), ..ServiceRequest::default() };
    match visitor.send(&Method::PATCH, &route_of(&key), &body, &about).await {
        Ok(_) => {
            let text =
                format!("The limits of “{}” are saved. They apply from now on.", data.text("name"));
            Ok(visitor.lead_to(PATH, &FlashMessage::ok(text)))
        }
        Err(problem) => {
            let view = FormView::refused(data, &problem, limits::RENAMED);
            edit_page(&visitor, &found, view).await
        }
    }
}

async fn show_rotation(
    visitor: ConsoleVisitor,
    Path(key): Path<String>,
) -> Result<Response, PageFailure> {
    let found = find(&visitor, &key).await?;
    let form = FormView::filled(FormData::default().with("expires_old_in_s", "86400"));
    Ok(rotate_page(&visitor, &found, form))
}

fn rotate_page(visitor: &ConsoleVisitor, key: &ShownKey, form: FormView) -> Response {
    let path = path_of(&key.id, "rotate");
    let status = form.status();
    let page = RotatePage {
        frame: visitor.shell(ConsoleSection::Keys),
        name: key.name.clone(),
        hint: key.hint(),
        access: key.access(),
        form,
        token: visitor.token(&path),
        key: visitor.new_idempotency_key(),
        path,
    };
    visitor.show(status, &page)
}

async fn rotate(Path(key): Path<String>, form: SentForm) -> Result<Response, PageFailure> {
    let SentForm { visitor, data } = form;
    let found = find(&visitor, &key).await?;
    let about = ServiceRequest { idempotency_key: data.text("key"), ..ServiceRequest::default() };
    let route = format!("{ROUTE}/rotate");
    match visitor.send(&Method::POST, &route, &rotation(&found, &data), &about).await {
        Ok(done) => super::show_secret(&visitor, &done, "The new secret of").await,
        Err(problem) => Ok(rotate_page(&visitor, &found, super::refused(data, &problem))),
    }
}

fn rotation(key: &ShownKey, data: &FormData) -> Value {
    let mut body = json!({
        "key_id": key.id,
        "current_password": data.raw(PASSWORD_FIELD),
        "expires_old_in_s": values::number(data.text("expires_old_in_s")),
    });
    if let (Some(scope), Some(members)) = (data.optional("scope"), body.as_object_mut()) {
        members.insert("scope".to_owned(), json!(scope));
    }
    body
}

async fn show_revocation(
    visitor: ConsoleVisitor,
    Path(key): Path<String>,
) -> Result<Response, PageFailure> {
    let found = find(&visitor, &key).await?;
    Ok(revocation(&found).show(&visitor, ConsoleSection::Keys, &FormView::default()))
}

fn revocation(key: &ShownKey) -> DangerousDeed {
    let used = match key.monthly_budget_credits {
        Some(budget) => {
            format!("{} of {} credits", key.used(), console_kit::format::number(budget))
        }
        None => console_kit::format::credits(key.used_this_month),
    };
    DangerousDeed {
        path: path_of(&key.id, "revoke"),
        back_path: PATH,
        back_word: "API keys",
        thing: key.name.clone(),
        question: format!("Revoke the key “{}”?", key.name),
        consequence: format!(
            "Every request with {} will be refused from now on. This can't be undone.",
            key.hint()
        ),
        facts: vec![
            ("Last used", key.last_used()),
            ("This month", used),
            ("Accounts", key.reach()),
        ],
        asks_name: true,
        button: "Revoke key",
        keep: "Keep key",
        ..DangerousDeed::default()
    }
}

async fn revoke(Path(key): Path<String>, form: SentForm) -> Result<Response, PageFailure> {
    let SentForm { visitor, data } = form;
    let found = find(&visitor, &key).await?;
    let deed = revocation(&found);
    if !deed.is_named(data.text(NAME_FIELD)) {
        return Ok(deed.show(&visitor, ConsoleSection::Keys, &DangerousDeed::unnamed()));
    }
    let done = visitor.send_empty(&Method::DELETE, &route_of(&key)).await;
    // A key that another form revoked meanwhile is revoked all the same.
    match done {
        Err(problem) if problem.status != StatusCode::NOT_FOUND => Err(visitor.fail(problem)),
        _ => {
            let text =
                format!("The key “{}” is revoked. Requests with it are refused.", found.name);
            Ok(visitor.lead_to(PATH, &FlashMessage::ok(text)))
        }
    }
}
