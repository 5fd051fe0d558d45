//! Requests that read and cancel subscriptions.

use serde_json::Value;

use super::change::SubscriptionChange;
use super::cycle::{settle, stop_tries};
use super::prorate::lines;
use super::state::{end, is_over};
use crate::api_call::ApiCall;
use crate::fields::{list as items, text};
use crate::problem::ApiError;
use crate::{invoices, lists};

/// The parameters of cancelling.
pub(crate) const CANCEL_PARAMS: &[&str] =
    &["invoice_now", "prorate", "cancellation_details.comment", "cancellation_details.feedback"];

pub(crate) fn retrieve(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = call.id(0);
    call.store.find("subscription", &id, "id").cloned()
}

pub(crate) fn list(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let params = call.params;
    let (customer, price) = (params.text("customer"), params.text("price"));
    let words = [
        "active",
        "all",
        "canceled",
        "ended",
        "incomplete",
        "incomplete_expired",
        "past_due",
        "paused",
        "trialing",
        "unpaid",
    ];
    let status = params.one_of("status", &words)?;
    lists::page(call, "subscription", "/v1/subscriptions", |subscription| {
        let is = text(subscription, "status");
        let fits = match status {
            // By default, ended subscriptions are not listed.
            None => is != "canceled" && is != "incomplete_expired",
            Some("all") => true,
            Some("ended") => is == "canceled" || is == "incomplete_expired",
            Some(wanted) => is == wanted,
        };
        fits && customer.is_none_or(|customer| text(subscription, "customer") == customer)
            && price.is_none_or(|price| {
                items(subscription, "items.data").iter().any(|item| text(item, "price.id") == price)
            })
    })
}

pub(crate) fn cancel(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = call.id(0);
    let found = call.store.find("subscription", &id, "id")?.clone();
    if is_over(&found) {
        return Err(ApiError::no_such("subscription", &id, "id"));
    }
    let (prorates, at_once) = (
        call.params.flag("prorate")?.unwrap_or(false),
        call.params.flag("invoice_now")?.unwrap_or(false),
    );
    if prorates {
        let none = SubscriptionChange {
            items: Vec::new(),
            proration: "create_prorations",
            date: call.store.now,
            restarts: false,
        };
        let lines = lines(call.store, &found, &none);
        invoices::add_pending(call.store, text(&found, "customer"), &id, lines);
    }
    if at_once {
        settle(call.store, &id, "manual");
    }
    end(call.store, &id);
    stop_tries(call.store, &id);
    call.store.find("subscription", &id, "id").cloned()
}

pub(crate) fn list_items(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = call.params.required("subscription")?;
    let found = call.store.find("subscription", id, "subscription")?.clone();
    let all: Vec<&Value> = items(&found, "items.data").iter().collect();
    lists::of(call, &all, "/v1/subscription_items")
}

pub(crate) fn retrieve_item(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = call.id(0);
    let all =
        call.store.all("subscription").flat_map(|subscription| items(subscription, "items.data"));
    let found = all.into_iter().find(|item| text(item, "id") == id);
    found.cloned().ok_or_else(|| ApiError::no_such("subscription_item", &id, "id"))
}
