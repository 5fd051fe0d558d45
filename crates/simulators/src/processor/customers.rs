//! Customers of the merchant.

use serde_json::{Value, json};

use super::books::Books;
use super::fields::{set, text};
use super::problem::Problem;
use super::routes::Call;
use super::{events, lists, render};

/// What creating and updating take.
pub(super) const PARAMS: &[&str] = &[
    "email?",
    "name?",
    "description?",
    "phone?",
    "metadata?",
    "metadata.*?",
    "payment_method",
    "invoice_settings.default_payment_method?",
    "balance",
];

/// A customer who came through a page; gives the id.
pub(super) fn guest(books: &mut Books, email: &str) -> String {
    let id = make(books);
    books.change(&id, |customer| {
        set(customer, "email", json!(Some(email).filter(|email| !email.is_empty())));
    });
    events::emit(books, "customer.created", &id);
    id
}

fn make(books: &mut Books) -> String {
    let id = books.new_id("cus");
    books.put(json!({
        "id": id, "object": "customer", "address": null, "balance": 0, "created": books.now, "currency": null,
        "default_source": null, "delinquent": false, "description": null, "email": null,
        "invoice_settings": {
            "custom_fields": null, "default_payment_method": null, "footer": null, "rendering_options": null,
        },
        "livemode": false, "metadata": {}, "name": null, "phone": null, "preferred_locales": [], "shipping": null,
        "tax_exempt": "none", "test_clock": null,
    }));
    id
}

pub(super) fn create(call: &mut Call<'_>) -> Result<Value, Problem> {
    let id = make(call.books);
    apply(call, &id)?;
    if let Some(method) = call.params.text("payment_method") {
        super::payment_methods::attach_to(call.books, method, &id, "payment_method")?;
    }
    events::emit(call.books, "customer.created", &id);
    live(call.books, &id, "id").cloned()
}

pub(super) fn update(call: &mut Call<'_>) -> Result<Value, Problem> {
    let id = call.id(0);
    let before = live(call.books, &id, "id")?.clone();
    apply(call, &id)?;
    events::emit_changed(call.books, "customer.updated", &before);
    live(call.books, &id, "id").cloned()
}

fn apply(call: &mut Call<'_>, id: &str) -> Result<(), Problem> {
    let params = call.params;
    let mut customer = live(call.books, id, "id")?.clone();
    if params.text("email").is_some_and(|email| !email.is_empty() && !email.contains('@')) {
        let email = params.text("email").unwrap_or_default();
        return Err(Problem::param("email", format!("Invalid email address: {email}"))
            .code("email_invalid"));
    }
    for name in ["email", "name", "description", "phone"] {
        if let Some(value) = params.text(name) {
            set(&mut customer, name, json!(Some(value).filter(|value| !value.is_empty())));
        }
    }
    if let Some(balance) = params.integer("balance")? {
        set(&mut customer, "balance", balance);
    }
    let metadata = render::metadata(params, "metadata", super::fields::at(&customer, "metadata"))?;
    set(&mut customer, "metadata", metadata);
    let path = "invoice_settings.default_payment_method";
    if let Some(method) = params.text(path) {
        let owned =
            call.books.find("payment_method", method, "invoice_settings[default_payment_method]");
        if !method.is_empty() && text(owned?, "customer") != id {
            let message = "The customer does not have a payment method with the ID ".to_owned()
                + method
                + ". The payment method must be attached to the customer.";
            return Err(Problem::param("invoice_settings[default_payment_method]", message)
                .code("resource_missing"));
        }
        set(&mut customer, path, json!(Some(method).filter(|method| !method.is_empty())));
    }
    call.books.put(customer);
    Ok(())
}

pub(super) fn retrieve(call: &mut Call<'_>) -> Result<Value, Problem> {
    let id = call.id(0);
    let customer = call.books.find("customer", &id, "id")?;
    if super::fields::flag(customer, "deleted") {
        return Ok(json!({"id": id, "object": "customer", "deleted": true}));
    }
    Ok(customer.clone())
}

pub(super) fn list(call: &mut Call<'_>) -> Result<Value, Problem> {
    let email = call.params.text("email").map(str::to_owned);
    lists::page(call, "customer", "/v1/customers", |customer| {
        !super::fields::flag(customer, "deleted")
            && email.as_deref().is_none_or(|email| text(customer, "email") == email)
    })
}

pub(super) fn delete(call: &mut Call<'_>) -> Result<Value, Problem> {
    let id = call.id(0);
    live(call.books, &id, "id")?;
    for subscription in super::subscriptions::live_of(call.books, &id) {
        super::subscriptions::end(call.books, &subscription);
    }
    for method in super::payment_methods::of_customer(call.books, &id) {
        super::payment_methods::take_off(call.books, &method);
    }
    events::emit(call.books, "customer.deleted", &id);
    call.books.change(&id, |customer| set(customer, "deleted", true));
    Ok(json!({"id": id, "object": "customer", "deleted": true}))
}

/// The customer, unless it was deleted.
pub(super) fn live<'a>(books: &'a Books, id: &str, param: &str) -> Result<&'a Value, Problem> {
    let customer = books.find("customer", id, param)?;
    if super::fields::flag(customer, "deleted") {
        return Err(Problem::no_such("customer", id, param));
    }
    Ok(customer)
}
