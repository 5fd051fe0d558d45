//! Orders: what a customer bought, or tried to buy.

use axum::extract::State;
use domain::id::OrderId;
use domain::payment::{OrderChannel, OrderState};
use domain::time::Timestamp;
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
}

impl From<Order> for OrderOut {
    fn from(order: Order) -> Self {
        Self {
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
    let orders = page.entries.into_iter().map(OrderOut::from).collect();
    Ok(axum::Json(Orders { orders, next_before: page.next_before }))
}
