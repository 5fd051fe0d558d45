//! The customer's actions on the pages, and the behaviour of their cards.

use serde_json::{Value, json};

use super::{Outcome, attempt, money};
use crate::checkout::{self, CheckoutOutcome};
use crate::coupons;
use crate::fields::{at, text};
use crate::problem::ApiError;
use crate::{ProcessorSimulator, charges, customers, payment_methods, portal};

/// The expiry date of cards: (month, year).
const EXPIRES: (i64, i64) = (12, 2034);

fn card(body: &Value) -> &str {
    if text(body, "card").is_empty() { "pm_card_visa" } else { text(body, "card") }
}

/// Pays a session with a `card`; `percent_off` or `coupon` is a code that the customer enters
/// first.
pub(super) fn pay(processor: &ProcessorSimulator, id: &str, body: &Value) -> Outcome {
    if body.get("percent_off").is_some() || body.get("coupon").is_some() {
        attempt(processor, |store| {
            let coupon = money::coupon(store, body)?;
            checkout::use_coupon(store, id, &coupon)
        })?;
    }
    let proven = at(body, "authenticate").as_bool();
    let paid = processor.with_store(|store| {
        let method = payment_methods::from_number(store, card(body), EXPIRES)?;
        checkout::pay(store, id, &method, false)
    })?;
    if let CheckoutOutcome::Authenticate(page) = &paid {
        let Some(proven) = proven else {
            return Ok(json!({"status": "open", "authenticate": page}));
        };
        processor.with_store(|store| checkout::authenticated(store, page, proven))?;
    }
    let session = processor.with_store(|store| store.get(id).cloned()).unwrap_or_default();
    Ok(json!({
        "status": text(&session, "status"), "payment_status": text(&session, "payment_status"),
        "redirect": checkout::success_url(&session), "payment_intent": at(&session, "payment_intent"),
        "subscription": at(&session, "subscription"), "invoice": at(&session, "invoice"),
    }))
}

/// Makes charges of a `payment_method`, or of all present and future cards of the customer, be
/// declined with a `code` (`works` false) from now on, or be processed normally again (`works`
/// true).
pub(super) fn cards(processor: &ProcessorSimulator, customer: &str, body: &Value) -> Outcome {
    let works = at(body, "works")
        .as_bool()
        .ok_or_else(|| ApiError::param("works", "works must be true or false"))?;
    let code = if text(body, "code").is_empty() { "generic_decline" } else { text(body, "code") };
    attempt(processor, |store| {
        customers::live(store, customer, "id")?;
        let method = text(body, "payment_method");
        if !method.is_empty() {
            store.find("payment_method", method, "payment_method")?;
        }
        let object = if method.is_empty() { customer } else { method };
        charges::set_declines(store, object, (!works).then_some(code));
        Ok(json!({"ok": true}))
    })
}

/// Performs the customer's actions in the portal: saves another `card`, which pays from then on;
/// ends a subscription with its period (`cancel`), or keeps it (`resume`).
pub(super) fn portal(processor: &ProcessorSimulator, customer: &str, body: &Value) -> Outcome {
    attempt(processor, |store| {
        customers::live(store, customer, "id")?;
        let (month, year) = EXPIRES;
        let mut actions = Vec::new();
        if body.get("card").is_some() {
            actions.push(portal::PortalAction::AddCard { number: card(body), month, year });
        }
        if body.get("cancel").is_some() {
            actions.push(portal::PortalAction::Cancel(text(body, "cancel")));
        }
        if body.get("resume").is_some() {
            actions.push(portal::PortalAction::Resume(text(body, "resume")));
        }
        if actions.is_empty() {
            return Err(ApiError::param("card", "one of card, cancel or resume is required"));
        }
        for action in &actions {
            portal::act(store, customer, action)?;
        }
        let path = "invoice_settings.default_payment_method";
        let method = store.get(customer).map(|customer| at(customer, path).clone());
        Ok(json!({"default_payment_method": method}))
    })
}

/// The coupon of a request: an existing one, or a new one with `percent_off` for a `duration`.
pub(super) fn new_coupon(body: &Value) -> Result<(i64, &str), ApiError> {
    let percent = at(body, "percent_off").to_string();
    let bp = coupons::basis_points(&percent).ok_or_else(|| {
        let message = "percent_off must be above 0 and at most 100, with two places at most";
        ApiError::param("percent_off", message)
    })?;
    match text(body, "duration") {
        "" | "once" => Ok((bp, "once")),
        "forever" => Ok((bp, "forever")),
        _ => Err(ApiError::param("duration", "duration must be once or forever")),
    }
}
