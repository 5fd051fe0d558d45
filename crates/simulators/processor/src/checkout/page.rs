//! The page of a session over the API, as the processor's command-line client uses it.

use serde_json::Value;

use super::pay::pay;
use crate::api_call::ApiCall;
use crate::fields::{list, text, whole};
use crate::payment_methods;
use crate::problem::ApiError;

/// Shows the session of a page.
pub(crate) fn page(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    super::retrieve(call)
}

/// Pays a session with a payment method, as a customer does on its page.
pub(crate) fn confirm_page(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let session = super::retrieve(call)?;
    let given = call.params.required("payment_method")?.to_owned();
    let method = payment_methods::named(call.store, &given, "payment_method")?;
    let kind = text(call.store.find("payment_method", &method, "payment_method")?, "type");
    if !list(&session, "payment_method_types").iter().any(|known| known == kind) {
        let message = format!("This page cannot be paid with a {kind}.");
        return Err(ApiError::param("payment_method", message));
    }
    let total = whole(&session, "amount_total");
    if call.params.integer("expected_amount")?.is_some_and(|expected| expected != total) {
        let message = format!("The amount of this page is {total}.");
        return Err(ApiError::param("expected_amount", message).code("checkout_amount_mismatch"));
    }
    let id = call.id(0);
    pay(call.store, &id, &method, false)?;
    super::retrieve(call)
}
