//! Sending a call from its form, and the same call as code.

use axum::body::Body;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, Uri};
use serde::de::IgnoredAny;

use super::CallAttempt;
use super::reply::CallReply;
use super::routes::{self, PlatformRoute};
use crate::examples::CodeExample;
use crate::paying_keys;
use console_kit::address;
use console_kit::failure::PageFailure;
use console_kit::form::{FormData, FormView};
use console_kit::service;
use console_kit::visitor::ConsoleVisitor;

/// Sends the call of a form, or returns the form with what is wrong. Nothing that the form says
/// leads out of the account's native paths: values are percent-encoded into the route's own path.
pub(super) async fn send(
    visitor: &ConsoleVisitor,
    route: &PlatformRoute,
    data: FormData,
) -> Result<CallAttempt, PageFailure> {
    let path = match checked(route, &data) {
        Ok(path) => path,
        Err(form) => return Ok(CallAttempt { form, reply: None }),
    };
    let form = FormView::filled(data.clone().without(["agree"]));
    let Some(key) = paying_keys::chosen(data.text("key_id")) else {
        let form = form.mark("key_id", "Choose the key that pays.");
        return Ok(CallAttempt { form, reply: None });
    };
    let account = address::segment(data.text("account"));
    let query = routes::query(data.text("query"));
    let Ok(address) = format!("/v1/{account}/native/{path}{query}").parse::<Uri>() else {
        let form = form.mark("query", "This can't be part of an address.");
        return Ok(CallAttempt { form, reply: None });
    };
    let method: Method = route.method.parse().unwrap_or(Method::GET);
    let body = data.optional("body").filter(|_| route.is_write()).map(str::to_owned);
    let has_body = body.is_some();
    let mut request = service::request(&method, "/", Body::from(body.unwrap_or_default()));
    *request.uri_mut() = address;
    if has_body {
        let json = HeaderValue::from_static("application/json");
        request.headers_mut().insert(CONTENT_TYPE, json);
    }
    if route.is_write()
        && let Ok(once) = HeaderValue::try_from(data.text("key"))
    {
        request.headers_mut().insert("idempotency-key", once);
    }
    match visitor.relay(request, Some(key)).await {
        Ok(response) => {
            let reply = CallReply::read(response, visitor.request_id(), !route.is_write()).await;
            Ok(CallAttempt { form, reply: Some(reply) })
        }
        Err(problem) if problem.code == "key_not_found" => {
            Ok(CallAttempt { form: form.mark("key_id", "Choose one of your keys."), reply: None })
        }
        Err(problem) => Err(visitor.fail(problem)),
    }
}

/// The path of the call, or the form with what is wrong.
fn checked(route: &PlatformRoute, data: &FormData) -> Result<String, FormView> {
    let path = route.filled(data);
    let mut form = path.as_ref().err().cloned().unwrap_or_else(|| FormView::filled(data.clone()));
    if route.is_write() && !data.is_ticked("agree") {
        form = form.mark("agree", "Tick the box to send a call that changes data.");
    }
    if let Some(body) = data.optional("body")
        && route.is_write()
        && let Err(error) = serde_json::from_str::<IgnoredAny>(body)
    {
        form = form.mark("body", format!("This isn't JSON: {error}."));
    }
    if form.summary.is_empty() { path } else { Err(form) }
}

/// The call as code. Values that are missing stay names in braces.
pub(super) fn example(
    base: &str,
    account: &str,
    route: &PlatformRoute,
    form: &FormView,
) -> CodeExample {
    let mut path = route.path.clone();
    for parameter in route.parameters() {
        let value = form.value(&routes::field_of(&parameter.name)).trim();
        if !value.is_empty() {
            let kept = if parameter.spans { "/" } else { "" };
            let named = [format!("{{{}}}", parameter.name), format!("{{{}*}}", parameter.name)];
            for placeholder in &named {
                path = path.replace(placeholder, &address::encoded(value, kept));
            }
        }
    }
    let body = form.value("body").trim();
    let is_body = route.is_write() && !body.is_empty();
    CodeExample {
        method: route.method.clone(),
        url: format!("{base}/v1/{account}/native/{path}{}", routes::query(form.value("query"))),
        body: is_body.then(|| body.to_owned()),
        file: None,
    }
}

/// How a file is uploaded.
pub(super) fn upload(base: &str, account: &str) -> String {
    format!(
        "curl '{base}/v1/{account}/media/upload' \\\n  -H \"X-API-Key: $CGW_KEY\" \\\n  -H \"Idempotency-Key: $(uuidgen)\" \\\n  -F file=@picture.jpg"
    )
}
