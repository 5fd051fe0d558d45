//! Webhook endpoints: where events are sent. One of them is where this simulator really sends its
//! events, as its settings say; the others are only kept.

use serde_json::{Value, json};

use super::api_call::ApiCall;
use super::delivery::WebhookEndpoint;
use super::fields::{at, list as items, set, text};
use super::form::FormParams;
use super::object_store::ObjectStore;
use super::problem::ApiError;
use super::{lists, render, versions};

/// The id of the endpoint to which events are really sent.
pub(super) const OWN: &str = "we_simulated";
/// The parameters of creating one.
pub(super) const PARAMS: &[&str] = &[
    "url",
    "enabled_events.*",
    "api_version",
    "connect",
    "description",
    "metadata?",
    "metadata.*?",
];
/// The parameters of a change.
pub(super) const UPDATE_PARAMS: &[&str] =
    &["url", "enabled_events.*", "disabled", "description", "metadata?", "metadata.*?"];
/// The most endpoints of an account.
const ENDPOINTS_MAX: usize = 16;
const KIND: &str = "webhook_endpoint";

pub(super) fn create(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let params = call.params;
    let url = checked_url(params.required("url")?)?.to_owned();
    let enabled = checked_events(params)?;
    if enabled.is_empty() {
        return Err(ApiError::param(
            "enabled_events",
            "You must pass enabled_events to create a webhook endpoint.",
        ));
    }
    let version = params.text("api_version").map(str::to_owned);
    if version.as_deref().is_some_and(|version| !versions::KNOWN.contains(&version)) {
        return Err(ApiError::param("api_version", "Invalid API version."));
    }
    if call.store.all(KIND).count() >= ENDPOINTS_MAX {
        return Err(ApiError::invalid(
            "You have reached the maximum of 16 test webhook endpoints.",
        ));
    }
    let metadata = render::metadata(params, "metadata", &Value::Null)?;
    let id = call.store.new_id("we");
    let secret = format!("whsec_{}", call.store.secret());
    call.store.put(json!({
        "id": id, "object": KIND, "api_version": version, "application": null, "created": call.store.now,
        "description": params.text("description"), "enabled_events": enabled, "livemode": false, "metadata": metadata,
        "status": "enabled", "url": url,
    }));
    let mut made = call.store.find(KIND, &id, "id")?.clone();
    set(&mut made, "secret", secret);
    Ok(made)
}

pub(super) fn update(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let (id, params) = (call.id(0), call.params);
    let before = call.store.find(KIND, &id, "id")?.clone();
    let enabled = checked_events(params)?;
    let url = params.text("url").map(checked_url).transpose()?.map(str::to_owned);
    let disabled = params.flag("disabled")?;
    let metadata = render::metadata(params, "metadata", at(&before, "metadata"))?;
    call.store.change(&id, |endpoint| {
        if !enabled.is_empty() {
            set(endpoint, "enabled_events", json!(enabled));
        }
        if let Some(url) = url {
            set(endpoint, "url", url);
        }
        if let Some(disabled) = disabled {
            set(endpoint, "status", if disabled { "disabled" } else { "enabled" });
        }
        if let Some(description) = params.text("description") {
            set(endpoint, "description", description);
        }
        set(endpoint, "metadata", metadata);
    });
    call.store.find(KIND, &id, "id").cloned()
}

pub(super) fn retrieve(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    call.store.find(KIND, &call.id(0), "id").cloned()
}

pub(super) fn delete(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = call.id(0);
    call.store.find(KIND, &id, "id")?;
    call.store.remove(&id);
    Ok(json!({"id": id, "object": KIND, "deleted": true}))
}

pub(super) fn list(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    lists::page(call, KIND, "/v1/webhook_endpoints", |_| true)
}

/// The mode of the key, and no money.
#[expect(clippy::unnecessary_wraps, reason = "all handlers have one type")]
pub(super) fn balance(_: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let nothing = json!([{"amount": 0, "currency": "usd", "source_types": {"card": 0}}]);
    Ok(json!({"object": "balance", "available": nothing, "livemode": false, "pending": nothing}))
}

/// Tax is set up.
#[expect(clippy::unnecessary_wraps, reason = "all handlers have one type")]
pub(super) fn tax_settings(_: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    Ok(json!({
        "object": "tax.settings", "defaults": {"provider": "stripe", "tax_behavior": null, "tax_code": "txcd_10000000"},
        "head_office": {"address": {"city": null, "country": "US", "line1": null, "line2": null, "postal_code": null, "state": null}},
        "livemode": false, "status": "active", "status_details": {"active": {}},
    }))
}

/// Keeps the endpoint to which events are really sent among the others.
pub(super) fn note_own(store: &mut ObjectStore, endpoint: &WebhookEndpoint) {
    let Some(url) = &endpoint.url else { return };
    let is_current = store.get(OWN).is_some_and(|known| {
        text(known, "url") == url
            && (text(known, "status") == "disabled"
                || *at(known, "enabled_events") == json!(endpoint.enabled))
    });
    if !is_current {
        store.put(json!({
            "id": OWN, "object": KIND, "api_version": endpoint.version, "application": null, "created": store.now,
            "description": null, "enabled_events": endpoint.enabled, "livemode": false, "metadata": {},
            "status": "enabled", "url": url,
        }));
    }
}

/// The types of events that go where events are really sent; nothing while that is switched off.
pub(super) fn sent_to_own(store: &ObjectStore) -> Option<Vec<String>> {
    let own = store.get(OWN)?;
    if text(own, "status") == "disabled" {
        return Some(Vec::new());
    }
    let all = items(own, "enabled_events").iter();
    Some(all.filter_map(Value::as_str).map(str::to_owned).collect())
}

fn checked_url(url: &str) -> Result<&str, ApiError> {
    if url.starts_with("https://") || url.starts_with("http://") {
        return Ok(url);
    }
    Err(ApiError::param("url", "Invalid URL: An explicit scheme (such as https) must be provided.")
        .code("url_invalid"))
}

fn checked_events(params: &FormParams) -> Result<Vec<String>, ApiError> {
    let names = params.names("enabled_events");
    let said = names.iter().filter_map(|name| params.text(&format!("enabled_events.{name}")));
    let mut enabled = Vec::new();
    for event in said {
        if event != "*" && !is_event(event) {
            let message = format!("Invalid enabled_events: {event} is not an event.");
            return Err(ApiError::param("enabled_events", message));
        }
        enabled.push(event.to_owned());
    }
    Ok(enabled)
}

/// Whether events of this type may exist: a family, and what happened to it.
fn is_event(kind: &str) -> bool {
    const FAMILIES: [&str; 30] = [
        "account",
        "application_fee",
        "balance",
        "billing",
        "billing_portal",
        "capability",
        "cash_balance",
        "charge",
        "checkout",
        "coupon",
        "credit_note",
        "customer",
        "entitlements",
        "file",
        "invoice",
        "invoice_payment",
        "invoiceitem",
        "mandate",
        "payment_intent",
        "payment_link",
        "payment_method",
        "payout",
        "plan",
        "price",
        "product",
        "promotion_code",
        "radar",
        "refund",
        "setup_intent",
        "subscription_schedule",
    ];
    let (family, what) = kind.split_once('.').unwrap_or((kind, ""));
    FAMILIES.contains(&family)
        && !what.is_empty()
        && what.bytes().all(|byte| byte.is_ascii_lowercase() || matches!(byte, b'_' | b'.'))
}
