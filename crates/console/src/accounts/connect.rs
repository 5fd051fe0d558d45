//! The form that connects an account, or replaces the credentials of one: its fields are those that
//! the catalogue declares for the platform.

use axum::response::Response;
use http::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::view::{AccountList, AuthField, PlatformInfo, PlatformList, ShownAccount};
use console_kit::address;
use console_kit::failure::PageFailure;
use console_kit::flash::FlashMessage;
use console_kit::form::{FormData, FormView, SentForm};
use console_kit::service::ServiceProblem;
use console_kit::values;
use console_kit::visitor::{ConsoleVisitor, ServiceRequest};

/// Where the form is sent.
pub(super) const PATH: &str = "/console/accounts/connect";
/// The checkbox that lets another account of the platform take the name.
const REPLACE_FIELD: &str = "replace_identity";

/// The form as the page shows it.
pub(super) struct ConnectForm {
    pub(super) form: FormView,
    /// The platforms that are offered.
    pub(super) platforms: Vec<PlatformInfo>,
    /// Which of them the form is for.
    pub(super) platform: String,
    /// The account whose credentials are replaced; empty for a new one.
    pub(super) known: String,
    /// Whether the platform said that the credentials are another account's.
    pub(super) asks_replacement: bool,
    pub(super) token: String,
    pub(super) key: String,
}

impl ConnectForm {
    pub(super) fn new(
        visitor: &ConsoleVisitor,
        mut platforms: Vec<PlatformInfo>,
        known: Option<ShownAccount>,
        form: FormView,
    ) -> Self {
        platforms.retain(|platform| platform.offered);
        let asked = known.as_ref().map_or(form.value("platform"), |known| &known.platform);
        let is_asked = |one: &&PlatformInfo| one.platform == asked;
        let chosen = platforms.iter().find(is_asked).or(platforms.first());
        Self {
            platform: chosen.map(|one| one.platform.clone()).unwrap_or_default(),
            known: known.map(|known| known.creator_id).unwrap_or_default(),
            asks_replacement: !form.problem(REPLACE_FIELD).is_empty(),
            platforms,
            form,
            token: visitor.token(PATH),
            key: visitor.new_idempotency_key(),
        }
    }

    /// The fields of the chosen platform's credentials.
    pub(super) fn fields(&self) -> &[AuthField] {
        let chosen = self.platforms.iter().find(|one| one.platform == self.platform);
        chosen.map(|one| one.auth.as_slice()).unwrap_or_default()
    }
}

/// The account that the form names, if it is connected on the form's platform.
pub(super) async fn known(
    visitor: &ConsoleVisitor,
    list: &AccountList,
    form: &FormView,
) -> Option<ShownAccount> {
    let (name, platform) = (form.value("creator_id"), form.value("platform"));
    if name.is_empty() {
        return None;
    }
    let listed = list.accounts.iter().find(|account| account.creator_id == name).cloned();
    let found = match listed {
        Some(account) => Some(account),
        // It may be on another page of the list.
        None => visitor.try_get(&format!("/v1/accounts/{}", address::segment(name))).await.ok(),
    };
    found.filter(|account: &ShownAccount| platform.is_empty() || account.platform == platform)
}

/// The members of the response that the page needs.
#[derive(Deserialize)]
struct ConnectedAccount {
    #[serde(flatten)]
    account: ShownAccount,
    warnings: Vec<ConnectionWarning>,
}

#[derive(Deserialize)]
struct ConnectionWarning {
    detail: String,
}

pub(super) async fn connect(form: SentForm) -> Result<Response, PageFailure> {
    let SentForm { visitor, data } = form;
    let PlatformList { platforms } = visitor.get("/v1/platforms").await?;
    let platform = data.text("platform").to_owned();
    let chosen = platforms.into_iter().find(|one| one.platform == platform);
    let fields = chosen.map(|one| one.auth).unwrap_or_default();
    let secrets: Vec<String> =
        fields.iter().filter(|field| field.secret).map(AuthField::form_name).collect();
    let kept = data.clone().without(secrets.iter().map(String::as_str));
    let body = match body(&data, &fields) {
        Ok(body) => body,
        Err(field) => {
            let wrong = "Write each line as name: value.";
            let view = FormView::filled(kept).mark(&field, wrong);
            return super::page(&visitor, "", view).await;
        }
    };
    let about = ServiceRequest { idempotency_key: data.text("key"), ..ServiceRequest::default() };
    match visitor.send(&Method::POST, "/v1/connect/import", &body, &about).await {
        Ok(done) => {
            let done: ConnectedAccount = done.json().map_err(|problem| visitor.fail(problem))?;
            Ok(visitor.lead_to(super::PATH, &done.flash()))
        }
        Err(problem) => {
            let view = refused(kept, &fields, &problem);
            super::page(&visitor, "", view).await
        }
    }
}

/// The request of a form, or the field that cannot be read.
fn body(data: &FormData, fields: &[AuthField]) -> Result<Value, String> {
    let mut auth = Map::new();
    for field in fields {
        let name = field.form_name();
        let Some(text) = data.optional(&name) else { continue };
        let value = match field.r#type.as_str() {
            "timestamp" => json!(values::time(text)),
            "string_list" => values::words(text),
            "string_map" => values::members(text).ok_or(name)?,
            _ => json!(text),
        };
        auth.insert(field.name.clone(), value);
    }
    Ok(json!({
        "creator_id": data.text("creator_id"),
        "platform": data.text("platform"),
        "auth": auth,
        "replace_identity": data.is_ticked(REPLACE_FIELD),
    }))
}

/// What is wrong, in the words of the page.
fn refused(kept: FormData, fields: &[AuthField], problem: &ServiceProblem) -> FormView {
    let names: Vec<String> = fields.iter().map(AuthField::form_name).collect();
    let own: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), name.as_str())).collect();
    let platform = kept.text("platform").to_owned();
    let mut view = FormView::refused(kept, problem, &own);
    match problem.code.as_str() {
        "verification_failed" => {
            view.summary = match problem.members.get("platform_status") {
                Some(status) => format!(
                    "{platform} refused these credentials ({status}). Sign in there again and copy new ones."
                ),
                None => format!(
                    "{platform} says that these credentials belong to another account. Check the account's ID."
                ),
            };
            view
        }
        "other_identity" => view.mark(
            REPLACE_FIELD,
            "These credentials belong to a different account on the platform from the one connected under this name. Tick the box to replace it, or choose another name.",
        ),
        _ => view,
    }
}

impl ConnectedAccount {
    /// What the next page says.
    fn flash(&self) -> FlashMessage {
        let ShownAccount { creator_id: name, platform, .. } = &self.account;
        let warnings: Vec<String> =
            self.warnings.iter().map(|one| pages::plain::sentence(&one.detail)).collect();
        if self.account.lacks_slot() {
            return FlashMessage::warn(format!(
                "{name} is connected, but inactive: all {platform} slots are in use. Disconnect or switch off another account, or get a slot."
            ));
        }
        if self.account.is_switched_off() {
            return FlashMessage::warn(format!(
                "{name} has new credentials. It is still switched off."
            ));
        }
        if warnings.is_empty() {
            FlashMessage::ok(format!("{name} is connected. {platform} confirmed the credentials."))
        } else {
            FlashMessage::warn(format!("{name} is connected. {}", warnings.join(" ")))
        }
    }
}
