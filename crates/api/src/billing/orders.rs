//! Orders: what a customer bought, or tried to buy.

use std::collections::BTreeMap;

use axum::extract::State;
use billing::charge::{self, PaymentStanding};
use domain::id::OrderId;
use domain::key::KeyScope;
use domain::payment::{OrderChannel, OrderState};
use domain::time::Timestamp;
use failures::Failure;
use store::order_payments::{self, OrderPayment};
use store::orders::{self, Order, OrderQuery};
use store::returned_money::{self, ReturnedMoney};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use web::auth::Caller;
use web::error::ApiError;
use web::extract::{NoQuery, Path, Query};
use web::page::PageQuery;
use web::words;

use super::charge::{ActionOut, waiting};
use crate::ApiState;

pub(super) fn router() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new().routes(routes!(list_orders)).routes(routes!(get_order))
}

const NO_ORDER: ApiError = ApiError::Failure(Failure::NotFound(
    "there is no order with that id; `GET /v1/billing/orders` lists them",
));

type OrderParams = PageQuery<OrderId>;

/// A page of orders, newest first.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct Orders {
    orders: Vec<OrderOut>,
    /// The `before` for the next page; absent on the last one.
    #[schema(value_type = Option<String>)]
    next_before: Option<OrderId>,
}

/// A purchase of a credit pack.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct OrderOut {
    #[schema(value_type = String)]
    order_id: OrderId,
    pack_id: String,
    /// The number of packs: automatic top-up buys as many together as the threshold needs.
    packs: i64,
    /// The credits of all packs.
    credits: i64,
    /// The price of all packs, before discounts and tax.
    amount_cents: i64,
    /// What was charged: after discounts, with tax; null until it is paid.
    charged_cents: Option<i64>,
    /// The tax in what was charged; null until it is paid.
    tax_cents: Option<i64>,
    /// What has gone back to the customer by refunds and disputes.
    returned_cents: i64,
    /// Always `usd`.
    currency: String,
    #[schema(schema_with = words::order_state)]
    status: OrderState,
    /// How it is paid: on the processor's page, with one click, or by automatic top-up.
    #[schema(schema_with = words::order_channel)]
    channel: OrderChannel,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// When it was paid, failed or expired.
    #[schema(value_type = Option<String>, format = DateTime)]
    closed_at: Option<Timestamp>,
    /// Why it failed, such as `insufficient_funds`.
    failure: Option<String>,
    /// The payment processor's receipt; null until it is paid, and if nothing was charged.
    receipt_url: Option<String>,
    /// The invoice, if one was made; see `GET /v1/billing/invoices`.
    invoice_id: Option<String>,
}

impl OrderOut {
    fn new(order: Order, payment: Option<OrderPayment>, returned: &ReturnedMoney) -> Self {
        Self {
            returned_cents: returned.of_order(order.id),
            charged_cents: payment.as_ref().map(|payment| payment.charged_cents),
            tax_cents: payment.as_ref().map(|payment| payment.tax_cents),
            receipt_url: payment.as_ref().and_then(|payment| payment.receipt_url.clone()),
            invoice_id: payment.and_then(|payment| payment.invoice_id),
            order_id: order.id,
            packs: order.packs,
            pack_id: order.pack_id,
            credits: order.credits.whole(),
            amount_cents: order.amount_cents,
            currency: order.currency,
            status: order.state,
            channel: order.channel,
            created_at: order.created_at,
            closed_at: order.closed_at,
            failure: order.failure,
        }
    }
}

/// Lists the customer's orders, newest first.
#[utoipa::path(
    get, path = "/v1/billing/orders", tag = "billing", params(OrderParams),
    responses((status = 200, body = Orders))
)]
async fn list_orders(
    State(api): State<ApiState>,
    caller: Caller,
    Query(wanted): Query<OrderParams>,
) -> Result<axum::Json<Orders>, ApiError> {
    caller.refuse_limited()?;
    let (customer, before, limit) = (caller.customer, wanted.before(), wanted.to_read());
    let found = orders::list(&api.store, &OrderQuery { customer, before, limit }).await?;
    let page = wanted.page(found, |order| order.id);
    let times = page.entries.last().zip(page.entries.first());
    let mut payments = match times.map(|(oldest, newest)| (oldest.created_at, newest.created_at)) {
        Some((from, until)) => order_payments::list(&api.store, customer, from, until).await?,
        None => BTreeMap::new(),
    };
    let returned = returned_money::of_customer(&api.store, customer).await?;
    let order = |order: Order| {
        let payment = payments.remove(&order.id);
        OrderOut::new(order, payment, &returned)
    };
    let orders = page.entries.into_iter().map(order).collect();
    Ok(axum::Json(Orders { orders, next_before: page.next_before }))
}

/// An order, with the state of its payment.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct OrderView {
    #[serde(flatten)]
    order: OrderOut,
    /// `requires_action` (the bank requires the customer), `processing`, `paid`, or `over`:
    /// declined, cancelled or given up.
    #[schema(schema_with = words::payment_standing)]
    payment: &'static str,
    /// The id to confirm with `POST /v1/billing/confirm-charge`; null without a payment.
    pi_id: Option<String>,
    /// What a browser needs so that the customer can authenticate, with `requires_action`. Only for
    /// callers of full scope.
    action: Option<ActionOut>,
}

/// Shows an order, and whether its payment waits for the customer, for the bank, or has ended.
/// Reading it changes nothing: what was authenticated is granted by `POST
/// /v1/billing/confirm-charge`, or by itself a little later.
#[utoipa::path(
    get, path = "/v1/billing/orders/{order_id}", tag = "billing",
    params(("order_id" = String, Path, description = "The `order_id` of an order.")),
    responses((status = 200, body = OrderView))
)]
async fn get_order(
    State(api): State<ApiState>,
    caller: Caller,
    Path(order_id): Path<String>,
    _: NoQuery,
) -> Result<axum::Json<OrderView>, ApiError> {
    caller.refuse_limited()?;
    let order_id: OrderId = order_id.parse().map_err(|_| NO_ORDER)?;
    let order = orders::find(&api.store, caller.customer, order_id).await?.ok_or(NO_ORDER)?;
    let at = order.created_at;
    let mut payments = order_payments::list(&api.store, caller.customer, at, at).await?;
    let pi_id = order.payment.clone();
    let (payment, action) = match charge::look(&api.billing, &order).await? {
        PaymentStanding::Waiting(action) => {
            let is_full = caller.scope() == KeyScope::Full;
            ("requires_action", is_full.then(|| waiting(&api, order_id, action)))
        }
        PaymentStanding::Processing => ("processing", None),
        PaymentStanding::Paid => ("paid", None),
        PaymentStanding::Over => ("over", None),
    };
    let returned = returned_money::of_customer(&api.store, caller.customer).await?;
    let order = OrderOut::new(order, payments.remove(&order_id), &returned);
    Ok(axum::Json(OrderView { order, payment, pi_id, action }))
}
