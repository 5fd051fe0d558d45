//! Reversals, coupons, and the operator's rules.

use serde_json::{Value, json};

use super::customer::new_coupon;
use super::{ControlResult, attempt};
use crate::api_call::{ApiCall, ApiCaller};
use crate::disputes::DisputeStart;
use crate::fields::{at, flag, text};
use crate::form::FormParams;
use crate::object_store::ObjectStore;
use crate::problem::ApiError;
use crate::{ProcessorSimulator, coupons, disputes, events, refunds, rules};

/// The coupon in a request: an existing or a new one.
pub(super) fn coupon(store: &mut ObjectStore, body: &Value) -> Result<String, ApiError> {
    if let Some(id) = at(body, "coupon").as_str() {
        return store.find("coupon", id, "coupon").map(|_| id.to_owned());
    }
    Ok(coupons::make(store, None, &new_coupon(body)?))
}

/// Sets a coupon for the next checkout session.
pub(super) fn next_coupon(processor: &ProcessorSimulator, body: &Value) -> ControlResult {
    attempt(processor, |store| {
        let coupon = coupon(store, body)?;
        rules::set_next_coupon(store, &coupon);
        Ok(json!({"coupon": coupon}))
    })
}

/// Sets the operator's rules: tax, retries of unpaid invoices and more.
pub(super) fn rules(processor: &ProcessorSimulator, body: &Value) -> ControlResult {
    attempt(processor, |store| {
        rules::apply(store, body)?;
        Ok(rules::shown(store))
    })
}

/// The charge of a `charge`, a `payment_intent` or an `invoice`.
fn charge(store: &ObjectStore, body: &Value) -> Option<String> {
    let of_intent = |intent: &str| store.get(intent).map(|it| text(it, "latest_charge").to_owned());
    let of_invoice = |invoice: &str| {
        let payment =
            store.all("invoice_payment").rfind(|payment| text(payment, "invoice") == invoice)?;
        of_intent(text(payment, "payment.payment_intent"))
    };
    let given = |name: &str| at(body, name).as_str();
    let found = match (given("charge"), given("payment_intent"), given("invoice")) {
        (Some(charge), _, _) => Some(charge.to_owned()),
        (None, Some(intent), _) => of_intent(intent),
        (None, None, Some(invoice)) => of_invoice(invoice),
        (None, None, None) => None,
    };
    found.filter(|id| store.get(id).is_some_and(|it| text(it, "status") == "succeeded"))
}

fn no_charge() -> ApiError {
    let message = "no successful charge; name one by charge, payment_intent or invoice";
    ApiError::param("charge", message)
}

/// Refunds a charge, as the merchant does: `amount` cents, or all that is left.
pub(super) fn refund(processor: &ProcessorSimulator, body: &Value) -> ControlResult {
    attempt(processor, |store| {
        let charge = charge(store, body).ok_or_else(no_charge)?;
        let amount = at(body, "amount").as_i64().map(|cents| format!("&amount={cents}"));
        let params = FormParams::parse(&format!("charge={charge}{}", amount.unwrap_or_default()));
        let mut call = ApiCall {
            store,
            params: &params,
            ids: Vec::new(),
            caller: ApiCaller::Server,
            version: events::VERSION,
        };
        refunds::create(&mut call)
    })
}

/// Makes a refund succeed (`succeeded` true) or fail, for a `reason`.
pub(super) fn settle_refund(
    processor: &ProcessorSimulator,
    id: &str,
    body: &Value,
) -> ControlResult {
    let succeeded = at(body, "succeeded")
        .as_bool()
        .ok_or_else(|| ApiError::param("succeeded", "succeeded must be true or false"))?;
    let reason = if text(body, "reason").is_empty() { "declined" } else { text(body, "reason") };
    attempt(processor, |store| {
        let id = latest(store, "refund", id);
        refunds::settle(store, &id, if succeeded { Ok(()) } else { Err(reason) })
    })
}

/// Opens a bank's dispute about a charge, for a `reason`; with `inquiry` no money moves at first.
pub(super) fn dispute(processor: &ProcessorSimulator, body: &Value) -> ControlResult {
    let reason = if text(body, "reason").is_empty() { "fraudulent" } else { text(body, "reason") };
    attempt(processor, |store| {
        let charge = charge(store, body).ok_or_else(no_charge)?;
        let start =
            if flag(body, "inquiry") { DisputeStart::Inquiry } else { DisputeStart::Chargeback };
        let id = disputes::open(store, &charge, reason, start).ok_or_else(no_charge)?;
        store.find("dispute", &id, "id").cloned()
    })
}

/// Lets a card network warn that a charge may be fraudulent; no money moves.
pub(super) fn warning(processor: &ProcessorSimulator, body: &Value) -> ControlResult {
    attempt(processor, |store| {
        let charge = charge(store, body).ok_or_else(no_charge)?;
        let id = disputes::warn(store, &charge).ok_or_else(no_charge)?;
        store.find("radar.early_fraud_warning", &id, "id").cloned()
    })
}

/// Decides a dispute: `won`.
pub(super) fn close_dispute(
    processor: &ProcessorSimulator,
    id: &str,
    body: &Value,
) -> ControlResult {
    let won = at(body, "won")
        .as_bool()
        .ok_or_else(|| ApiError::param("won", "won must be true or false"))?;
    attempt(processor, |store| {
        let id = latest(store, "dispute", id);
        disputes::decide(store, &id, won)
    })
}

/// The object of this kind with this id, or the latest one of the charge, intent or invoice with
/// this id.
fn latest(store: &ObjectStore, kind: &str, id: &str) -> String {
    if store.get(id).is_some_and(|object| text(object, "object") == kind) {
        return id.to_owned();
    }
    let names = ["charge", "payment_intent", "invoice"];
    let charges: Vec<String> =
        names.into_iter().filter_map(|name| charge(store, &json!({name: id}))).collect();
    let of_charge = store.all(kind).rfind(|it| charges.iter().any(|one| one == text(it, "charge")));
    of_charge.map_or_else(|| id.to_owned(), |object| text(object, "id").to_owned())
}
