//! Saved cards: taken over from the processor, removed there and here.
//!
//! The processor knows which cards a customer has; what is kept here is the one that charges use, as people recognise
//! it. Every view of a card is read from the processor.

use clients::processor::objects::{CheckoutSession, PaymentMethod, SubscriptionStatus};
use clients::processor::{CustomerChange, Listing, Processor, ProcessorError};
use domain::id::CustomerId;
use store::cards::{self, Card};
use store::processor_customers;

use super::{fulfil, payer};
use crate::app::App;
use crate::error::ApiError;
use crate::error::payments::PaymentProblem;

/// Cards that one customer may have at the processor and that a removal detaches.
const CARDS_MAX: u8 = 100;

const NO_SESSION: ApiError =
    ApiError::NotFound("there is no checkout of that id; `POST /v1/billing/checkout` begins one");

/// Takes over the card of a checkout that came back, or the newest card that the processor knows, and grants what the
/// checkout sold if it is paid.
pub(crate) async fn sync(
    app: &App,
    customer: CustomerId,
    session: Option<&str>,
) -> Result<Option<Card>, ApiError> {
    let processor = app.processor()?;
    let Some(payer) = processor_customers::find(&app.store, customer).await? else {
        return if session.is_some() { Err(NO_SESSION) } else { Ok(None) };
    };
    let newest = match session {
        Some(id) => {
            let own = own_session(processor, id, &payer).await?;
            fulfil::take_session(app, &own).await?;
            own.payment_method().and_then(|method| method.object()).cloned()
        }
        None => None,
    };
    let newest = match newest {
        Some(card) => Some(card),
        None => processor.list_cards(&payer, 1).await?.data.into_iter().next(),
    };
    match newest {
        Some(card) => remember(app, customer, &card).await?,
        None => {
            cards::remove(&app.store, customer, app.clock.now()).await?;
        }
    }
    Ok(cards::find(&app.store, customer).await?)
}

/// A session of this customer; anybody else's does not exist.
async fn own_session(
    processor: &Processor,
    id: &str,
    payer: &str,
) -> Result<CheckoutSession, ApiError> {
    match processor.retrieve_checkout(id).await {
        Ok(session) if session.customer_id() == Some(payer) => Ok(session),
        Ok(_) | Err(ProcessorError::Missing) => Err(NO_SESSION),
        Err(error) => Err(error.into()),
    }
}

/// Makes a card the one that is charged, here and for invoices. One that is detached by now is left alone.
pub(crate) async fn remember(
    app: &App,
    customer: CustomerId,
    method: &PaymentMethod,
) -> Result<(), ApiError> {
    let (Some(owner), Some(card)) = (&method.customer, of(method)) else { return Ok(()) };
    if processor_customers::find(&app.store, customer).await?.as_deref() != Some(owner.id()) {
        return Ok(());
    }
    let known = cards::find(&app.store, customer).await?;
    let now = app.clock.now();
    if known.is_none_or(|known| known.payment_method != card.payment_method) {
        let change = CustomerChange { default_payment_method: Some(&method.id), email: None };
        // The same card may become the default a second time, so the time is part of what the request is known by.
        let key = super::key("card", format!("{customer}:{}:{}", method.id, now.unix_micros()))?;
        app.processor()?.update_customer(owner.id(), &change, &key).await?;
    }
    Ok(cards::save(&app.store, customer, &card, now).await?)
}

/// Reads a card again that the processor told of, and takes over what became of it.
pub(crate) async fn refresh(app: &App, method: &str) -> Result<(), ApiError> {
    let read = match app.processor()?.retrieve_payment_method(method).await {
        Ok(read) => Some(read),
        Err(ProcessorError::Missing) => None,
        Err(error) => return Err(error.into()),
    };
    let attached = read.and_then(|card| Some((card.customer.clone()?, card)));
    let Some((owner, card)) = attached else {
        cards::remove_detached(&app.store, method, app.clock.now()).await?;
        return Ok(());
    };
    let Some(customer) = processor_customers::owner(&app.store, owner.id()).await? else {
        return Ok(());
    };
    let known = cards::find(&app.store, customer).await?;
    // Which of several cards is charged is the customer's choice; a further one changes nothing.
    if known.is_none_or(|known| known.payment_method == card.id) {
        remember(app, customer, &card).await?;
    }
    Ok(())
}

/// Takes over the card that the customer chose for invoices at the processor, for instance in the portal.
pub(crate) async fn take_default(app: &App, processor_customer: &str) -> Result<(), ApiError> {
    let processor = app.processor()?;
    let read = match processor.retrieve_customer(processor_customer).await {
        Ok(read) => read,
        Err(ProcessorError::Missing) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let now = app.clock.now();
    if read.deleted {
        processor_customers::unlink(&app.store, processor_customer, now).await?;
        return Ok(());
    }
    let owner = processor_customers::owner(&app.store, processor_customer).await?;
    let chosen = read.invoice_settings.default_payment_method;
    if let (Some(customer), Some(chosen)) = (owner, chosen) {
        let method = processor.retrieve_payment_method(chosen.id()).await?;
        remember(app, customer, &method).await?;
    }
    Ok(())
}

/// Removes the saved card: auto top-up ends first, with the card here, then every card is detached at the processor,
/// so that none comes back. A charge that is under way ends by its own order. Asked again after a failure, it goes on.
/// Refused while a subscription is paid with it.
pub(crate) async fn remove(app: &App, customer: CustomerId) -> Result<(), ApiError> {
    let Some(payer) = processor_customers::find(&app.store, customer).await? else {
        return Ok(());
    };
    let processor = app.processor()?;
    if is_subscribed(processor, &payer).await? {
        return Err(PaymentProblem::CardInUse.into());
    }
    cards::remove(&app.store, customer, app.clock.now()).await?;
    for card in processor.list_cards(&payer, CARDS_MAX).await?.data {
        detach(processor, &card.id).await?;
    }
    // An event may have brought it back while it was still attached.
    cards::remove(&app.store, customer, app.clock.now()).await?;
    Ok(())
}

async fn detach(processor: &Processor, method: &str) -> Result<(), ApiError> {
    match processor.detach_payment_method(method, &super::key("detach", method)?).await {
        // It was detached before.
        Ok(_) | Err(ProcessorError::Missing) => Ok(()),
        Err(ProcessorError::Refused(refusal)) if refusal.status.as_u16() == 400 => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Whether the processor will want to be paid for a subscription.
async fn is_subscribed(processor: &Processor, payer: &str) -> Result<bool, ApiError> {
    let listing = Listing { customer: Some(payer), status: Some("all"), ..Listing::default() };
    let subscriptions = processor.list_subscriptions(&listing).await?.data;
    Ok(subscriptions.iter().any(|subscription| match subscription.status {
        SubscriptionStatus::Canceled | SubscriptionStatus::IncompleteExpired => false,
        SubscriptionStatus::Incomplete
        | SubscriptionStatus::Trialing
        | SubscriptionStatus::Active
        | SubscriptionStatus::PastDue
        | SubscriptionStatus::Unpaid
        | SubscriptionStatus::Paused
        | SubscriptionStatus::Other => true,
    }))
}

/// What is kept of a card.
fn of(method: &PaymentMethod) -> Option<Card> {
    let card = method.card.as_ref()?;
    Some(Card {
        payment_method: method.id.clone(),
        brand: card.brand.clone(),
        last4: card.last4.clone(),
        exp_month: card.exp_month,
        exp_year: card.exp_year,
        fingerprint: card.fingerprint.clone(),
    })
}

/// The card to charge, and who it belongs to at the processor.
pub(crate) async fn to_charge(app: &App, customer: CustomerId) -> Result<(Card, String), ApiError> {
    let card = cards::find(&app.store, customer).await?.ok_or(PaymentProblem::NoSavedCard)?;
    Ok((card, payer::ensure(app, customer).await?))
}
