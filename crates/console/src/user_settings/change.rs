//! The forms of the settings.

use axum::Router;
use axum::response::Response;
use axum::routing::post;
use http::Method;
use serde_json::{Value, json};

use super::notices;
use super::{PATH, SettingsForms, page};
use console_kit::ConsoleState;
use console_kit::failure::PageFailure;
use console_kit::flash::FlashMessage;
use console_kit::form::{FormData, FormView, SentForm};
use console_kit::visitor::{ConsoleVisitor, ServiceRequest};
use pages::plain::sentence;

pub(super) fn router() -> Router<ConsoleState> {
    Router::new()
        .route("/console/settings/name", post(rename))
        .route("/console/settings/email", post(change_email))
        .route("/console/settings/password", post(change_password))
        .route("/console/settings/support", post(set_support))
        .route("/console/settings/notices", post(set_notices))
}

async fn rename(form: SentForm) -> Result<Response, PageFailure> {
    let SentForm { visitor, data } = form;
    let body = json!({ "name": data.text("name") });
    match patch(&visitor, "/v1/auth/me", &body).await {
        Ok(()) => Ok(visitor.lead_to(PATH, &FlashMessage::ok("Your name is saved."))),
        Err(problem) => {
            let name = Some(FormView::refused(data, &problem, &[]));
            page(&visitor, SettingsForms { name, ..SettingsForms::default() }).await
        }
    }
}

async fn patch(
    visitor: &ConsoleVisitor,
    path: &str,
    body: &Value,
) -> Result<(), console_kit::service::ServiceProblem> {
    visitor.send(&Method::PATCH, path, body, &ServiceRequest::default()).await.map(drop)
}

async fn change_email(form: SentForm) -> Result<Response, PageFailure> {
    let SentForm { visitor, data } = form;
    let body =
        json!({ "email": data.text("email"), "current_password": data.raw("current_password") });
    match patch(&visitor, "/v1/auth/me", &body).await {
        Ok(()) => {
            let text = format!(
                "We’ve sent a link to {}. The new address takes effect once you follow it.",
                data.text("email")
            );
            Ok(visitor.lead_to(PATH, &FlashMessage::ok(text)))
        }
        Err(problem) => {
            let kept = FormData::default().with("email", data.text("email"));
            let view = FormView::refused(kept, &problem, &[]);
            let view = if problem.code == "email_taken" {
                view.mark("email", "This address belongs to another customer.")
            } else {
                wrong_password(view, &problem.code)
            };
            page(&visitor, SettingsForms { email: Some(view), ..SettingsForms::default() }).await
        }
    }
}

/// Marks the password if it was wrong.
fn wrong_password(view: FormView, code: &str) -> FormView {
    if code == "wrong_credentials" || code == "wrong_password" {
        view.mark("current_password", "This isn’t your password.")
    } else {
        view
    }
}

/// Changes the password. The browser gets the new session.
async fn change_password(form: SentForm) -> Result<Response, PageFailure> {
    let SentForm { visitor, data } = form;
    let body = json!({
        "current_password": data.raw("old_password"),
        "new_password": data.raw("new_password"),
    });
    let about = ServiceRequest::default();
    match visitor.send(&Method::POST, "/v1/auth/password", &body, &about).await {
        Ok(done) => {
            let flash =
                FlashMessage::ok("Your password is changed. All other browsers are signed out.");
            Ok(visitor.lead_on_with(&done, PATH, &flash).await)
        }
        Err(problem) => {
            let renamed = [("current_password", "old_password")];
            let view = FormView::refused(FormData::default(), &problem, &renamed);
            let view = if matches!(problem.code.as_str(), "wrong_credentials" | "wrong_password") {
                view.mark("old_password", "This isn’t your password.")
            } else {
                view
            };
            page(&visitor, SettingsForms { password: Some(view), ..SettingsForms::default() }).await
        }
    }
}

async fn set_support(form: SentForm) -> Result<Response, PageFailure> {
    let SentForm { visitor, data } = form;
    let is_on = data.text("enabled") == "true";
    let hours = data.text("hours").parse::<i64>();
    let body = if is_on {
        let Ok(hours) = hours else {
            let flash = FlashMessage::bad("Choose for how many hours. Nothing was changed.");
            return Ok(visitor.lead_to("/console/settings#support", &flash));
        };
        json!({ "enabled": true, "expires_in_hours": hours })
    } else {
        json!({ "enabled": false })
    };
    let about = ServiceRequest::default();
    let flash = match visitor.send(&Method::POST, "/v1/support-access", &body, &about).await {
        Ok(_) if is_on => {
            FlashMessage::ok("Support can look at your calls, exports and usage now.")
        }
        Ok(_) => FlashMessage::ok("Support access has ended."),
        Err(problem) => FlashMessage::bad(sentence(&problem.detail)),
    };
    Ok(visitor.lead_to("/console/settings#support", &flash))
}

async fn set_notices(form: SentForm) -> Result<Response, PageFailure> {
    let SentForm { visitor, data } = form;
    let known = visitor.get("/v1/notices").await?;
    match patch(&visitor, "/v1/notices", &notices::patch_of(&data, &known)).await {
        Ok(()) => Ok(visitor.lead_to(PATH, &FlashMessage::ok("Your choice of emails is saved."))),
        Err(problem) => {
            let notices = Some(FormView::refused(data, &problem, &[]));
            page(&visitor, SettingsForms { notices, ..SettingsForms::default() }).await
        }
    }
}
