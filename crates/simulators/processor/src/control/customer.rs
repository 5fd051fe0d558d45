//! The customer's actions on the pages, and the behaviour of their cards.

use serde_json::{Value, json};

use super::{ControlResult, attempt, money};
use crate::checkout::{self, CheckoutOutcome, EnteredDetails};
use crate::coupons::{self, CouponTerms, CouponValue};
use crate::fields::{at, text};
use crate::problem::ApiError;
use crate::{ProcessorSimulator, charges, customers, payment_methods, portal};

/// The expiry date of cards: (month, year).
const EXPIRES_MONTH: i64 = 12;
const EXPIRES_YEAR: i64 = 2034;

fn card(body: &Value) -> &str {
    if text(body, "card").is_empty() { "pm_card_visa" } else { text(body, "card") }
}

/// Pays a session with a `card`; before, the customer enters a `promotion_code`, a `country`, a
/// `name` and a `tax_id`. `percent_off`, `amount_off` or `coupon` discounts any session.
pub(super) fn pay(processor: &ProcessorSimulator, id: &str, body: &Value) -> ControlResult {
    if ["percent_off", "amount_off", "coupon"].iter().any(|name| body.get(name).is_some()) {
        attempt(processor, |store| {
            let coupon = money::coupon(store, body)?;
            checkout::use_coupon(store, id, &coupon)
        })?;
    }
    let entered = EnteredDetails {
        country: text(body, "country"),
        name: text(body, "name"),
        tax_id: text(body, "tax_id"),
        code: text(body, "promotion_code"),
    };
    attempt(processor, |store| checkout::enter(store, id, &entered))?;
    let proven = at(body, "authenticate").as_bool();
    let paid = processor.with_store(|store| {
        let method = payment_methods::from_number(store, card(body), EXPIRES_MONTH, EXPIRES_YEAR)?;
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
pub(super) fn cards(processor: &ProcessorSimulator, customer: &str, body: &Value) -> ControlResult {
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
pub(super) fn portal(
    processor: &ProcessorSimulator,
    customer: &str,
    body: &Value,
) -> ControlResult {
    attempt(processor, |store| {
        customers::live(store, customer, "id")?;
        let (month, year) = (EXPIRES_MONTH, EXPIRES_YEAR);
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

/// A new coupon with `percent_off` or `amount_off` for a `duration` (with `duration_in_months`).
pub(super) fn new_coupon(body: &Value) -> Result<CouponTerms, ApiError> {
    let off = match at(body, "amount_off").as_i64() {
        Some(cents) if cents > 0 => CouponValue::Cents(cents),
        Some(_) => return Err(ApiError::param("amount_off", "amount_off must be above 0")),
        None => {
            let percent = at(body, "percent_off").to_string();
            CouponValue::Percent(coupons::basis_points(&percent).ok_or_else(|| {
                let message =
                    "percent_off must be above 0 and at most 100, with two places at most";
                ApiError::param("percent_off", message)
            })?)
        }
    };
    let months = at(body, "duration_in_months").as_i64();
    let duration = match (text(body, "duration"), months) {
        ("" | "once", None) => "once",
        ("forever", None) => "forever",
        ("repeating", Some(1..)) => "repeating",
        _ => {
            let message = "duration must be once, forever, or repeating with duration_in_months";
            return Err(ApiError::param("duration", message));
        }
    };
    Ok(CouponTerms { off, duration, months })
}
