//! The browsers that are signed in: one, or all others, can be signed out.

use axum::Router;
use axum::extract::Path;
use axum::response::Response;
use axum::routing::{get, post};
use http::Method;
use serde::Deserialize;

use super::PATH;
use console_kit::ConsoleState;
use console_kit::address;
use console_kit::failure::PageFailure;
use console_kit::flash::FlashMessage;
use console_kit::form::{FormView, SentForm};
use console_kit::format;
use console_kit::service::ServiceProblem;
use console_kit::shell::ConsoleSection;
use console_kit::sure::DangerousDeed;
use console_kit::visitor::ConsoleVisitor;
use pages::plain::sentence;

/// The page before all other sessions end.
const OTHERS_PATH: &str = "/console/settings/sessions/end-others";
/// The route that lists sessions.
const ROUTE: &str = "/v1/auth/sessions";

pub(super) fn router() -> Router<ConsoleState> {
    Router::new()
        .route(OTHERS_PATH, get(ask).post(end_others))
        .route("/console/settings/sessions/{session}/end", post(end))
}

/// The members of `GET /v1/auth/sessions` that pages show.
#[derive(Deserialize)]
pub(super) struct SessionList {
    sessions: Vec<SessionInfo>,
}

#[derive(Deserialize)]
struct SessionInfo {
    session_id: String,
    current: bool,
    user_agent: String,
    network: String,
    last_used_at: String,
    idle_expires_at: String,
}

/// A session with the form that ends it.
pub(super) struct ShownSession {
    pub(super) is_current: bool,
    pub(super) browser: String,
    pub(super) network: String,
    pub(super) last_used_at: String,
    pub(super) last_used: String,
    pub(super) ends: String,
    pub(super) path: String,
    pub(super) token: String,
}

impl SessionList {
    pub(super) fn shown(self, visitor: &ConsoleVisitor) -> Vec<ShownSession> {
        let shown = self.sessions.into_iter().map(|session| {
            let id = address::segment(&session.session_id);
            let path = format!("{PATH}/sessions/{id}/end");
            ShownSession {
                is_current: session.current,
                last_used: format::minute(&session.last_used_at),
                ends: format::minute(&session.idle_expires_at),
                token: visitor.token(&path),
                path,
                browser: named(session.user_agent),
                network: session.network,
                last_used_at: session.last_used_at,
            }
        });
        shown.collect()
    }

    fn others(&self) -> impl Iterator<Item = &SessionInfo> {
        self.sessions.iter().filter(|session| !session.current)
    }
}

fn named(user_agent: String) -> String {
    if user_agent.is_empty() { "Unknown browser".to_owned() } else { user_agent }
}

/// Ends one session; the page's own leads to the login at the next request.
async fn end(Path(session): Path<String>, form: SentForm) -> Response {
    let ended = end_one(&form.visitor, &session).await;
    let flash = match ended {
        Ok(()) => FlashMessage::ok("That browser is signed out."),
        Err(problem) => FlashMessage::bad(sentence(&problem.detail)),
    };
    form.visitor.lead_to("/console/settings#sessions", &flash)
}

async fn end_one(visitor: &ConsoleVisitor, session: &str) -> Result<(), ServiceProblem> {
    let path = format!("{ROUTE}/{}", address::segment(session));
    visitor.send_empty(&Method::DELETE, &path).await.map(drop)
}

fn deed(list: &SessionList) -> DangerousDeed {
    let browsers = i64::try_from(list.others().count()).unwrap_or(i64::MAX);
    DangerousDeed {
        path: OTHERS_PATH.to_owned(),
        back_path: PATH,
        back_word: "Settings",
        thing: "Sessions".to_owned(),
        question: "Sign out everywhere else?".to_owned(),
        consequence: "All other browsers will have to sign in again. This one stays signed in, and API keys keep working.".to_owned(),
        facts: vec![("Other browsers", format::number(browsers))],
        button: "Sign out everywhere else",
        keep: "Keep them signed in",
        ..DangerousDeed::default()
    }
}

async fn ask(visitor: ConsoleVisitor) -> Result<Response, PageFailure> {
    let list: SessionList = visitor.get(ROUTE).await?;
    Ok(deed(&list).show(&visitor, ConsoleSection::Settings, &FormView::default()))
}

/// Ends all sessions but this one. One that has ended meanwhile is no problem.
async fn end_others(form: SentForm) -> Result<Response, PageFailure> {
    let visitor = form.visitor;
    let list: SessionList = visitor.get(ROUTE).await?;
    for session in list.others() {
        match end_one(&visitor, &session.session_id).await {
            Ok(()) => {}
            Err(problem) if problem.status == http::StatusCode::NOT_FOUND => {}
            Err(problem) => return Err(visitor.fail(problem)),
        }
    }
    let flash = FlashMessage::ok("All other browsers are signed out.");
    Ok(visitor.lead_to("/console/settings#sessions", &flash))
}
