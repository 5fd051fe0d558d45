//! Every request that the processor knows: method, path, parameters, and handler.

use std::sync::LazyLock;

use serde_json::Value;

use super::api_call::ApiCall;
use super::declared::{self, DeclaredRoute};
use super::form::FormParams;
use super::problem::ApiError;
use super::{
    balance, bank_transfers, charges, checkout, coupons, credit_notes, customers, disputes, events,
    intents, invoices, lists, payment_methods, plans, portal, prices, promotion_codes, quotes,
    refunds, schedules, setup_intents, sources, subscriptions, test_clocks, webhook_endpoints,
};

type Handler = fn(&mut ApiCall<'_>) -> Result<Value, ApiError>;

/// One route.
pub(crate) struct ApiRoute {
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
) -> ApiRoute {
    ApiRoute { method: "GET", path, params, handler }
}

const fn post(
    path: &'static str,
    params: &'static [&'static [&'static str]],
    handler: Handler,
) -> ApiRoute {
    ApiRoute { method: "POST", path, params, handler }
}

const fn delete(
    path: &'static str,
    params: &'static [&'static [&'static str]],
    handler: Handler,
) -> ApiRoute {
    ApiRoute { method: "DELETE", path, params, handler }
}

const LIST: &[&str] = &lists::PARAMS;
const OF_CUSTOMER: &[&str] = &["customer"];
const METADATA: &[&str] = &["metadata?", "metadata.*?"];

/// All routes; a fixed segment comes before an id in the same position.
const ROUTES: &[ApiRoute] = &[
    post("customers", &[customers::PARAMS], customers::create),
    get("customers", &[LIST, &["email"]], customers::list),
    get("customers/search", &[&["query", "limit", "page"]], customers::search),
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
    post("customers/{}/sources", &[sources::PARAMS], sources::create),
    post("customers/{}/sources/{}", &[sources::UPDATE_PARAMS], sources::update),
    get("customers/{}/cash_balance", &[], bank_transfers::retrieve),
    post(
        "test_helpers/customers/{}/fund_cash_balance",
        &[&["amount", "currency", "reference"]],
        bank_transfers::fund,
    ),
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
    post("payment_intents/{}/capture", &[&["amount_to_capture"]], intents::capture),
    post("setup_intents", &[setup_intents::PARAMS], setup_intents::create),
    post("setup_intents/{}/confirm", &[setup_intents::CONFIRM_PARAMS], setup_intents::confirm),
    post("setup_intents/{}/cancel", &[&["cancellation_reason"]], setup_intents::cancel),
    get("setup_intents", &[LIST, OF_CUSTOMER], setup_intents::list),
    get("setup_intents/{}", &[&["client_secret", "key"]], setup_intents::retrieve),
    get("charges", &[LIST, &["customer", "payment_intent"]], charges::list),
    get("charges/{}", &[], charges::retrieve),
    post("refunds", &[refunds::PARAMS], refunds::create),
    get("refunds", &[LIST, &["charge", "payment_intent"]], refunds::list),
    get("refunds/{}", &[], refunds::retrieve),
    post("refunds/{}", &[METADATA], refunds::update),
    get("disputes", &[LIST, &["charge", "payment_intent"]], disputes::list),
    get("disputes/{}", &[], disputes::retrieve),
    post("disputes/{}", &[disputes::UPDATE_PARAMS], disputes::update),
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
    delete("webhook_endpoints/{}", &[], webhook_endpoints::delete),
    post("products", &[prices::PRODUCT_PARAMS], prices::create_product),
    get("products", &[LIST, &["active", "ids.*"]], prices::list_products),
    get("products/{}", &[], prices::retrieve_product),
    post("products/{}", &[prices::PRODUCT_UPDATE_PARAMS], prices::update_product),
    delete("products/{}", &[], prices::delete_product),
    post("prices", &[prices::PRICE_PARAMS], prices::create_price),
    get(
        "prices",
        &[LIST, &["active", "product", "lookup_keys.*", "type", "currency"]],
        prices::list_prices,
    ),
    get("prices/search", &[&["query", "limit", "page"]], prices::search_prices),
    get("prices/{}", &[], prices::retrieve_price),
    post("prices/{}", &[prices::PRICE_UPDATE_PARAMS], prices::update_price),
    post("plans", &[plans::PARAMS], plans::create),
    get("plans/{}", &[], plans::retrieve),
    post("plans/{}", &[plans::UPDATE_PARAMS], plans::update),
    delete("plans/{}", &[], plans::delete),
    post("coupons", &[coupons::PARAMS], coupons::create),
    get("coupons", &[LIST], coupons::list),
    get("coupons/{}", &[], coupons::retrieve),
    post("coupons/{}", &[&["name?"], METADATA], coupons::update),
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
    get("payment_pages/{}", &[], checkout::page),
    post(
        "payment_pages/{}/confirm",
        &[&["payment_method", "expected_amount"]],
        checkout::confirm_page,
    ),
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
    post("subscription_schedules", &[schedules::PARAMS], schedules::create),
    get("subscription_schedules/{}", &[], schedules::retrieve),
    post("subscription_schedules/{}", &[&["end_behavior"], METADATA], schedules::update),
    post("subscription_schedules/{}/release", &[], schedules::release),
    post("subscription_schedules/{}/cancel", &[&["invoice_now", "prorate"]], schedules::cancel),
    post("test_helpers/test_clocks", &[&["frozen_time", "name"]], test_clocks::create),
    get("test_helpers/test_clocks/{}", &[], test_clocks::retrieve),
    post("test_helpers/test_clocks/{}/advance", &[&["frozen_time"]], test_clocks::advance),
    delete("test_helpers/test_clocks/{}", &[], test_clocks::delete),
    post("quotes", &[quotes::PARAMS], quotes::create),
    get("quotes/{}", &[], quotes::retrieve),
    post("quotes/{}/finalize", &[], quotes::finalize),
    post("quotes/{}/accept", &[], quotes::accept),
    post("quotes/{}/cancel", &[], quotes::cancel),
    post("credit_notes", &[credit_notes::PARAMS], credit_notes::create),
    get("credit_notes", &[LIST, &["customer", "invoice"]], credit_notes::list),
    get("credit_notes/preview", &[credit_notes::PARAMS], credit_notes::preview),
    get("credit_notes/preview/lines", &[LIST, credit_notes::PARAMS], credit_notes::preview_lines),
    get("credit_notes/{}", &[], credit_notes::retrieve),
    get("credit_notes/{}/lines", &[LIST], credit_notes::list_lines),
    post("credit_notes/{}", &[&["memo?"], METADATA], credit_notes::update),
    post("credit_notes/{}/void", &[], credit_notes::void),
    get(
        "invoices",
        &[LIST, &["customer", "subscription", "status", "collection_method"]],
        invoices::list,
    ),
    post("invoices/create_preview", &[invoices::PREVIEW_PARAMS], invoices::preview),
    post("invoices", &[invoices::DRAFT_PARAMS], invoices::create),
    post("invoices/{}", &[invoices::UPDATE_PARAMS], invoices::update),
    delete("invoices/{}", &[], invoices::delete),
    post("invoices/{}/finalize", &[&["auto_advance"]], invoices::finalize),
    post("invoices/{}/send", &[], invoices::send),
    post("invoices/{}/mark_uncollectible", &[], invoices::mark_uncollectible),
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
    post("invoiceitems", &[invoices::ITEM_PARAMS], invoices::create_item),
    get("invoiceitems/{}", &[], invoices::retrieve_item),
    delete("invoiceitems/{}", &[], invoices::delete_item),
    post("billing_portal/sessions", &[portal::PARAMS], portal::create),
    post(
        "billing_portal/configurations",
        &[portal::CONFIGURATION_PARAMS],
        portal::create_configuration,
    ),
    get("billing_portal/configurations/{}", &[], portal::retrieve_configuration),
    post(
        "billing_portal/configurations/{}",
        &[portal::CONFIGURATION_PARAMS, &["active"]],
        portal::update_configuration,
    ),
    get(
        "billing_portal/configurations",
        &[LIST, &["active", "is_default"]],
        portal::list_configurations,
    ),
    get("events", &[LIST, &["type", "types.*", "delivery_success"]], events::list),
    get("events/{}", &[], events::retrieve),
];

/// The routes of objects that the service does not use.
static DECLARED: LazyLock<Vec<DeclaredRoute>> = LazyLock::new(declared::routes);

/// A route that was found.
#[derive(Clone, Copy)]
pub(crate) enum FoundRoute {
    Written(&'static ApiRoute),
    Declared(&'static DeclaredRoute),
}

impl FoundRoute {
    fn of(method: &str) -> impl Iterator<Item = Self> {
        let written = ROUTES.iter().map(Self::Written);
        let all = written.chain(DECLARED.iter().map(Self::Declared));
        all.filter(move |route| route.method() == method)
    }

    fn method(self) -> &'static str {
        match self {
            Self::Written(route) => route.method,
            Self::Declared(route) => route.method,
        }
    }

    /// The path below `/v1/`, with `{}` for ids.
    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Written(route) => route.path,
            Self::Declared(route) => &route.path,
        }
    }

    /// Refuses parameters that the route does not take.
    pub(crate) fn check(self, params: &FormParams) -> Result<(), ApiError> {
        let declared = match self {
            Self::Written(_) => Vec::new(),
            Self::Declared(route) => route.patterns(),
        };
        let written: &[&[&str]] = match self {
            Self::Written(route) => route.params,
            Self::Declared(_) => &[],
        };
        let all = written.iter().flat_map(|list| list.iter().copied());
        let all = all.chain(declared.iter().map(String::as_str)).chain(["expand.*"]);
        params.only(&all.collect::<Vec<_>>())
    }

    /// Carries a request out.
    pub(crate) fn handle(self, call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
        match self {
            Self::Written(route) => (route.handler)(call),
            Self::Declared(route) => route.handle(call),
        }
    }
}

/// The route of a path below `/v1/`, and the ids in it.
pub(crate) fn find(method: &str, path: &str) -> Option<(FoundRoute, Vec<String>)> {
    let given: Vec<&str> = path.split('/').collect();
    FoundRoute::of(method).find_map(|route| {
        let parts: Vec<&str> = route.path().split('/').collect();
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
    let written = ROUTES.iter().map(FoundRoute::Written);
    let all = written.chain(DECLARED.iter().map(FoundRoute::Declared));
    all.map(|route| (route.method(), format!("/v1/{}", route.path().replace("{}", "{id}"))))
}
