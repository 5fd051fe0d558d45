//! Buying a pack on the processor's page: the order is opened first, then the page.

use domain::id::{CustomerId, OrderId};
use domain::payment::{OrderChannel, OrderState};
use domain::request_key::RequestKey;
use failures::Failure;
use processor_client::objects::SessionStatus;
use processor_client::{CheckoutLine, CheckoutPurpose, LinePrice, NewCheckout};
use settings::billing::Pack;
use store::orders::{self, Order};

use super::marks::{self, OrderMetadata};
use super::offered_prices::{self, PricedOffer};
use super::opening::{self, PackPurchase};
use super::{earlier_requests, lost, payer};
use crate::BillingState;

const ENDED: Failure = Failure::Gone(
    "the checkout of this Idempotency-Key has ended; start another one with a new key",
);

/// A page on which the order can be paid.
pub struct CheckoutPage {
    /// The address of the page.
    pub url: String,
    /// The processor's id of the session.
    pub session: String,
    /// The order that the session pays.
    pub order: OrderId,
}

/// Starts a checkout. The same `Idempotency-Key` returns the same page while it is open.
pub async fn begin(
    billing: &BillingState,
    customer: CustomerId,
    pack_id: &str,
    idempotency: Option<RequestKey>,
) -> Result<CheckoutPage, Failure> {
    let pack = super::pack(billing, pack_id)?;
    offered_prices::checked(billing, PricedOffer::Pack(pack)).await?;
    let payer = payer::ensure(billing, customer).await?;
    let purchase = PackPurchase {
        customer,
        pack,
        channel: OrderChannel::Checkout,
        payer: &payer,
        card: None,
        idempotency,
    };
    let order = match earlier_requests::checkout(billing, customer, idempotency).await? {
        Some(earlier) if earlier.pack_id == pack.id && earlier.channel == purchase.channel => {
            earlier
        }
        Some(_) => return Err(Failure::IdempotencyMismatch),
        None => opening::open(billing, &purchase).await?,
    };
    match order.state {
        OrderState::Pending => {}
        OrderState::Paid | OrderState::Failed | OrderState::Expired | OrderState::Refunded => {
            return Err(ENDED);
        }
    }
    match order.session.as_deref() {
        Some(session) => again(billing, &order, session).await,
        // The processor may have forgotten the request, and would open a second page for the order.
        None if lost::is_old(billing, &order) => Err(ENDED),
        None => open_page(billing, &order, pack).await,
    }
}

/// Opens the page. The processor returns the same page when the same order is sent again.
async fn open_page(
    billing: &BillingState,
    order: &Order,
    pack: &Pack,
) -> Result<CheckoutPage, Failure> {
    let section = &billing.config.processor;
    let base = &billing.config.http.public_base_url;
    let (success_url, cancel_url) = (section.success_url(base), section.cancel_url(base));
    let order_id = order.id.to_string();
    let metadata = OrderMetadata::of(order);
    let metadata = match pack.price_id.as_str() {
        "" => metadata,
        price => metadata.with(marks::PRICE, price.to_owned()),
    };
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
        purpose: CheckoutPurpose::Payment,
        customer: &order.processor_customer,
        client_reference_id: Some(&order_id),
        lines: &[CheckoutLine { price, quantity: 1 }],
        success_url: &success_url,
        cancel_url: &cancel_url,
        metadata: &metadata.pairs(),
        expires_at: None,
        asks: billing.config.billing.questions(),
        makes_invoice: billing.config.billing.pack_invoices,
    };
    let key = super::key("co", order.id)?;
    let session = billing.processor()?.create_checkout(&new, &key).await;
    let session =
        session.map_err(|error| offered_prices::refused(&[PricedOffer::Pack(pack)], error))?;
    orders::set_session(&billing.store, order.id, &session.id).await?;
    let url = session.url.ok_or(ENDED)?;
    Ok(CheckoutPage { url, session: session.id, order: order.id })
}

/// The page of an order that was opened before.
async fn again(
    billing: &BillingState,
    order: &Order,
    session: &str,
) -> Result<CheckoutPage, Failure> {
    let session = billing.processor()?.retrieve_checkout(session).await?;
    let url = session.url.filter(|_| session.status == SessionStatus::Open);
    Ok(CheckoutPage { url: url.ok_or(ENDED)?, session: session.id, order: order.id })
}
