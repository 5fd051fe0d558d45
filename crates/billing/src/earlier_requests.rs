//! A purchase whose `Idempotency-Key` is unknown here: it may have been made before the database
//! was restored from an older copy. So the processor is asked before anything is taken.

use domain::id::CustomerId;
use domain::payment::OrderChannel;
use domain::request_key::RequestKey;
use failures::{Failure, PaymentProblem};
use processor_client::objects::{CheckoutSession, IntentStatus, ObjectMetadata, PaymentIntent};
use processor_client::{ListFilter, ProcessorError};
use settings::billing::CURRENCY;
use store::orders::{self, NewOrder, Order, OrderOpening};

use super::listing::all;
use super::lost_orders::AgreedOrder;
use super::period::seconds;
use super::{fulfil, marks, payer};
use crate::BillingState;

/// How long a key stands for the same request. The processor's clock may be behind ours.
const KEY_S: i64 = 24 * 3_600 + 600;

/// The order of a charge that was made under this key and is unknown here, with its payment. None
/// if there is none, or if the key is known.
pub(super) async fn charge(
    billing: &BillingState,
    customer: CustomerId,
    key: Option<RequestKey>,
) -> Result<Option<Order>, Failure> {
    let Some(hash) = unknown(billing, customer, key).await? else { return Ok(None) };
    let Some(payer) = payer::find(billing, customer).await? else { return Ok(None) };
    let made = recent_intents(billing, &payer).await?;
    let Some(intent) = made.iter().find(|intent| carries(&intent.metadata, &hash)) else {
        return Ok(None);
    };
    if intent.status == IntentStatus::Succeeded {
        fulfil::take_intent(billing, intent).await?;
        let paid = find_named(billing, customer, &intent.metadata).await?;
        let lost = || Failure::Internal(format!("the payment {} matches no order", intent.id));
        return paid.map(Some).ok_or_else(lost);
    }
    let card = intent.payment_method_id();
    let order = open(billing, &intent.metadata, &payer, card, intent.created).await?;
    orders::set_payment(&billing.store, order.id, &intent.id).await?;
    Ok(orders::find_any(&billing.store, order.id).await?)
}

/// The order of a checkout that was begun under this key and is unknown here, with its page.
pub(super) async fn checkout(
    billing: &BillingState,
    customer: CustomerId,
    key: Option<RequestKey>,
) -> Result<Option<Order>, Failure> {
    let Some(hash) = unknown(billing, customer, key).await? else { return Ok(None) };
    let Some(payer) = payer::find(billing, customer).await? else { return Ok(None) };
    let made = recent_pages(billing, &payer).await?;
    let Some(page) = made.iter().find(|page| carries(&page.metadata, &hash)) else {
        return Ok(None);
    };
    if page.is_paid() {
        fulfil::fulfil_session(billing, &page.id).await?;
        let paid = find_named(billing, customer, &page.metadata).await?;
        let lost = || Failure::Internal(format!("the page {} matches no order", page.id));
        return paid.map(Some).ok_or_else(lost);
    }
    let order = open(billing, &page.metadata, &payer, None, page.created).await?;
    orders::set_session(&billing.store, order.id, &page.id).await?;
    Ok(orders::find_any(&billing.store, order.id).await?)
}

/// The page that was opened for a purchase whose response was lost too long ago to be asked for
/// again. `reference` is the id of its order or offer.
pub(super) async fn find_page(
    billing: &BillingState,
    payer: &str,
    reference: &str,
) -> Result<Option<CheckoutSession>, ProcessorError> {
    let Ok(processor) = billing.processor() else { return Ok(None) };
    let pages = all(move |after| {
        let processor = processor.clone();
        async move {
            let of_payer = ListFilter {
                customer: Some(payer),
                after: after.as_deref(),
                ..ListFilter::default()
            };
            processor.list_checkouts(&of_payer).await
        }
    });
    let is_it = |page: &CheckoutSession| page.client_reference_id.as_deref() == Some(reference);
    Ok(pages.await?.into_iter().find(is_it))
}

/// The hash of a key that is unknown here.
async fn unknown(
    billing: &BillingState,
    customer: CustomerId,
    key: Option<RequestKey>,
) -> Result<Option<String>, Failure> {
    let Some(hash) = key.map(RequestKey::hash) else { return Ok(None) };
    let known = orders::find_by_request(&billing.store, customer, &hash).await?;
    Ok(known.is_none().then(|| hex::encode(hash)))
}

fn carries(metadata: &ObjectMetadata, hash: &str) -> bool {
    metadata.get(marks::REQUEST).is_some_and(|carried| carried == hash)
}

async fn recent_intents(
    billing: &BillingState,
    payer: &str,
) -> Result<Vec<PaymentIntent>, Failure> {
    let (processor, from) = (billing.processor()?, begin(billing));
    let made = all(move |after| {
        let processor = processor.clone();
        async move { processor.list_intents(&of(payer, from, after.as_deref())).await }
    });
    Ok(made.await?)
}

async fn recent_pages(
    billing: &BillingState,
    payer: &str,
) -> Result<Vec<CheckoutSession>, Failure> {
    let (processor, from) = (billing.processor()?, begin(billing));
    let made = all(move |after| {
        let processor = processor.clone();
        async move { processor.list_checkouts(&of(payer, from, after.as_deref())).await }
    });
    Ok(made.await?)
}

fn begin(billing: &BillingState) -> i64 {
    billing.clock.now().plus_seconds(-KEY_S).unix_seconds()
}

fn of<'a>(payer: &'a str, from: i64, after: Option<&'a str>) -> ListFilter<'a> {
    ListFilter { customer: Some(payer), created_from: Some(from), after, ..ListFilter::default() }
}

async fn find_named(
    billing: &BillingState,
    customer: CustomerId,
    metadata: &ObjectMetadata,
) -> Result<Option<Order>, Failure> {
    match marks::named_order(metadata) {
        Some(named) => Ok(orders::find(&billing.store, customer, named).await?),
        None => Ok(None),
    }
}

/// Opens an unpaid order again, under the id that it had. Another charge of the same pack may be in
/// progress by now: then the customer is told about that one.
async fn open(
    billing: &BillingState,
    metadata: &ObjectMetadata,
    payer: &str,
    card: Option<&str>,
    made_s: i64,
) -> Result<Order, Failure> {
    let named = marks::named_order(metadata);
    let agreed = named.and_then(|named| AgreedOrder::read(named, metadata));
    let agreed = agreed.ok_or(PaymentProblem::ChangeInProgress)?;
    let new = NewOrder {
        id: agreed.id,
        customer: agreed.customer,
        channel: agreed.channel,
        pack_id: &agreed.pack_id,
        packs: agreed.packs,
        credits: agreed.credits,
        amount_cents: agreed.amount_cents,
        currency: CURRENCY,
        livemode: billing.config.processor.livemode,
        processor_customer: payer,
        payment_method: card.filter(|_| agreed.channel != OrderChannel::Checkout),
        idempotency_hash: agreed.request_hash,
        at: agreed.id.made_at().unwrap_or_else(|| seconds(made_s)),
    };
    match orders::open(&billing.store, &new).await? {
        OrderOpening::Opened(order) | OrderOpening::Known(order) => Ok(order),
        OrderOpening::UnderWay(order) | OrderOpening::Busy(order) => {
            Err(super::charge::under_way(billing, order).into())
        }
        OrderOpening::JustEnded => Err(PaymentProblem::ChangeInProgress.into()),
    }
}
