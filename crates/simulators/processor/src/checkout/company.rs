//! What a session's page asks for besides the card: the billing address, the name and the tax id of
//! a company, and whether the payment gets an invoice.

use serde_json::{Value, json};

use super::price;
use crate::coupons::ChosenDiscount;
use crate::fields::{at, flag, list, set, text};
use crate::form::FormParams;
use crate::object_store::ObjectStore;
use crate::problem::ApiError;
use crate::{customers, events, promotion_codes, render, taxes};

/// What a customer enters on the page; what is empty was not entered.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct EnteredDetails<'a> {
    /// The country of the billing address, such as `DE`.
    pub(crate) country: &'a str,
    /// The name of a company.
    pub(crate) name: &'a str,
    /// A tax id: an EU one, such as `DE123456789`.
    pub(crate) tax_id: &'a str,
    /// A promotion code.
    pub(crate) code: &'a str,
}

/// Refuses to collect what could not be kept: an existing customer is only changed if the request
/// says so.
pub(super) fn check(
    store: &ObjectStore,
    params: &FormParams,
    customer: Option<&str>,
) -> Result<(), ApiError> {
    for name in ["address", "name"] {
        params.one_of(&format!("customer_update.{name}"), &["auto", "never"])?;
    }
    let Some(customer) = customer else {
        if params.has("customer_update") {
            let message = "`customer_update` can only be used with `customer`.";
            return Err(ApiError::param("customer_update", message));
        }
        return Ok(());
    };
    let updates = |name: &str| params.text(&format!("customer_update.{name}")) == Some("auto");
    let is_automatic = params.flag("automatic_tax.enabled")? == Some(true);
    if is_automatic && !updates("address") {
        let message = "Automatic tax calculation in Checkout requires a valid address on the Customer. Add a valid address to the Customer or set either `customer_update[address]` to 'auto' or `customer_update[shipping]` to 'auto' to save the address entered in Checkout to the Customer.";
        taxes::check_location(store, customer)
            .map_err(|_| ApiError::invalid(message).code("customer_tax_location_invalid"))?;
    }
    if params.flag("tax_id_collection.enabled")? == Some(true) && !updates("name") {
        let message = "Tax ID collection requires updating business name on the customer. To enable tax ID collection for an existing customer, please set `customer_update[name]` to `auto`.";
        return Err(ApiError::invalid(message));
    }
    Ok(())
}

/// Writes what the page is to ask for into a new session.
pub(super) fn ask(session: &mut Value, params: &FormParams) -> Result<(), ApiError> {
    let is_automatic = params.flag("automatic_tax.enabled")?.unwrap_or(false);
    let status = is_automatic.then_some("requires_location_inputs");
    set(session, "automatic_tax", taxes::automatic(is_automatic, status));
    let words = ["auto", "required"];
    let address = params.one_of("billing_address_collection", &words)?;
    set(session, "billing_address_collection", json!(address));
    let collects = params.flag("tax_id_collection.enabled")?.unwrap_or(false);
    set(session, "tax_id_collection.enabled", collects);
    for name in ["address", "name"] {
        let word = params.text(&format!("customer_update.{name}")).unwrap_or("never");
        set(session, &format!("_.customer_update.{name}"), word);
    }
    let data = |name: &str| params.text(&format!("invoice_creation.invoice_data.{name}"));
    let metadata =
        render::metadata(params, "invoice_creation.invoice_data.metadata", &Value::Null)?;
    if text(session, "mode") == "payment" {
        let is_on = params.flag("invoice_creation.enabled")?.unwrap_or(false);
        let creation = json!({"enabled": is_on, "invoice_data": {
            "account_tax_ids": null, "custom_fields": null, "description": data("description"),
            "footer": data("footer"), "issuer": null, "metadata": metadata, "rendering_options": null,
        }});
        set(session, "invoice_creation", creation);
    }
    Ok(())
}

/// Whether the page asks for a country.
pub(crate) fn wants_country(session: &Value) -> bool {
    flag(session, "automatic_tax.enabled")
        || text(session, "billing_address_collection") == "required"
}

/// A customer enters details on an open session's page.
pub(crate) fn enter(
    store: &mut ObjectStore,
    id: &str,
    details: &EnteredDetails<'_>,
) -> Result<(), ApiError> {
    let mut session = store.find("checkout.session", id, "session")?.clone();
    if !details.code.is_empty() {
        let chosen = promotion_codes::entered(store, &session, details.code)?;
        price::give(&mut session, &[chosen]);
    }
    if !details.country.is_empty() {
        let is_code = details.country.len() == 2
            && details.country.bytes().all(|byte| byte.is_ascii_uppercase());
        if !is_code {
            return Err(ApiError::param("country", "Invalid country: use two capital letters."));
        }
        let address = json!({"city": null, "country": details.country, "line1": null, "line2": null,
            "postal_code": null, "state": null});
        set(&mut session, "_.entered.address", address);
    }
    if !details.name.is_empty() {
        set(&mut session, "_.entered.name", details.name);
    }
    if !details.tax_id.is_empty() {
        if !flag(&session, "tax_id_collection.enabled") {
            return Err(ApiError::param("tax_id", "This page does not ask for a tax id."));
        }
        taxes::check_tax_id("eu_vat", details.tax_id)?;
        set(&mut session, "_.entered.tax_id", json!({"type": "eu_vat", "value": details.tax_id}));
    }
    put(store, session)
}

/// Replaces an open session's discounts by this coupon, as an operator's control does.
pub(crate) fn use_coupon(store: &mut ObjectStore, id: &str, coupon: &str) -> Result<(), ApiError> {
    let mut session = store.find("checkout.session", id, "session")?.clone();
    price::give(&mut session, &[ChosenDiscount::coupon(coupon)]);
    put(store, session)
}

fn put(store: &mut ObjectStore, mut session: Value) -> Result<(), ApiError> {
    price::compute(store, &mut session);
    if price::is_too_little(&session) {
        let message = "The Checkout Session's total amount due must add up to at least $0.50 usd";
        return Err(ApiError::invalid(message).code("amount_too_small"));
    }
    store.put(session);
    Ok(())
}

/// Refuses to pay a page on which a needed country is missing.
pub(super) fn check_entered(store: &ObjectStore, session: &Value) -> Result<(), ApiError> {
    let known = store.get(text(session, "customer"));
    let known = known.map_or("", |customer| text(customer, "address.country"));
    let is_missing = known.is_empty() && text(session, "_.entered.address.country").is_empty();
    if wants_country(session) && is_missing {
        return Err(ApiError::param("country", "Your billing address is incomplete."));
    }
    Ok(())
}

/// Copies what was entered to the customer, as far as the session may change it.
pub(super) fn keep(
    store: &mut ObjectStore,
    session: &Value,
    customer: &str,
) -> Result<(), ApiError> {
    let entered = at(session, "_.entered");
    let Some(before) = store.get(customer).cloned().filter(|_| !entered.is_null()) else {
        return Ok(());
    };
    for (name, field) in [("address", "address"), ("name", "name")] {
        let may = text(session, &format!("_.customer_update.{field}")) == "auto";
        let given = at(entered, name).clone();
        if may && !given.is_null() {
            store.change(customer, |customer| set(customer, field, given));
        }
    }
    if !at(entered, "tax_id").is_null() {
        let (kind, value) = (text(entered, "tax_id.type"), text(entered, "tax_id.value"));
        taxes::add_tax_id(store, customer, kind, value)?;
        events::emit(store, "customer.tax_id.created", customer);
    }
    if customers::live(store, customer, "customer")? != &before {
        events::emit_changed(store, "customer.updated", &before);
    }
    Ok(())
}

/// The `customer_details` of a complete session.
pub(super) fn details(session: &Value, customer: &Value) -> Value {
    let entered = |name: &str| at(session, &format!("_.entered.{name}")).clone();
    let or = |one: Value, other: &Value| if one.is_null() { other.clone() } else { one };
    let tax_ids = match entered("tax_id") {
        Value::Null => taxes::short_tax_ids(customer),
        one => json!([one]),
    };
    let email = or(at(customer, "email").clone(), at(session, "customer_email"));
    let is_reversed = list(customer, "_.tax_ids").is_empty() && tax_ids == json!([]);
    json!({
        "address": or(entered("address"), at(customer, "address")), "business_name": null, "email": email,
        "individual_name": null, "name": or(entered("name"), at(customer, "name")), "phone": null,
        "tax_exempt": if is_reversed { "none" } else { "reverse" }, "tax_ids": tax_ids,
    })
}
