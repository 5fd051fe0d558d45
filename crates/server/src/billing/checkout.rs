//! A pack on the processor's page: the order, then the page.

use clients::processor::objects::SessionStatus;
use clients::processor::{Line, LinePrice, NewCheckout, Purpose};
use domain::id::{CustomerId, OrderId};
use domain::payment::{OrderChannel, OrderState};
use domain::request_key::RequestKey;
use failures::Failure;
use settings::billing::Pack;
use store::orders::{self, Order};

use super::opening::{self, Purchase};
use super::payer;
use crate::app::App;
use crate::error::ApiError;

const ENDED: ApiError = ApiError::Failure(Failure::Gone(
    "the checkout of this Idempotency-Key has ended; begin another one with a new key",
));

/// A page on which the order can be paid.
pub(crate) struct Begun {
    pub(crate) url: String,
    pub(crate) session: String,
    pub(crate) order: OrderId,
}

/// Begins a checkout. The same `Idempotency-Key` gives the same page as long as it is open.
pub(crate) async fn begin(
    app: &App,
    customer: CustomerId,
    pack_id: &str,
    idempotency: Option<RequestKey>,
) -> Result<Begun, ApiError> {
    let pack = super::pack(app, pack_id)?;
    app.processor()?;
    let payer = payer::ensure(app, customer).await?;
    let purchase = Purchase {
        customer,
        pack,
        channel: OrderChannel::Checkout,
        payer: &payer,
        card: None,
        idempotency,
    };
    let order = opening::open(app, &purchase).await?;
    match order.state {
        OrderState::Pending => {}
        OrderState::Paid | OrderState::Failed | OrderState::Expired | OrderState::Refunded => {
            return Err(ENDED);
        }
    }
    match order.session.as_deref() {
        Some(session) => again(app, &order, session).await,
        None => open_page(app, &order, pack).await,
    }
}

/// Opens the page. Asked again with the same order, the processor gives the same page.
async fn open_page(app: &App, order: &Order, pack: &Pack) -> Result<Begun, ApiError> {
    let section = &app.config.processor;
    let base = &app.config.http.public_base_url;
    let (success_url, cancel_url) = (section.success_url(base), section.cancel_url(base));
    let (order_id, customer_id) = (order.id.to_string(), order.customer.to_string());
    let price = if pack.price_id.is_empty() {
        LinePrice::Inline {
            name: &pack.name,
            unit_amount_cents: order.amount_cents,
            currency: &order.currency,
            interval: None,
        }
    } else {
        LinePrice::Known(&pack.price_id)
    };
    let new = NewCheckout {
        purpose: Purpose::Payment,
        customer: &order.processor_customer,
        client_reference_id: Some(&order_id),
        lines: &[Line { price, quantity: 1 }],
        success_url: &success_url,
        cancel_url: &cancel_url,
        metadata: &[("order_id", &order_id), ("customer_id", &customer_id)],
        expires_at: None,
    };
    let session = app.processor()?.create_checkout(&new, &super::key("co", order.id)?).await?;
    orders::set_session(&app.store, order.id, &session.id).await?;
    let url = session.url.ok_or(ENDED)?;
    Ok(Begun { url, session: session.id, order: order.id })
}

/// The page of an order that was begun before.
async fn again(app: &App, order: &Order, session: &str) -> Result<Begun, ApiError> {
    let session = app.processor()?.retrieve_checkout(session).await?;
    let url = session.url.filter(|_| session.status == SessionStatus::Open);
    Ok(Begun { url: url.ok_or(ENDED)?, session: session.id, order: order.id })
}
