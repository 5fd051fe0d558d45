//! Cash balances: money that customers have sent by bank transfer, and what payments take of it.

use serde_json::{Value, json};

use super::events;
use super::fields::{at, set, text, whole};
use super::object_store::ObjectStore;

/// The type of payment methods that are paid by bank transfer.
pub(super) const METHOD: &str = "customer_balance";

/// The id under which a customer's balance is stored.
pub(super) fn id_of(customer: &str) -> String {
    format!("cash_balance_{customer}")
}

/// What a customer has in a currency.
pub(super) fn available(store: &ObjectStore, customer: &str, currency: &str) -> i64 {
    let path = format!("available.{currency}");
    store.get(&id_of(customer)).map_or(0, |balance| whole(balance, &path))
}

/// Moves a customer's balance in a currency; it begins with the first movement.
pub(super) fn move_by(store: &mut ObjectStore, customer: &str, currency: &str, amount: i64) {
    let id = id_of(customer);
    if store.get(&id).is_none() {
        store.put(json!({
            "id": id, "object": "cash_balance", "available": {}, "customer": customer, "livemode": false,
            "settings": {"reconciliation_mode": "automatic", "using_merchant_default": true},
        }));
    }
    let after = available(store, customer, currency) + amount;
    store.change(&id, |balance| set(balance, &format!("available.{currency}"), after));
}

/// Takes what there is of the customer's money for an intent; true if that is all that was missing,
/// so that the intent is to be paid.
pub(super) fn take(store: &mut ObjectStore, intent: &str) -> bool {
    let Some(found) = store.get(intent).cloned() else { return false };
    let (customer, currency) = (text(&found, "customer"), text(&found, "currency"));
    let left = whole(&found, "amount") - whole(&found, "_.funded");
    let part = available(store, customer, currency).clamp(0, left);
    move_by(store, customer, currency, -part);
    let funded = whole(&found, "_.funded") + part;
    store.change(intent, |intent| {
        set(intent, "_.funded", funded);
        if part < left {
            set(intent, "status", "requires_action");
            set(intent, "next_action", instructions(&found, left - part));
        }
    });
    if part == left {
        return true;
    }
    let is_first = at(&found, "next_action").is_null();
    if is_first {
        events::emit(store, "payment_intent.requires_action", intent);
    }
    if part > 0 {
        events::emit(store, "payment_intent.partially_funded", intent);
    }
    false
}

fn instructions(intent: &Value, left: i64) -> Value {
    let details = json!({
        "amount_remaining": left, "currency": text(intent, "currency"), "financial_addresses": [],
        "hosted_instructions_url": null, "reference": text(intent, "id"), "type": "us_bank_transfer",
    });
    json!({"display_bank_transfer_instructions": details, "type": "display_bank_transfer_instructions"})
}

/// Creates the payment method of a transfer; returns its id.
pub(super) fn make_method(store: &mut ObjectStore) -> String {
    let id = store.new_id("pm");
    store.put(json!({
        "id": id, "object": "payment_method", "allow_redisplay": "unspecified",
        "billing_details": {"address": null, "email": null, "name": null, "phone": null, "tax_id": null},
        "created": store.now, "customer": null, "customer_balance": {}, "livemode": false, "metadata": {},
        "type": METHOD,
    }));
    id
}
