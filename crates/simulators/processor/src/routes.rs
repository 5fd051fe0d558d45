//! Every request that the processor knows: method, path, parameters, and handler.

use serde_json::Value;

use super::api_call::ApiCall;
use super::problem::ApiError;
use super::{
    balance, charges, checkout, coupons, customers, disputes, events, intents, invoices, lists,
    payment_methods, portal, prices, promotion_codes, refunds, setup_intents, subscriptions,
    webhook_endpoints,
};

type Handler = fn(&mut ApiCall<'_>) -> Result<Value, ApiError>;

/// One route.
pub(crate) struct Route {
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    /// Lists of patterns; see [`FormParams::only`].
    pub(crate) params: &'static [&'static [&'static str]],
    pub(crate) handler: Handler,
}

const fn get(
    path: &'static str,
    params: &'static [&'static [&'static str]],
    handler: Handler,
) -> Route {
    Route { method: "GET", path, params, handler }
}

const fn post(
    path: &'static str,
    params: &'static [&'static [&'static str]],
    handler: Handler,
) -> Route {
    Route { method: "POST", path, params, handler }
}

const fn delete(
    path: &'static str,
    params: &'static [&'static [&'static str]],
    handler: Handler,
) -> Route {
    Route { method: "DELETE", path, params, handler }
}

const LIST: &[&str] = &lists::PARAMS;
const OF_CUSTOMER: &[&str] = &["customer"];

/// All routes; a fixed segment comes before an id in the same position.
const ROUTES: &[Route] = &[
    post("customers", &[customers::PARAMS], customers::create),
    get("customers", &[LIST, &["email"]], customers::list),
    get("customers/{}", &[], customers::retrieve),
    post("customers/{}", &[customers::PARAMS], customers::update),
    delete("customers/{}", &[], customers::delete),
    get(
        "customers/{}/payment_methods",
        &[LIST, &["type", "allow_redisplay"]],
        payment_methods::list_of_customer,
    ),
    post("customers/{}/tax_ids", &[&["type", "value"]], customers::create_tax_id),
    get("customers/{}/tax_ids", &[LIST], customers::list_tax_ids),
    post("customers/{}/balance_transactions", &[balance::PARAMS], balance::create),
    get("customers/{}/balance_transactions", &[LIST], balance::list),
    get("customers/{}/balance_transactions/{}", &[], balance::retrieve),
    post("payment_methods", &[payment_methods::PARAMS], payment_methods::create),
    get("payment_methods", &[LIST, &["type", "customer"]], payment_methods::list),
    get("payment_methods/{}", &[], payment_methods::retrieve),
    post("payment_methods/{}", &[payment_methods::UPDATE_PARAMS], payment_methods::update),
    post("payment_methods/{}/attach", &[OF_CUSTOMER], payment_methods::attach),
    post("payment_methods/{}/detach", &[], payment_methods::detach),
    post("payment_intents", &[intents::PARAMS], intents::create),
    get("payment_intents", &[LIST, OF_CUSTOMER], intents::list),
    get("payment_intents/search", &[&["query", "limit", "page"]], intents::search),
    get("payment_intents/{}", &[&["client_secret", "key"]], intents::retrieve),
    post("payment_intents/{}", &[intents::UPDATE_PARAMS], intents::update),
    post("payment_intents/{}/confirm", &[intents::CONFIRM_PARAMS], intents::confirm),
    post("payment_intents/{}/cancel", &[&["cancellation_reason"]], intents::cancel),
    get("setup_intents", &[LIST, OF_CUSTOMER], setup_intents::list),
    get("setup_intents/{}", &[&["client_secret", "key"]], setup_intents::retrieve),
    get("charges", &[LIST, &["customer", "payment_intent"]], charges::list),
    get("charges/{}", &[], charges::retrieve),
    post("refunds", &[refunds::PARAMS], refunds::create),
    get("refunds", &[LIST, &["charge", "payment_intent"]], refunds::list),
    get("refunds/{}", &[], refunds::retrieve),
    get("disputes", &[LIST, &["charge", "payment_intent"]], disputes::list),
    get("disputes/{}", &[], disputes::retrieve),
    post("disputes/{}/close", &[], disputes::close),
    get(
        "radar/early_fraud_warnings",
        &[LIST, &["charge", "payment_intent"]],
        disputes::list_warnings,
    ),
    get("radar/early_fraud_warnings/{}", &[], disputes::retrieve_warning),
    get("balance", &[], webhook_endpoints::balance),
    get("tax/settings", &[], webhook_endpoints::tax_settings),
    post("webhook_endpoints", &[webhook_endpoints::PARAMS], webhook_endpoints::create),
    get("webhook_endpoints", &[LIST], webhook_endpoints::list),
    get("webhook_endpoints/{}", &[], webhook_endpoints::retrieve),
    post("webhook_endpoints/{}", &[webhook_endpoints::UPDATE_PARAMS], webhook_endpoints::update),
    post("products", &[prices::PRODUCT_PARAMS], prices::create_product),
    get("products", &[LIST, &["active", "ids.*"]], prices::list_products),
    get("products/{}", &[], prices::retrieve_product),
    post("prices", &[prices::PRICE_PARAMS], prices::create_price),
    get(
        "prices",
        &[LIST, &["active", "product", "lookup_keys.*", "type", "currency"]],
        prices::list_prices,
    ),
    get("prices/search", &[&["query", "limit", "page"]], prices::search_prices),
    get("prices/{}", &[], prices::retrieve_price),
    post("coupons", &[coupons::PARAMS], coupons::create),
    get("coupons", &[LIST], coupons::list),
    get("coupons/{}", &[], coupons::retrieve),
    delete("coupons/{}", &[], coupons::delete),
    post("promotion_codes", &[promotion_codes::PARAMS], promotion_codes::create),
    get("promotion_codes", &[LIST, &["code", "coupon", "active"]], promotion_codes::list),
    get("promotion_codes/{}", &[], promotion_codes::retrieve),
    post("promotion_codes/{}", &[promotion_codes::UPDATE_PARAMS], promotion_codes::update),
    post("checkout/sessions", &[checkout::PARAMS], checkout::create),
    get(
        "checkout/sessions",
        &[LIST, &["customer", "payment_intent", "subscription", "status"]],
        checkout::list,
    ),
    get("checkout/sessions/{}", &[], checkout::retrieve),
    get("checkout/sessions/{}/line_items", &[LIST], checkout::line_items),
    post("checkout/sessions/{}/expire", &[], checkout::expire),
    post("subscriptions", &[subscriptions::CREATE_PARAMS], subscriptions::create),
    get(
        "subscriptions",
        &[LIST, &["customer", "price", "status", "collection_method"]],
        subscriptions::list,
    ),
    get("subscriptions/{}", &[], subscriptions::retrieve),
    post("subscriptions/{}", &[subscriptions::UPDATE_PARAMS], subscriptions::update),
    delete("subscriptions/{}", &[subscriptions::CANCEL_PARAMS], subscriptions::cancel),
    get("subscription_items", &[LIST, &["subscription"]], subscriptions::list_items),
    get("subscription_items/{}", &[], subscriptions::retrieve_item),
    get(
        "invoices",
        &[LIST, &["customer", "subscription", "status", "collection_method"]],
        invoices::list,
    ),
    post("invoices/create_preview", &[invoices::PREVIEW_PARAMS], invoices::preview),
    get("invoices/{}", &[], invoices::retrieve),
    get("invoices/{}/lines", &[LIST], invoices::list_lines),
    post("invoices/{}/pay", &[&["payment_method", "off_session"]], invoices::pay),
    post("invoices/{}/void", &[], invoices::void),
    get(
        "invoice_payments",
        &[LIST, &["invoice", "status", "payment.type", "payment.payment_intent"]],
        invoices::payments,
    ),
    get("invoiceitems", &[LIST, &["customer", "invoice", "pending"]], invoices::list_items),
    post("billing_portal/sessions", &[portal::PARAMS], portal::create),
    post(
        "billing_portal/configurations",
        &[portal::CONFIGURATION_PARAMS],
        portal::create_configuration,
    ),
    get("billing_portal/configurations/{}", &[], portal::retrieve_configuration),
    get(
        "billing_portal/configurations",
        &[LIST, &["active", "is_default"]],
        portal::list_configurations,
    ),
    get("events", &[LIST, &["type", "types.*", "delivery_success"]], events::list),
    get("events/{}", &[], events::retrieve),
];

/// The route of a path below `/v1/`, and the ids in it.
pub(crate) fn find(method: &str, path: &str) -> Option<(&'static Route, Vec<String>)> {
    let given: Vec<&str> = path.split('/').collect();
    ROUTES.iter().filter(|route| route.method == method).find_map(|route| {
        let parts: Vec<&str> = route.path.split('/').collect();
        let fits = parts.len() == given.len()
            && parts
                .iter()
                .zip(&given)
                .all(|(part, one)| if *part == "{}" { !one.is_empty() } else { part == one });
        let ids = parts
            .iter()
            .zip(&given)
            .filter(|(part, _)| **part == "{}")
            .map(|(_, one)| (*one).to_owned());
        fits.then(|| (route, ids.collect()))
    })
}

/// Methods and paths, for the list of routes.
pub(crate) fn all() -> impl Iterator<Item = (&'static str, String)> {
    ROUTES.iter().map(|route| (route.method, format!("/v1/{}", route.path.replace("{}", "{id}"))))
}
