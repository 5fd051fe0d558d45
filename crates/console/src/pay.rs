//! `/console/pay`: the page that the email about a payment to be confirmed links to. The customer
//! confirms it with the processor's script; the form that is then submitted reads the result.

use askama::Template;
use axum::Router;
use axum::extract::{Query, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use billing::charge::{self, ChargeState, PaymentStanding, RequiredAction};
use emails::pay_links;
use failures::Failure;
use failures::PaymentProblem;
use http::StatusCode;
use http::uri::Uri;
use store::orders::Order;
use web::error::ApiError;

use super::confirm::PageToken;
use super::page::{PageBrand, PageForm, show, show_with};
use crate::ConsoleState;

/// Where the processor's script is loaded from, and the other origins that it needs.
const PROCESSOR_SCRIPT_HOST: &str = "js.stripe.com";
const PROCESSOR_SCRIPTS: &str = "https://*.js.stripe.com";
const PROCESSOR_FRAMES: &str = "https://*.js.stripe.com https://hooks.stripe.com";

pub(super) fn router() -> Router<ConsoleState> {
    Router::new()
        .route("/console/pay", get(show_payment).post(confirm))
        .route("/console/pay.js", get(script))
}

/// The page. Exactly one of its parts is set.
#[derive(Template, Default)]
#[template(path = "console/pay.html")]
struct Page {
    brand: PageBrand,
    /// The bank requires the customer to confirm.
    open: Option<Open>,
    /// Paid: the credits granted.
    paid: Option<i64>,
    /// The payment is being processed.
    processing: bool,
    /// The bank declined: its reason.
    declined: Option<String>,
    /// There is nothing to confirm, or the link is invalid: the reason.
    refused: Option<&'static str>,
}

impl Page {
    /// A page of this service without any of its parts.
    fn of(console: &ConsoleState) -> Self {
        Self { brand: PageBrand::of(console), ..Self::default() }
    }
}

struct Open {
    token: String,
    amount: String,
    credits: i64,
    /// Such as `visa ending in 4242`.
    card: Option<String>,
    until: String,
    /// What the scripts need; `None` if they are not configured.
    script: Option<Script>,
    /// Whether an attempt to confirm it has just failed.
    is_again: bool,
}

struct Script {
    js_url: String,
    publishable_key: String,
    client_secret: String,
    payment_method: String,
}

/// Shows the payment to be confirmed, without changing anything.
async fn show_payment(
    State(console): State<ConsoleState>,
    Query(link): Query<PageToken>,
) -> Result<Response, ApiError> {
    let order = match pay_links::open(&console.emails, &link.token).await {
        Ok(order) => order,
        Err(error) => return refused_or(&console, error.into()),
    };
    match charge::look(&console.billing, &order).await {
        Ok(PaymentStanding::Waiting(action)) => {
            waiting(&console, link.token, &order, (action, false)).await
        }
        Ok(PaymentStanding::Processing) => {
            Ok(show(StatusCode::OK, &Page { processing: true, ..Page::of(&console) }))
        }
        Ok(PaymentStanding::Paid) => Ok(paid(&console, &order)),
        Ok(PaymentStanding::Over) => Ok(over(&console)),
        Err(error) => refused_or(&console, error.into()),
    }
}

/// Reads the result of the payment, and grants what was paid.
async fn confirm(
    State(console): State<ConsoleState>,
    PageForm(link): PageForm<PageToken>,
) -> Result<Response, ApiError> {
    let order = match pay_links::open(&console.emails, &link.token).await {
        Ok(order) => order,
        Err(error) => return refused_or(&console, error.into()),
    };
    match charge::confirm_order(&console.billing, &order).await {
        Ok(ChargeState::Paid(_)) => Ok(paid(&console, &order)),
        Ok(ChargeState::ActionRequired(action)) => {
            waiting(&console, link.token, &order, (action, true)).await
        }
        Ok(ChargeState::Processing { .. }) => {
            Ok(show(StatusCode::ACCEPTED, &Page { processing: true, ..Page::of(&console) }))
        }
        Err(Failure::Payment(PaymentProblem::Failed { decline_code })) => {
            let page = Page { declined: Some(decline_code), ..Page::of(&console) };
            Ok(show(StatusCode::PAYMENT_REQUIRED, &page))
        }
        Err(error) => refused_or(&console, error.into()),
    }
}

/// The script of the page, the same for every customer.
async fn script() -> impl IntoResponse {
    let headers =
        [(CONTENT_TYPE, "text/javascript; charset=utf-8"), (CACHE_CONTROL, "public, max-age=300")];
    (headers, include_str!("pay.js"))
}

async fn waiting(
    console: &ConsoleState,
    token: String,
    order: &Order,
    (action, is_again): (RequiredAction, bool),
) -> Result<Response, ApiError> {
    let saved = store::cards::find(&console.store, order.customer).await?;
    let saved = saved.filter(|card| Some(&card.payment_method) == action.payment_method.as_ref());
    let script = script_of(console, &action);
    let policy =
        script.as_ref().map(|script| policy(&script.js_url, &console.config.processor.base_url));
    let open = Open {
        token,
        amount: emails::amount(order.amount_cents, &order.currency.to_uppercase()),
        credits: order.credits.whole(),
        card: saved.map(|card| format!("{} ending in {}", card.brand, card.last4)),
        until: emails::time(action.until),
        script,
        is_again,
    };
    let page = Page { open: Some(open), ..Page::of(console) };
    Ok(match policy {
        Some(policy) => show_with(StatusCode::OK, &page, &policy),
        None => show(StatusCode::OK, &page),
    })
}

fn script_of(console: &ConsoleState, action: &RequiredAction) -> Option<Script> {
    let section = &console.config.processor;
    if section.js_url.is_empty() || section.publishable_key.is_empty() {
        return None;
    }
    Some(Script {
        js_url: section.js_url.clone(),
        publishable_key: section.publishable_key.clone(),
        client_secret: action.client_secret.expose().to_owned(),
        payment_method: action.payment_method.clone()?,
    })
}

/// Allows our script and the processor's to run, and the processor's to call the processor and show
/// the bank's page.
fn policy(js_url: &str, api_url: &str) -> String {
    let js = origin(js_url);
    let api = Some(origin(api_url)).filter(|api| *api != js).unwrap_or_default();
    let is_known = js.strip_prefix("https://") == Some(PROCESSOR_SCRIPT_HOST);
    let (scripts, frames) = if is_known { (PROCESSOR_SCRIPTS, PROCESSOR_FRAMES) } else { ("", "") };
    let sources = |all: &[&str]| {
        let given = all.iter().filter(|source| !source.is_empty());
        given.copied().collect::<Vec<_>>().join(" ")
    };
    format!(
        "default-src 'none'; style-src 'self'; img-src 'self'; script-src {}; connect-src {}; frame-src {}; form-action 'self'; \
         base-uri 'none'; frame-ancestors 'none'",
        sources(&["'self'", &js, scripts]),
        sources(&[&js, &api]),
        sources(&[&js, &api, frames]),
    )
}

/// Scheme, host and port of an address; empty if it has none.
fn origin(url: &str) -> String {
    let Ok(uri) = url.parse::<Uri>() else { return String::new() };
    match (uri.scheme_str(), uri.authority()) {
        (Some(scheme), Some(authority)) => {
            let host = authority.as_str().rsplit('@').next().unwrap_or_default();
            format!("{scheme}://{host}")
        }
        _ => String::new(),
    }
}

fn paid(console: &ConsoleState, order: &Order) -> Response {
    show(StatusCode::OK, &Page { paid: Some(order.credits.whole()), ..Page::of(console) })
}

fn over(console: &ConsoleState) -> Response {
    let reason =
        "This payment is no longer waiting: it was declined or cancelled. Nothing was charged.";
    show(StatusCode::GONE, &Page { refused: Some(reason), ..Page::of(console) })
}

fn refused_or(console: &ConsoleState, error: ApiError) -> Result<Response, ApiError> {
    let reason = match error {
        ApiError::Failure(Failure::UnknownLink) => {
            "This link is not known. Part of it may be missing: copy the whole link from the email. A link also stops \
             working when the email address of the account changes."
        }
        ApiError::Failure(Failure::LinkExpired) => {
            "This link has expired, and the payment was cancelled. Nothing was charged."
        }
        ApiError::Failure(Failure::Payment(
            PaymentProblem::Unavailable(_)
            | PaymentProblem::RateLimited { .. }
            | PaymentProblem::Unknown(_),
        )) => {
            "The payment processor cannot be reached at the moment. Reload this page in a minute."
        }
        other => return Err(other),
    };
    Ok(show(error.row().status, &Page { refused: Some(reason), ..Page::of(console) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policy_allows_only_the_processor() {
        assert_eq!(
            policy("https://js.stripe.com/v3/", "https://api.stripe.com"),
            "default-src 'none'; style-src 'self'; img-src 'self'; \
             script-src 'self' https://js.stripe.com https://*.js.stripe.com; \
             connect-src https://js.stripe.com https://api.stripe.com; \
             frame-src https://js.stripe.com https://api.stripe.com https://*.js.stripe.com \
             https://hooks.stripe.com; \
             form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
        );
        let here = "http://127.0.0.1:9000";
        let own = policy(&format!("{here}/processor/js"), here);
        let scripts = format!("script-src 'self' {here}; connect-src {here}; frame-src {here}; ");
        assert!(own.contains(&scripts), "{own}");
        assert!(!own.contains("stripe"), "{own}");
    }

    #[test]
    fn origin_has_no_path_and_no_user() {
        assert_eq!(origin("https://me@example.com:8443/x?y"), "https://example.com:8443");
        assert_eq!(origin("nothing; script-src *"), "");
    }
}
