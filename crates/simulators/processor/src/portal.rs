//! The customer portal: a page to which the merchant sends a customer to change cards and end
//! subscriptions.

use serde_json::{Value, json};

use super::api_call::ApiCall;
use super::fields::{at, flag, list, set, text};
use super::form::FormParams;
use super::object_store::ObjectStore;
use super::problem::ApiError;
use super::{cards, customers, events, lists, payment_methods, render, subscriptions};

/// The parameters of a session.
pub(super) const PARAMS: &[&str] = &[
    "customer",
    "return_url",
    "configuration",
    "locale",
    "flow_data.type",
    "flow_data.subscription_cancel.subscription",
    "flow_data.subscription_update.subscription",
    "flow_data.after_completion.type",
    "flow_data.after_completion.redirect.return_url",
];
/// The parameters of a configuration.
pub(super) const CONFIGURATION_PARAMS: &[&str] = &[
    "default_return_url",
    "business_profile.headline",
    "business_profile.privacy_policy_url",
    "business_profile.terms_of_service_url",
    "features.customer_update.enabled",
    "features.customer_update.allowed_updates.*",
    "features.invoice_history.enabled",
    "features.payment_method_update.enabled",
    "features.subscription_cancel.enabled",
    "features.subscription_cancel.mode",
    "features.subscription_cancel.proration_behavior",
    "features.subscription_update.enabled",
    "features.subscription_update.default_allowed_updates.*",
    "features.subscription_update.proration_behavior",
    "features.subscription_update.products.*.product",
    "features.subscription_update.products.*.prices.*",
    "metadata.*?",
];

/// How long a link works, in seconds.
const LIFE_S: i64 = 3600;

pub(super) fn create(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let params = call.params;
    let customer = params.required("customer")?.to_owned();
    customers::live(call.store, &customer, "customer")?;
    let return_url = params.text("return_url").map(str::to_owned);
    if return_url
        .as_ref()
        .is_some_and(|url| !url.starts_with("http://") && !url.starts_with("https://"))
    {
        return Err(ApiError::param("return_url", "Not a valid URL").code("url_invalid"));
    }
    let configuration = match params.text("configuration") {
        Some(id) => {
            text(call.store.find("billing_portal.configuration", id, "configuration")?, "id")
                .to_owned()
        }
        None => default_configuration(call.store),
    };
    let words = [
        "payment_method_update",
        "subscription_cancel",
        "subscription_update",
        "subscription_update_confirm",
    ];
    let flow = params.one_of("flow_data.type", &words)?;
    let id = call.store.new_id("bps");
    let secret = call.store.secret();
    let url = format!("{}/processor/portal/{secret}", call.store.base);
    call.store.put(json!({
        "id": id, "object": "billing_portal.session", "configuration": configuration, "created": call.store.now,
        "customer": customer, "customer_account": null, "flow": flow.map(|kind| json!({"type": kind})), "livemode": false,
        "locale": null, "on_behalf_of": null, "return_url": return_url, "url": url,
        "_": {"secret": secret, "due": call.store.now + LIFE_S},
    }));
    events::emit(call.store, "billing_portal.session.created", &id);
    call.store.find("billing_portal.session", &id, "id").cloned()
}

/// The configuration of sessions that name no other; created when it is first needed.
fn default_configuration(store: &mut ObjectStore) -> String {
    let known = store.all("billing_portal.configuration").find(|it| flag(it, "is_default"));
    if let Some(known) = known {
        return text(known, "id").to_owned();
    }
    let id = make_configuration(store, &FormParams::default(), true);
    id.unwrap_or_default()
}

fn make_configuration(
    store: &mut ObjectStore,
    params: &FormParams,
    is_default: bool,
) -> Result<String, ApiError> {
    let on = |feature: &str| -> Result<bool, ApiError> {
        let said = params.flag(&format!("features.{feature}.enabled"))?;
        Ok(said.unwrap_or(is_default))
    };
    let words = |path: &str| -> Vec<String> {
        let names = params.names(path);
        names
            .iter()
            .filter_map(|name| params.text(&format!("{path}.{name}")).map(str::to_owned))
            .collect()
    };
    let updates = words("features.subscription_update.default_allowed_updates");
    let modes = ["at_period_end", "immediately"];
    let mode =
        params.one_of("features.subscription_cancel.mode", &modes)?.unwrap_or("at_period_end");
    let metadata = render::metadata(params, "metadata", &Value::Null)?;
    let id = store.new_id("bpc");
    store.put(json!({
        "id": id, "object": "billing_portal.configuration", "active": true, "application": null,
        "business_profile": profile(params),
        "created": store.now, "default_return_url": params.text("default_return_url"),
        "features": {
            "customer_update": {"allowed_updates": [], "enabled": on("customer_update")?},
            "invoice_history": {"enabled": on("invoice_history")?},
            "payment_method_update": {"enabled": on("payment_method_update")?},
            "subscription_cancel": {"enabled": on("subscription_cancel")?, "mode": mode, "proration_behavior": "none"},
            "subscription_update": {
                "default_allowed_updates": updates, "enabled": on("subscription_update")?,
                "proration_behavior": "create_prorations",
            },
        },
        "is_default": is_default, "livemode": false, "login_page": {"enabled": false, "url": null},
        "metadata": metadata,
        "updated": store.now,
    }));
    Ok(id)
}

pub(super) fn create_configuration(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    if !call.params.has("features") {
        return Err(ApiError::missing("features"));
    }
    let id = make_configuration(call.store, call.params, false)?;
    events::emit(call.store, "billing_portal.configuration.created", &id);
    call.store.find("billing_portal.configuration", &id, "id").cloned()
}

fn profile(params: &FormParams) -> Value {
    let mut profile = json!({});
    for name in ["headline", "privacy_policy_url", "terms_of_service_url"] {
        set(&mut profile, name, json!(params.text(&format!("business_profile.{name}"))));
    }
    profile
}

/// Changes a configuration: what the request does not name stays.
pub(super) fn update_configuration(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = call.id(0);
    let params = call.params;
    let before = call.store.find("billing_portal.configuration", &id, "id")?.clone();
    let wanted = make_configuration(call.store, params, flag(&before, "is_default"))?;
    let wanted_fields = call.store.get(&wanted).cloned().unwrap_or_default();
    call.store.remove(&wanted);
    let metadata = render::metadata(params, "metadata", at(&before, "metadata"))?;
    let active = params.flag("active")?.unwrap_or_else(|| flag(&before, "active"));
    call.store.change(&id, |configuration| {
        set(configuration, "metadata", metadata);
        set(configuration, "active", active);
        for feature in params.names("features") {
            let path = format!("features.{feature}");
            set(configuration, &path, at(&wanted_fields, &path).clone());
        }
        for name in params.names("business_profile") {
            let path = format!("business_profile.{name}");
            set(configuration, &path, at(&wanted_fields, &path).clone());
        }
        if let Some(url) = params.text("default_return_url") {
            set(configuration, "default_return_url", url);
        }
    });
    events::emit_changed(call.store, "billing_portal.configuration.updated", &before);
    call.store.find("billing_portal.configuration", &id, "id").cloned()
}

pub(super) fn retrieve_configuration(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = call.id(0);
    call.store.find("billing_portal.configuration", &id, "id").cloned()
}

pub(super) fn list_configurations(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    default_configuration(call.store);
    let (active, default) = (call.params.flag("active")?, call.params.flag("is_default")?);
    lists::page(call, "billing_portal.configuration", "/v1/billing_portal/configurations", |it| {
        active.is_none_or(|active| flag(it, "active") == active)
            && default.is_none_or(|default| flag(it, "is_default") == default)
    })
}

/// The session of a link, unless it has expired.
pub(super) fn session<'a>(store: &'a ObjectStore, secret: &str) -> Option<&'a Value> {
    store
        .all("billing_portal.session")
        .rfind(|session| text(session, "_.secret") == secret && !flag(session, "_.over"))
}

/// The customer's actions on the page.
#[derive(Debug)]
pub(super) enum PortalAction<'a> {
    AddCard { number: &'a str, month: i64, year: i64 },
    UseCard(&'a str),
    RemoveCard(&'a str),
    Cancel(&'a str),
    Resume(&'a str),
    ChangePlan { subscription: &'a str, price: &'a str },
}

/// Performs the customer's action on the page.
pub(super) fn act(
    store: &mut ObjectStore,
    customer: &str,
    action: &PortalAction<'_>,
) -> Result<(), ApiError> {
    match *action {
        PortalAction::AddCard { number, month, year } => {
            let method = payment_methods::from_number(store, number, month, year)?;
            payment_methods::attach_to(store, &method, customer, "payment_method")?;
            if store.get(&method).is_some_and(|it| {
                cards::behaviour(it) == cards::CardBehaviour::AuthenticatesUntilSetUp
            }) {
                // The page has the bank authenticate a card that it saves.
                store.change(&method, |method| set(method, "_.set_up", true));
            }
            use_card(store, customer, &method)
        }
        PortalAction::UseCard(method) => use_card(store, customer, method),
        PortalAction::RemoveCard(method) => {
            owned(store, method, customer)?;
            payment_methods::take_off(store, method);
            Ok(())
        }
        PortalAction::Cancel(id) => end_with_period(store, customer, id, true),
        PortalAction::Resume(id) => end_with_period(store, customer, id, false),
        PortalAction::ChangePlan { subscription, price } => {
            change_plan(store, customer, subscription, price)
        }
    }
}

fn owned(store: &ObjectStore, id: &str, customer: &str) -> Result<Value, ApiError> {
    let found = store.get(id).filter(|object| text(object, "customer") == customer);
    found.cloned().ok_or_else(|| ApiError::no_such("object", id, "id"))
}

/// Makes a card the one that pays invoices, including those of subscriptions with a card of their
/// own.
fn use_card(store: &mut ObjectStore, customer: &str, method: &str) -> Result<(), ApiError> {
    owned(store, method, customer)?;
    let before = owned_customer(store, customer)?;
    store.change(customer, |customer| {
        set(customer, "invoice_settings.default_payment_method", method);
    });
    events::emit_changed(store, "customer.updated", &before);
    for id in subscriptions::live_of(store, customer) {
        let Some(found) = store.get(&id).cloned() else { continue };
        if !at(&found, "default_payment_method").is_null()
            && text(&found, "default_payment_method") != method
        {
            store.change(&id, |subscription| set(subscription, "default_payment_method", method));
            events::emit_changed(store, "customer.subscription.updated", &found);
        }
    }
    Ok(())
}

fn owned_customer(store: &ObjectStore, customer: &str) -> Result<Value, ApiError> {
    customers::live(store, customer, "customer").cloned()
}

fn end_with_period(
    store: &mut ObjectStore,
    customer: &str,
    id: &str,
    ends: bool,
) -> Result<(), ApiError> {
    let before = owned(store, id, customer)?;
    if subscriptions::is_over(&before) {
        return Err(ApiError::invalid("This subscription has ended."));
    }
    let now = store.now;
    store.change(id, |subscription| subscriptions::end_with_period(subscription, ends, now));
    events::emit_changed(store, "customer.subscription.updated", &before);
    Ok(())
}

/// The prices that the page offers for a subscription: none if it has several items, as on the real
/// page.
pub(super) fn plans(store: &ObjectStore, subscription: &Value) -> Vec<Value> {
    let items = list(subscription, "items.data");
    let [only] = items else { return Vec::new() };
    let same = |path: &str, price: &Value| text(price, path) == text(at(only, "price"), path);
    let fits = |price: &&Value| {
        flag(price, "active")
            && text(price, "type") == "recurring"
            && same("currency", price)
            && same("recurring.interval", price)
            && !same("id", price)
    };
    store.all("price").filter(fits).cloned().collect()
}

fn change_plan(
    store: &mut ObjectStore,
    customer: &str,
    id: &str,
    price: &str,
) -> Result<(), ApiError> {
    let before = owned(store, id, customer)?;
    if !plans(store, &before).iter().any(|plan| text(plan, "id") == price) {
        return Err(ApiError::invalid("This plan is not offered."));
    }
    let item = text(&before, "items.data.0.id").to_owned();
    let quantity = at(&before, "items.data.0.quantity").clone();
    let form = format!(
        "items[0][id]={item}&items[0][price]={price}&items[0][quantity]={quantity}&proration_behavior=create_prorations"
    );
    let params = FormParams::parse(&form);
    let mut call = ApiCall {
        store,
        params: &params,
        ids: vec![id.to_owned()],
        caller: super::api_call::ApiCaller::Server,
        version: events::VERSION,
    };
    subscriptions::update(&mut call).map(drop)
}
