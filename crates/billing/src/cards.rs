//! Saved cards: taken over from the processor, and removed there and here.
//!
//! The processor knows all cards of a customer. We store only the one that is charged, in a form
//! that people recognise. Every card shown is read from the processor.

use std::cmp::Ordering;

use domain::id::CustomerId;
use domain::time::Timestamp;
use failures::Failure;
use failures::PaymentProblem;
use processor_client::objects::{
    CheckoutSession, PaymentMethod, ProcessorSubscription, SubscriptionStatus,
};
use processor_client::{ListFilter, ProcessorClient, ProcessorError};
use store::cards::{self, SavedCard};
use store::processor_customers;

use super::card_on_file::{self, OpenInvoices};
use super::{fulfil, payer};
use crate::BillingState;

/// The most cards of one customer that a removal detaches.
const CARDS_MAX: u8 = 100;

const NO_SESSION: Failure =
    Failure::NotFound("there is no checkout with that id; `POST /v1/billing/checkout` starts one");

/// The result of taking over a card.
pub struct SyncedCard {
    /// The saved card.
    pub card: Option<SavedCard>,
    /// What it did for the customer's open invoices.
    pub invoices: OpenInvoices,
}

/// Takes over the card of a completed checkout, or the newest card at the processor. Pays open
/// invoices with it, and grants what the checkout sold if that is paid.
pub async fn sync(
    billing: &BillingState,
    customer: CustomerId,
    session: Option<&str>,
) -> Result<SyncedCard, Failure> {
    let processor = billing.processor()?;
    let Some(payer) = processor_customers::find(&billing.store, customer).await? else {
        let nothing = SyncedCard { card: None, invoices: OpenInvoices::default() };
        return if session.is_some() { Err(NO_SESSION) } else { Ok(nothing) };
    };
    let session = match session {
        Some(id) => Some(own_session(processor, id, &payer).await?),
        None => None,
    };
    // What was bought is granted even if the card could not be saved.
    let saved = save_synced(billing, customer, &payer, session.as_ref()).await;
    if let Some(session) = &session {
        fulfil::take_session(billing, session).await?;
    }
    let invoices = saved?;
    Ok(SyncedCard { card: cards::find(&billing.store, customer).await?, invoices })
}

/// Saves the card of a checkout, unless a newer one was entered since. Without a checkout, saves
/// the newest card.
async fn save_synced(
    billing: &BillingState,
    customer: CustomerId,
    payer: &str,
    session: Option<&CheckoutSession>,
) -> Result<OpenInvoices, Failure> {
    let of_session = session.and_then(CheckoutSession::payment_method);
    let Some(card) = of_session.and_then(|method| method.object()) else {
        let newest = billing.processor()?.list_cards(payer, 1).await?.data.into_iter().next();
        return save_newest(billing, customer, newest.as_ref()).await;
    };
    if is_older(billing, customer, card).await? {
        return Ok(OpenInvoices::default());
    }
    save_newest(billing, customer, Some(card)).await
}

/// Saves the card that the customer asked for, even if it is already the saved one: its owner may
/// have fixed it at the bank.
async fn save_newest(
    billing: &BillingState,
    customer: CustomerId,
    newest: Option<&PaymentMethod>,
) -> Result<OpenInvoices, Failure> {
    let Some(method) = newest else {
        cards::remove(&billing.store, customer, billing.clock.now()).await?;
        return Ok(OpenInvoices::default());
    };
    match theirs(billing, customer, method).await? {
        Some((payer, card)) => card_on_file::save(billing, customer, payer, card).await,
        None => Ok(OpenInvoices::default()),
    }
}

/// A checkout session of this customer. Another customer's is reported as missing.
async fn own_session(
    processor: &ProcessorClient,
    id: &str,
    payer: &str,
) -> Result<CheckoutSession, Failure> {
    match processor.retrieve_checkout(id).await {
        Ok(session) if session.customer_id() == Some(payer) => Ok(session),
        Ok(_) | Err(ProcessorError::Missing) => Err(NO_SESSION),
        Err(error) => Err(error.into()),
    }
}

/// Makes a card the one that is charged, here, for subscriptions and for their open invoices. Does
/// nothing if it has been detached or is already saved unchanged.
pub async fn remember(
    billing: &BillingState,
    customer: CustomerId,
    method: &PaymentMethod,
) -> Result<OpenInvoices, Failure> {
    let Some((payer, card)) = theirs(billing, customer, method).await? else {
        return Ok(OpenInvoices::default());
    };
    if cards::find(&billing.store, customer).await?.as_ref() == Some(&card) {
        return Ok(OpenInvoices::default());
    }
    card_on_file::save(billing, customer, payer, card).await
}

/// The same for the card of a payment, of which we may hear late: it does not replace a card that
/// was entered later.
pub async fn remember_newest(
    billing: &BillingState,
    customer: CustomerId,
    method: &PaymentMethod,
) -> Result<(), Failure> {
    if !is_older(billing, customer, method).await? {
        remember(billing, customer, method).await?;
    }
    Ok(())
}

/// Whether the saved card is a different one that was entered after this one, or chosen since.
async fn is_older(
    billing: &BillingState,
    customer: CustomerId,
    method: &PaymentMethod,
) -> Result<bool, Failure> {
    let known = cards::find(&billing.store, customer).await?;
    let Some(known) = known.filter(|known| known.payment_method != method.id) else {
        return Ok(false);
    };
    let processor = billing.processor()?;
    let read = match processor.retrieve_payment_method(&known.payment_method).await {
        Ok(read) => read,
        Err(ProcessorError::Missing) => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    let Some(payer) = &read.customer else { return Ok(false) };
    let chosen_at = cards::find_choice(&billing.store, customer, &known.payment_method).await?;
    if chosen_at.is_some_and(|at| at.unix_seconds() > method.created) {
        return Ok(true);
    }
    match read.created.cmp(&method.created) {
        Ordering::Greater => Ok(true),
        Ordering::Less => Ok(false),
        // Created in the same second: the processor lists the newest first.
        Ordering::Equal => {
            let listed = processor.list_cards(payer.id(), CARDS_MAX).await?.data;
            let either = |card: &&PaymentMethod| card.id == read.id || card.id == method.id;
            Ok(listed.iter().find(either).is_some_and(|newer| newer.id == read.id))
        }
    }
}

/// The processor's customer and the stored form of the card, if the card is attached to this
/// customer.
async fn theirs<'a>(
    billing: &BillingState,
    customer: CustomerId,
    method: &'a PaymentMethod,
) -> Result<Option<(&'a str, SavedCard)>, Failure> {
    let (Some(owner), Some(card)) = (&method.customer, card_on_file::kept(method)) else {
        return Ok(None);
    };
    let payer = processor_customers::find(&billing.store, customer).await?;
    Ok((payer.as_deref() == Some(owner.id())).then(|| (owner.id(), card)))
}

/// Reads a card again after the processor sent an event about it, and takes over its new state.
pub async fn refresh(billing: &BillingState, method: &str) -> Result<(), Failure> {
    let read = match billing.processor()?.retrieve_payment_method(method).await {
        Ok(read) => Some(read),
        Err(ProcessorError::Missing) => None,
        Err(error) => return Err(error.into()),
    };
    let attached = read.and_then(|card| Some((card.customer.clone()?, card)));
    let Some((owner, card)) = attached else {
        cards::remove_detached(&billing.store, method, billing.clock.now()).await?;
        return Ok(());
    };
    let Some(customer) = processor_customers::owner(&billing.store, owner.id()).await? else {
        return Ok(());
    };
    let known = cards::find(&billing.store, customer).await?;
    // The customer chooses which of several cards is charged; adding another changes nothing.
    if known.is_none_or(|known| known.payment_method == card.id) {
        remember(billing, customer, &card).await?;
    }
    Ok(())
}

/// Takes over the default card that the customer chose at the processor, for instance in the
/// portal. The choice was made no later than `told_at`, the time of the processor's event.
pub async fn take_default(
    billing: &BillingState,
    processor_customer: &str,
    told_at: Timestamp,
) -> Result<(), Failure> {
    let processor = billing.processor()?;
    let owner = processor_customers::owner(&billing.store, processor_customer).await?;
    let Some(customer) = owner else { return Ok(()) };
    let known = cards::find(&billing.store, customer).await?;
    let read = match processor.retrieve_customer(processor_customer).await {
        Ok(read) => read,
        Err(ProcessorError::Missing) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    if read.deleted {
        processor_customers::unlink(&billing.store, processor_customer, billing.clock.now())
            .await?;
        return Ok(());
    }
    let Some(chosen) = read.invoice_settings.default_payment_method else { return Ok(()) };
    let method = processor.retrieve_payment_method(chosen.id()).await?;
    // A card saved since then is a later choice than the one just read.
    if cards::find(&billing.store, customer).await? != known {
        return Ok(());
    }
    let remembered = remember(billing, customer, &method).await;
    if known.is_some_and(|known| known.payment_method != method.id) {
        cards::note_choice(&billing.store, customer, &method.id, told_at).await?;
    }
    remembered.map(drop)
}

/// Removes the saved card. Automatic top-up is turned off first, together with the card here; then
/// every card is detached at the processor, so that none comes back. A charge in progress ends with
/// its own order. Repeating the request after a failure continues the removal. Refused while a
/// subscription is paid with the card.
pub async fn remove(billing: &BillingState, customer: CustomerId) -> Result<(), Failure> {
    let Some(payer) = processor_customers::find(&billing.store, customer).await? else {
        return Ok(());
    };
    let processor = billing.processor()?;
    if is_subscribed(processor, &payer).await? {
        return Err(PaymentProblem::CardInUse.into());
    }
    cards::remove(&billing.store, customer, billing.clock.now()).await?;
    for card in processor.list_cards(&payer, CARDS_MAX).await?.data {
        detach(processor, &card.id).await?;
    }
    // An event may have saved it again while it was still attached.
    cards::remove(&billing.store, customer, billing.clock.now()).await?;
    Ok(())
}

async fn detach(processor: &ProcessorClient, method: &str) -> Result<(), Failure> {
    match processor.detach_payment_method(method, &super::key("detach", method)?).await {
        // It was already detached.
        Ok(_) | Err(ProcessorError::Missing) => Ok(()),
        Err(ProcessorError::Refused(refusal)) if refusal.status.as_u16() == 400 => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Whether the processor will charge for a subscription again.
async fn is_subscribed(processor: &ProcessorClient, payer: &str) -> Result<bool, Failure> {
    let listing =
        ListFilter { customer: Some(payer), status: Some("all"), ..ListFilter::default() };
    let subscriptions = processor.list_subscriptions(&listing).await?.data;
    // One that ends with its period is paid already, unless an invoice is open.
    let ends = |one: &ProcessorSubscription| one.cancel_at_period_end || one.cancel_at.is_some();
    Ok(subscriptions.iter().any(|subscription| match subscription.status {
        SubscriptionStatus::Active | SubscriptionStatus::Trialing if ends(subscription) => false,
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

/// The card to charge.
pub struct ChargeableCard {
    /// The card.
    pub card: SavedCard,
    /// Its owner's id at the processor.
    pub payer: String,
}

/// The card to charge.
pub async fn to_charge(
    billing: &BillingState,
    customer: CustomerId,
) -> Result<ChargeableCard, Failure> {
    let card = cards::find(&billing.store, customer).await?.ok_or(PaymentProblem::NoSavedCard)?;
    Ok(ChargeableCard { card, payer: payer::ensure(billing, customer).await? })
}
