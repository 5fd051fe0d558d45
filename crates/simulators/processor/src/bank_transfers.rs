//! Bank transfers of customers, and the payments that wait for them.

use serde_json::{Value, json};

use super::api_call::ApiCall;
use super::cash_balance::{available, id_of, move_by, take};
use super::fields::text;
use super::problem::ApiError;
use super::{customers, events, intents, prices};

pub(super) fn retrieve(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let customer = call.id(0);
    customers::live(call.store, &customer, "id")?;
    move_by(call.store, &customer, "usd", 0);
    call.store.find("cash_balance", &id_of(&customer), "id").cloned()
}

/// A bank transfer of the customer arrives.
pub(super) fn fund(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let (customer, params) = (call.id(0), call.params);
    customers::live(call.store, &customer, "id")?;
    params.required("amount")?;
    let amount = params.integer("amount")?.unwrap_or_default();
    if amount < 1 {
        let message = "This value must be greater than or equal to 1.";
        return Err(ApiError::param("amount", message).code("parameter_invalid_integer"));
    }
    let currency = params.required("currency")?.to_lowercase();
    prices::check_currency(&currency)?;
    move_by(call.store, &customer, &currency, amount);
    let id = call.store.new_id("ccsbtxn");
    call.store.put(json!({
        "id": id, "object": "customer_cash_balance_transaction", "created": call.store.now, "currency": currency,
        "customer": customer, "ending_balance": available(call.store, &customer, &currency),
        "funded": {"bank_transfer": {"reference": params.text("reference")}}, "livemode": false, "net_amount": amount,
        "type": "funded",
    }));
    events::emit(call.store, "customer_cash_balance_transaction.created", &id);
    events::emit(call.store, "cash_balance.funds_available", &id_of(&customer));
    let is_waiting = |intent: &&Value| {
        text(intent, "customer") == customer
            && text(intent, "currency") == currency
            && text(intent, "next_action.type") == "display_bank_transfer_instructions"
    };
    let waiting: Vec<String> = call
        .store
        .all("payment_intent")
        .filter(is_waiting)
        .map(|intent| text(intent, "id").to_owned())
        .collect();
    for intent in waiting {
        if take(call.store, &intent) {
            intents::funded(call.store, &intent);
        }
    }
    call.store.find("customer_cash_balance_transaction", &id, "id").cloned()
}
