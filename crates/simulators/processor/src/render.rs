//! Renders objects: without internal fields, with requested expansions, in the format of a version.

use serde_json::{Value, json};

use super::fields::{at, list, set, text};
use super::object_store::ObjectStore;
use super::problem::ApiError;

const DEPTH_MAX: usize = 4;

/// An object in today's format.
pub(crate) fn whole(store: &ObjectStore, object: &Value) -> Value {
    let mut shown = object.clone();
    strip(&mut shown);
    dress(store, &mut shown);
    shown
}

/// A response with the expansions in `expand`.
pub(crate) fn answer(
    store: &ObjectStore,
    body: &Value,
    expand: &[String],
) -> Result<Value, ApiError> {
    let mut shown = whole(store, body);
    for path in expand {
        let parts: Vec<&str> = path.split('.').collect();
        if parts.iter().filter(|part| **part != "data").count() > DEPTH_MAX {
            let message =
                format!("You cannot expand more than {DEPTH_MAX} levels of a property: {path}");
            return Err(ApiError::param("expand", message));
        }
        open(store, &mut shown, &parts, path)?;
    }
    Ok(shown)
}

/// Removes internal fields.
fn strip(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.remove("_");
            map.values_mut().for_each(strip);
        }
        Value::Array(all) => all.iter_mut().for_each(strip),
        _ => {}
    }
}

/// Fills in the fields that depend on the service's address.
fn dress(store: &ObjectStore, shown: &mut Value) {
    match text(shown, "object") {
        "list" | "search_result" => {
            if let Some(Value::Array(data)) = shown.get_mut("data") {
                for one in data {
                    dress(store, one);
                }
            }
        }
        "checkout.session" => {
            let url = (text(shown, "status") == "open")
                .then(|| format!("{}/processor/checkout/{}", store.base, text(shown, "id")));
            set(shown, "url", json!(url));
        }
        "invoice" => {
            let (shown_lines, all) = (super::rules::lines_shown(store), list(shown, "lines.data"));
            let shown_url = format!("{}/processor/invoices/{}", store.base, text(shown, "id"));
            let first = all.get(..shown_lines).filter(|_| all.len() > shown_lines);
            if let Some(first) = first.map(<[Value]>::to_vec) {
                set(shown, "lines.data", first);
                set(shown, "lines.has_more", true);
            }
            if text(shown, "status") != "draft" {
                set(shown, "invoice_pdf", format!("{shown_url}/pdf"));
                set(shown, "hosted_invoice_url", shown_url);
            }
        }
        // It belongs to its customer and has no id of its own.
        "cash_balance" => drop(shown.as_object_mut().and_then(|map| map.remove("id"))),
        "charge" if at(shown, "paid") == true => {
            let url = format!("{}/processor/receipts/{}", store.base, text(shown, "id"));
            set(shown, "receipt_url", url);
        }
        "payment_intent" if !at(shown, "next_action").is_null() => {
            let page = format!("{}/processor/authenticate/{}", store.base, text(shown, "id"));
            if text(shown, "next_action.type") == "redirect_to_url" {
                set(shown, "next_action.redirect_to_url.url", page);
            } else {
                set(shown, "next_action.use_stripe_sdk.stripe_js", page);
            }
        }
        _ => {}
    }
}

fn open(
    store: &ObjectStore,
    shown: &mut Value,
    parts: &[&str],
    path: &str,
) -> Result<(), ApiError> {
    let Some((first, rest)) = parts.split_first() else { return Ok(()) };
    if let Value::Array(all) = shown {
        return all.iter_mut().try_for_each(|one| open(store, one, parts, path));
    }
    add_on_demand(store, shown, first);
    let object = text(shown, "object").to_owned();
    let Some(inner) = shown.get_mut(*first) else {
        let message = format!(
            "This property cannot be expanded ({path}). You may want to try expanding another property of {object}."
        );
        return Err(ApiError::param("expand", message));
    };
    if let Value::Array(all) = &mut *inner
        && rest.is_empty()
        && all.iter().all(Value::is_string)
    {
        return all.iter_mut().try_for_each(|id| replace_id(store, id, path));
    }
    if inner.is_string() {
        replace_id(store, inner, path)?;
    } else if rest.is_empty() && !(inner.is_null() || inner.is_object()) {
        return Err(ApiError::param(
            "expand",
            format!("This property cannot be expanded ({path})."),
        ));
    }
    if inner.is_null() { Ok(()) } else { open(store, inner, rest, path) }
}

/// Replaces an id by its object.
fn replace_id(store: &ObjectStore, id: &mut Value, path: &str) -> Result<(), ApiError> {
    let found = id.as_str().and_then(|id| store.get(id));
    let refuse =
        || ApiError::param("expand", format!("This property cannot be expanded ({path})."));
    *id = whole(store, found.ok_or_else(refuse)?);
    Ok(())
}

/// Adds lists and secrets that objects include only on request.
fn add_on_demand(store: &ObjectStore, shown: &mut Value, name: &str) {
    let id = text(shown, "id").to_owned();
    let stored = store.get(&id);
    let hidden = |path: &str| stored.map_or(Value::Null, |stored| at(stored, path).clone());
    let url = |rest: &str| format!("/v1/{rest}");
    match (text(shown, "object"), name) {
        ("checkout.session", "line_items") => {
            let lines = list_of(
                hidden("_.line_items"),
                &url(&format!("checkout/sessions/{id}/line_items")),
            );
            set(shown, "line_items", lines);
        }
        ("invoice", "payments") => {
            let of_invoice =
                store.all("invoice_payment").filter(|payment| text(payment, "invoice") == id);
            let all: Vec<Value> = of_invoice.map(|payment| whole(store, payment)).collect();
            set(
                shown,
                "payments",
                list_of(Value::Array(all), &url(&format!("invoices/{id}/payments"))),
            );
        }
        ("invoice", "confirmation_secret") => {
            let intent =
                store.all("invoice_payment").rfind(|payment| text(payment, "invoice") == id);
            let intent =
                intent.and_then(|payment| store.get(text(payment, "payment.payment_intent")));
            let secret = intent.map(|intent| json!({"client_secret": text(intent, "client_secret"), "type": "payment_intent"}));
            set(shown, "confirmation_secret", json!(secret));
        }
        ("customer", "subscriptions") => {
            let of_customer = store
                .all("subscription")
                .rev()
                .filter(|subscription| text(subscription, "customer") == id);
            let live =
                of_customer.filter(|subscription| text(subscription, "status") != "canceled");
            let all: Vec<Value> = live.map(|subscription| whole(store, subscription)).collect();
            set(
                shown,
                "subscriptions",
                list_of(Value::Array(all), &url(&format!("customers/{id}/subscriptions"))),
            );
        }
        ("charge", "refunds") => {
            let of_charge = store.all("refund").rev().filter(|refund| text(refund, "charge") == id);
            let all: Vec<Value> = of_charge.map(|refund| whole(store, refund)).collect();
            set(
                shown,
                "refunds",
                list_of(Value::Array(all), &url(&format!("charges/{id}/refunds"))),
            );
        }
        _ => {}
    }
}

/// A list of all objects.
pub(crate) fn list_of(data: Value, url: &str) -> Value {
    let mut shown = data;
    strip(&mut shown);
    let count = shown.as_array().map_or(0, Vec::len);
    json!({"object": "list", "data": shown, "has_more": false, "total_count": count, "url": url})
}

/// Merges a request's metadata into the existing metadata: an empty value removes a key.
pub(super) fn metadata(
    params: &super::form::FormParams,
    path: &str,
    before: &Value,
) -> Result<Value, ApiError> {
    let mut merged = before.as_object().cloned().unwrap_or_default();
    if params.text(path) == Some("") {
        merged.clear();
    }
    for key in params.names(path) {
        let value = params.text_below(path, &key).unwrap_or_default();
        let shown = super::form::name(&format!("{path}.{key}"));
        if key.chars().count() > 40 {
            return Err(ApiError::param(&shown, "Metadata keys can only be up to 40 characters."));
        }
        if value.chars().count() > 500 {
            return Err(ApiError::param(&shown, "Metadata values can have up to 500 characters."));
        }
        if value.is_empty() {
            merged.remove(&key);
        } else {
            merged.insert(key, json!(value));
        }
    }
    if merged.len() > 50 {
        return Err(ApiError::param(path, "Metadata can have up to 50 keys."));
    }
    Ok(Value::Object(merged))
}
