//! Orders: what a customer bought, or tried to buy.

use std::collections::BTreeMap;

use axum::extract::State;
use domain::id::OrderId;
use domain::payment::{OrderChannel, OrderState};
use domain::time::Timestamp;
use store::order_payments::{self, OrderPayment};
use store::orders::{self, Order, OrderQuery};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use web::auth::Caller;
use web::error::ApiError;
use web::extract::Query;
use web::page::PageQuery;

use crate::ApiState;
use crate::words;

pub(super) fn router() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new().routes(routes!(list_orders))
}

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
    fn new(order: Order, payment: Option<OrderPayment>) -> Self {
        Self {
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
        Some(times) => order_payments::list(&api.store, customer, times).await?,
        None => BTreeMap::new(),
    };
    let order = |order: Order| {
        let payment = payments.remove(&order.id);
        OrderOut::new(order, payment)
    };
    let orders = page.entries.into_iter().map(order).collect();
    Ok(axum::Json(Orders { orders, next_before: page.next_before }))
}
