//! `/console/keys`: the keys with their limits and use, and new ones. A secret is shown once, in
//! the response to the form that made it.

mod change;
mod limits;
pub(crate) mod view;

use askama::Template;
use axum::Router;
use axum::response::Response;
use axum::routing::get;
use domain::time::Timestamp;
use futures_util::future::try_join;
use http::Method;
use serde::Deserialize;

use crate::accounts::AccountList;
use console_kit::ConsoleState;
use console_kit::failure::PageFailure;
use console_kit::form::{FormData, FormView, SentForm};
use console_kit::format;
use console_kit::page_query::PageQuery;
use console_kit::service::{ServiceProblem, ServiceResponse};
use console_kit::shell::{ConsoleSection, PageShell};
use console_kit::sure::PASSWORD_FIELD;
use console_kit::visitor::{ConsoleVisitor, ServiceRequest};
use limits::AccountChoice;
use view::{KeyList, ShownKey};

/// The page's own path.
pub(crate) const PATH: &str = "/console/keys";
/// The route that lists and creates keys.
pub(crate) const ROUTE: &str = "/v1/auth/keys";
/// Keys on one page.
const PAGE_KEYS: usize = 40;

pub(super) fn router() -> Router<ConsoleState> {
    Router::new().route(PATH, get(show).post(create)).merge(change::router())
}

/// Where the page begins.
#[derive(Deserialize)]
struct KeysQuery {
    /// The last key of the page before.
    after: Option<String>,
}

/// A secret that is shown now and never again.
pub(crate) struct FreshSecret {
    title: String,
    secret: String,
    /// Until when the secret before works, in words; empty if it has ended.
    note: String,
}

#[derive(Template)]
#[template(path = "console/keys/list.html")]
struct KeysPage {
    frame: PageShell,
    fresh: Option<FreshSecret>,
    keys: Vec<ShownKey>,
    /// The last key of this page; empty on the last page.
    next: String,
    is_later: bool,
    resets_at: String,
    now: Timestamp,
    form: FormView,
    choice: AccountChoice,
    token: String,
    key: String,
}

async fn show(
    visitor: ConsoleVisitor,
    PageQuery(query): PageQuery<KeysQuery>,
) -> Result<Response, PageFailure> {
    let form = FormView::filled(FormData::default().with("scope", "read_only"));
    let after = query.after.unwrap_or_default();
    page(&visitor, &after, (form, None)).await
}

/// The page with its form, and with a secret if one was made.
async fn page(
    visitor: &ConsoleVisitor,
    after: &str,
    shown: (FormView, Option<FreshSecret>),
) -> Result<Response, PageFailure> {
    let (form, fresh) = shown;
    let (list, accounts) =
        try_join(visitor.get::<KeyList>(ROUTE), visitor.get::<AccountList>("/v1/accounts")).await?;
    let status = form.status();
    let (keys, next) = slice(list.keys, after);
    let page = KeysPage {
        frame: visitor.shell(ConsoleSection::Keys),
        fresh,
        keys,
        next,
        is_later: !after.is_empty(),
        resets_at: format::minute(&list.budgets_reset_at),
        now: visitor.now(),
        form,
        choice: AccountChoice::new(accounts.names(), None),
        token: visitor.token(PATH),
        key: visitor.new_idempotency_key(),
    };
    Ok(visitor.show(status, &page))
}

/// The keys of one page, those in use first, and the last of them if more follow.
fn slice(keys: Vec<ShownKey>, after: &str) -> (Vec<ShownKey>, String) {
    let (revoked, mut used): (Vec<ShownKey>, Vec<ShownKey>) =
        keys.into_iter().partition(ShownKey::is_revoked);
    used.extend(revoked);
    let start = used.iter().position(|key| key.id == after).map_or(0, |last| last + 1);
    let mut rest: Vec<ShownKey> = used.split_off(start);
    let has_more = rest.len() > PAGE_KEYS;
    rest.truncate(PAGE_KEYS);
    let next = rest.last().filter(|_| has_more).map(|key| key.id.clone());
    (rest, next.unwrap_or_default())
}

/// The members of a created key that the page shows.
#[derive(Deserialize)]
pub(crate) struct CreatedKey {
    name: String,
    api_key: String,
    old_secret_expires_at: Option<String>,
}

/// The form that was refused; a wrong password is marked at its field.
fn refused(data: FormData, problem: &ServiceProblem) -> FormView {
    let mut view = FormView::refused(data, problem, limits::RENAMED);
    if problem.code == "wrong_password" {
        view.summary.clear();
        view = view.mark(PASSWORD_FIELD, "That isn't your password.");
    }
    view
}

async fn create(form: SentForm) -> Result<Response, PageFailure> {
    let SentForm { visitor, data } = form;
    let body = match limits::creation(&data) {
        Ok(body) => body,
        Err(view) => return page(&visitor, "", (view, None)).await,
    };
    let about = ServiceRequest { idempotency_key: data.text("key"), ..ServiceRequest::default() };
    match visitor.send(&Method::POST, ROUTE, &body, &about).await {
        Ok(done) => show_secret(&visitor, &done, "Your new key").await,
        Err(problem) => {
            let view = refused(data, &problem);
            page(&visitor, "", (view, None)).await
        }
    }
}

/// Shows the secret of a key that was made or rotated. A repetition of the form does not show it
/// again, although the service would repeat its response to a program.
async fn show_secret(
    visitor: &ConsoleVisitor,
    done: &ServiceResponse,
    title: &str,
) -> Result<Response, PageFailure> {
    if done.headers.contains_key("idempotent-replayed") {
        return Err(visitor.fail(shown_before()));
    }
    let made: CreatedKey = done.json().map_err(|problem| visitor.fail(problem))?;
    let until = made.old_secret_expires_at.as_deref().map(|at| {
        format!("Both secrets work until {} UTC. Then the old one stops.", format::minute(at))
    });
    let fresh = FreshSecret {
        title: format!("{title} “{}”", made.name),
        secret: made.api_key,
        note: until.unwrap_or_default(),
    };
    let form = FormView::filled(FormData::default().with("scope", "read_only"));
    page(visitor, "", (form, Some(fresh))).await
}

fn shown_before() -> ServiceProblem {
    ServiceProblem::shown_once(
        "This secret was shown before",
        "The key was created only once, and its secret is shown only once. If you didn't copy it, rotate the key on the API keys page.",
    )
}
