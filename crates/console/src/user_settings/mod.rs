//! `/console/settings`: the person's name, address and password, the browsers that are signed in,
//! support access, and which emails are sent.

mod change;
mod notices;
mod sessions;

use askama::Template;
use axum::Router;
use axum::response::Response;
use axum::routing::get;
use serde::Deserialize;

use console_kit::ConsoleState;
use console_kit::failure::PageFailure;
use console_kit::form::{FormData, FormView};
use console_kit::format;
use console_kit::shell::{ConsoleSection, PageShell};
use console_kit::visitor::ConsoleVisitor;
use notices::{NoticeChoices, NoticeSwitch};
use sessions::{SessionList, ShownSession};

/// The page's own path.
const PATH: &str = "/console/settings";

pub(super) fn router() -> Router<ConsoleState> {
    Router::new().route(PATH, get(show)).merge(change::router()).merge(sessions::router())
}

/// The members of `GET /v1/auth/me` that the page shows.
#[derive(Deserialize)]
struct ProfileInfo {
    customer_id: String,
    email: String,
    name: String,
    email_verified: bool,
    pending_email: Option<String>,
    created_at: String,
}

/// The members of `GET /v1/support-access` that the page shows.
#[derive(Deserialize)]
struct SupportAccess {
    enabled: bool,
    expires_at: Option<String>,
    uses: Vec<SupportUse>,
}

/// What a member of the staff looked at.
#[derive(Deserialize)]
struct SupportUse {
    at: String,
    actor: String,
    action: String,
}

/// The forms of the page, of which one may have been refused.
#[derive(Default)]
struct SettingsForms {
    name: Option<FormView>,
    email: Option<FormView>,
    password: Option<FormView>,
    notices: Option<FormView>,
}

/// The tokens of the forms.
struct SettingsTokens {
    name: String,
    email: String,
    password: String,
    support: String,
    notices: String,
}

#[derive(Template)]
#[template(path = "console/settings/page.html")]
struct SettingsPage {
    frame: PageShell,
    profile: ProfileInfo,
    sessions: Vec<ShownSession>,
    support: SupportAccess,
    switches: Vec<NoticeSwitch>,
    /// What is wrong, at the top.
    refused: FormView,
    name: FormView,
    email: FormView,
    password: FormView,
    notices: FormView,
    tokens: SettingsTokens,
}

async fn show(visitor: ConsoleVisitor) -> Result<Response, PageFailure> {
    page(&visitor, SettingsForms::default()).await
}

/// The page, with the form that was refused if one was.
async fn page(visitor: &ConsoleVisitor, forms: SettingsForms) -> Result<Response, PageFailure> {
    let (profile, sessions, support, notices) = futures_util::try_join!(
        visitor.get::<ProfileInfo>("/v1/auth/me"),
        visitor.get::<SessionList>("/v1/auth/sessions"),
        visitor.get::<SupportAccess>("/v1/support-access"),
        visitor.get::<NoticeChoices>("/v1/notices"),
    )?;
    let refused = [&forms.name, &forms.email, &forms.password, &forms.notices];
    let refused = refused.into_iter().flatten().next().cloned().unwrap_or_default();
    let named = FormView::filled(FormData::default().with("name", profile.name.clone()));
    let switches = notices.switches(forms.notices.as_ref());
    let page = SettingsPage {
        frame: visitor.shell(ConsoleSection::Settings),
        sessions: sessions.shown(visitor),
        support,
        switches,
        name: forms.name.unwrap_or(named),
        email: forms.email.unwrap_or_default(),
        password: forms.password.unwrap_or_default(),
        notices: forms.notices.unwrap_or_else(|| notices.form()),
        tokens: SettingsTokens::new(visitor),
        profile,
        refused,
    };
    Ok(visitor.show(page.refused.status(), &page))
}

impl SettingsTokens {
    fn new(visitor: &ConsoleVisitor) -> Self {
        let token = |form: &str| visitor.token(&format!("{PATH}/{form}"));
        Self {
            name: token("name"),
            email: token("email"),
            password: token("password"),
            support: token("support"),
            notices: token("notices"),
        }
    }
}

impl ProfileInfo {
    fn since(&self) -> String {
        format::day(&self.created_at)
    }
}

impl SupportAccess {
    fn until(&self) -> String {
        self.expires_at.as_deref().map(format::minute).unwrap_or_default()
    }
}

impl SupportUse {
    fn moment(&self) -> String {
        format::moment(&self.at)
    }

    fn words(&self) -> &str {
        crate::audit::action_words(&self.action)
    }
}
