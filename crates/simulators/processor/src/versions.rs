//! Formats of older versions. The store has today's; fields that moved are put back where an older
//! version had them.

use serde_json::{Value, json};

use super::fields::{at, list, set, text, whole};
use super::form::FormParams;
use super::object_store::ObjectStore;
use super::problem::ApiError;

/// Versions that requests may name, oldest first; the second and later ones have today's format.
pub(super) const KNOWN: [&str; 9] = [
    "2024-06-20",
    "2024-12-18.acacia",
    "2025-02-24.acacia",
    "2025-03-31.basil",
    "2025-06-30.basil",
    "2025-09-30.clover",
    "2026-03-25.dahlia",
    "2026-04-22.dahlia",
    "2026-06-24.dahlia",
];

/// Whether a version has the format from before the end of March 2025.
fn is_old(version: &str) -> bool {
    version < "2025-03-31"
}

/// Whether requests in this version name the coupon of a customer or a promotion code as `coupon`,
/// as they did until the end of September 2025.
pub(super) fn names_coupons(version: &str) -> bool {
    version < "2025-09-30"
}

/// Refuses a parameter that the version of the request does not know.
pub(super) fn refuse_unknown(params: &FormParams, name: &str) -> Result<(), ApiError> {
    if params.has(name) {
        let message = format!("Received unknown parameter: {name}");
        return Err(ApiError::param(name, message).code("parameter_unknown"));
    }
    Ok(())
}

/// Converts a response, with all objects in it, to the format of a version.
pub(super) fn shape(store: &ObjectStore, value: &mut Value, version: &str) {
    if is_old(version) {
        put_back(store, value);
    }
}

fn put_back(store: &ObjectStore, value: &mut Value) {
    match value {
        Value::Array(all) => all.iter_mut().for_each(|one| put_back(store, one)),
        Value::Object(map) => {
            map.values_mut().for_each(|inner| put_back(store, inner));
            match text(value, "object") {
                "subscription" => subscription(value),
                "invoice" => invoice(store, value),
                "payment_intent" | "charge" => intent(store, value),
                _ => {}
            }
        }
        _ => {}
    }
}

fn subscription(value: &mut Value) {
    let first = at(value, "items.data.0").clone();
    for name in ["current_period_start", "current_period_end"] {
        set(value, name, at(&first, name).clone());
    }
    let mut items = list(value, "items.data").to_vec();
    for item in items.iter_mut().filter_map(Value::as_object_mut) {
        item.remove("current_period_start");
        item.remove("current_period_end");
    }
    set(value, "items.data", Value::Array(items));
    if let Some(map) = value.as_object_mut() {
        map.remove("billing_mode");
    }
}

fn invoice(store: &ObjectStore, value: &mut Value) {
    let subscription = at(value, "parent.subscription_details.subscription").clone();
    let metadata = at(value, "parent.subscription_details.metadata").clone();
    let id = text(value, "id").to_owned();
    let payment = store.all("invoice_payment").rfind(|payment| text(payment, "invoice") == id);
    let intent =
        payment.map(|payment| at(payment, "payment.payment_intent").clone()).unwrap_or_default();
    let charge = intent
        .as_str()
        .and_then(|intent| store.get(intent))
        .map(|intent| at(intent, "latest_charge").clone());
    let paid = text(value, "status") == "paid";
    set(value, "subscription", subscription);
    set(value, "subscription_details", json!({"metadata": metadata}));
    set(value, "payment_intent", intent);
    set(value, "charge", charge.unwrap_or_default());
    set(value, "paid", paid);
    let tax = whole(value, "total") - whole(value, "total_excluding_tax");
    set(value, "tax", tax);
    if let Some(map) = value.as_object_mut() {
        map.remove("parent");
        map.remove("payments");
        map.remove("confirmation_secret");
    }
}

fn intent(store: &ObjectStore, value: &mut Value) {
    let id = if text(value, "object") == "charge" {
        text(value, "payment_intent")
    } else {
        text(value, "id")
    };
    let invoice = store.get(id).map(|intent| at(intent, "_.invoice").clone()).unwrap_or_default();
    set(value, "invoice", invoice);
}
