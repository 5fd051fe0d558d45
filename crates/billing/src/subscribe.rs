//! Subscribing, and the portal: pages of the processor.
//!
//! A customer has one subscription, so only one page to subscribe is open at a time: the same
//! choice returns the same page, another choice closes the previous one. Of concurrent choices one
//! gets a page, and the others are refused.

use domain::id::{CustomerId, OfferId};
use domain::platform::Platform;
use failures::Failure;
use failures::PaymentProblem;
use processor_client::objects::{CheckoutSession, SessionStatus};
use processor_client::{
    CheckoutLine, CheckoutPurpose, LinePrice, NewCheckout, NewPortal, PortalOffer, ProcessorError,
};
use settings::billing::Plan;
use store::subscription_offers::{self, SubscriptionOffer};

use super::offered_prices::{self, PricedOffer};
use super::plans::{self, OfferedItem};
use super::{earlier_requests, payer, subscriptions};
use crate::BillingState;

/// A page is reused for this part of its 24 hours.
const PAGE_USED_S: i64 = 23 * 3_600;
/// How often an earlier page is closed to make room.
const ROUNDS_MAX: usize = 3;

/// How long an offer may have no page while the request that created it is still asking for one.
const MAKING_S: i64 = super::changes::LEASE_S;
/// The time in which a request normally gets the page for its offer.
const MOMENT_S: i64 = 10;
const PAGE_OVER: Failure =
    Failure::Gone("the page to subscribe on has ended; send the request again");

/// A customer's choice.
pub struct PlanChoice<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// Extra slots on each platform; no entry has a count of zero.
    pub slots: Vec<(Platform, i64)>,
}

/// A page of the processor.
pub struct ProcessorPage {
    /// The address of the page.
    pub url: String,
    /// The processor's id of the session.
    pub session: String,
}

/// Opens the page on which a plan is bought. Refused if the customer already has a subscription.
pub async fn subscribe(
    billing: &BillingState,
    customer: CustomerId,
    choice: &PlanChoice<'_>,
) -> Result<ProcessorPage, Failure> {
    billing.processor()?;
    // This choice may replace an offer that existed before it, but not one created concurrently.
    let known = subscription_offers::find_open(&billing.store, customer).await?;
    let payer = payer::ensure(billing, customer).await?;
    for _ in 0..ROUNDS_MAX {
        refuse_second(billing, customer, &payer).await?;
        let now = billing.clock.now();
        let new = SubscriptionOffer {
            id: OfferId::new(now, billing.random.bytes()),
            customer,
            plan_id: choice.plan.id.clone(),
            slots: choice.word(),
            session_id: None,
            created_at: now,
        };
        let Some(earlier) = subscription_offers::open(&billing.store, &new).await? else {
            return offer(billing, &new, &payer, choice).await;
        };
        let is_same = PlanChoice::is_of(&earlier, billing, choice);
        let is_young = now < earlier.created_at.plus_seconds(PAGE_USED_S);
        if is_same && is_young {
            let page = offer(billing, &earlier, &payer, choice).await;
            if !matches!(page, Err(Failure::Gone(_))) {
                return page;
            }
        }
        if !is_same && known != Some(earlier.id) {
            return Err(PaymentProblem::OtherChoice.into());
        }
        withdraw(billing, &earlier, &payer).await?;
    }
    Err(PaymentProblem::ChangeInProgress.into())
}

/// Opens the portal, where customers manage cards and invoices and end their subscription.
pub async fn portal(billing: &BillingState, customer: CustomerId) -> Result<String, Failure> {
    let processor = billing.processor()?;
    let payer = payer::ensure(billing, customer).await?;
    let configured = &billing.config.processor.portal_configuration;
    let configuration = match configured.as_str() {
        "" => portal_configuration(billing).await?,
        configured => configured.to_owned(),
    };
    let new = NewPortal {
        customer: &payer,
        return_url: &billing.config.processor.return_url(&billing.config.http.public_base_url),
        configuration: Some(&configuration),
        flow: None,
    };
    // Each link works once, so each is a separate request.
    let key = super::key("portal", OfferId::new(billing.clock.now(), billing.random.bytes()))?;
    Ok(processor.create_portal(&new, &key).await?.url)
}

/// The portal configuration that we created before, or a new one.
async fn portal_configuration(billing: &BillingState) -> Result<String, Failure> {
    let processor = billing.processor()?;
    let offer = PortalOffer::of(billing.config.billing.tax.asks_companies());
    let found = processor.find_portal_configuration(offer).await?;
    if let Some(found) = found {
        return Ok(found.id);
    }
    let kind = match offer {
        PortalOffer::Plain => "portal_configuration",
        PortalOffer::Company => "portal_configuration_company",
    };
    let key = super::key(kind, billing.clock.now().day().number())?;
    Ok(processor.create_portal_configuration(offer, &key).await?.id)
}

async fn refuse_second(
    billing: &BillingState,
    customer: CustomerId,
    payer: &str,
) -> Result<(), Failure> {
    subscriptions::sync_customer(billing, customer, payer).await?;
    let known = store::subscriptions::find(&billing.store, customer).await?;
    if known.is_some_and(|known| known.view.status.is_live()) {
        return Err(PaymentProblem::AlreadySubscribed.into());
    }
    Ok(())
}

/// Opens the page of an offer, or returns the page that it has.
async fn offer(
    billing: &BillingState,
    offer: &SubscriptionOffer,
    payer: &str,
    choice: &PlanChoice<'_>,
) -> Result<ProcessorPage, Failure> {
    let session = match &offer.session_id {
        Some(session) => match billing.processor()?.retrieve_checkout(session).await {
            Err(ProcessorError::Missing) => return Err(PAGE_OVER),
            read => read?,
        },
        None => {
            let session = create(billing, offer, payer, choice).await?;
            subscription_offers::set_session(&billing.store, offer.id, &session.id).await?;
            session
        }
    };
    let url = session.url.filter(|_| session.status == SessionStatus::Open);
    let url = url.ok_or(PAGE_OVER)?;
    if subscription_offers::find_open(&billing.store, offer.customer).await? != Some(offer.id) {
        return Err(PaymentProblem::OtherChoice.into());
    }
    Ok(ProcessorPage { url, session: session.id })
}

async fn create(
    billing: &BillingState,
    offer: &SubscriptionOffer,
    payer: &str,
    choice: &PlanChoice<'_>,
) -> Result<CheckoutSession, Failure> {
    let mut offers = vec![(OfferedItem::Plan(choice.plan), 1)];
    for (platform, count) in &choice.slots {
        offers.push((plans::slot(billing, *platform).ok_or(PAGE_OVER)?, *count));
    }
    let mut prices = Vec::new();
    for (offered, count) in &offers {
        prices.push((plans::price(billing, *offered).await?, *count));
    }
    let lines: Vec<_> = prices
        .iter()
        .map(|(price, quantity)| CheckoutLine {
            price: LinePrice::Known(price),
            quantity: *quantity,
        })
        .collect();
    let base = &billing.config.http.public_base_url;
    let (id, customer_id) = (offer.id.to_string(), offer.customer.to_string());
    let new = NewCheckout {
        purpose: CheckoutPurpose::Subscription,
        customer: payer,
        client_reference_id: Some(&id),
        lines: &lines,
        success_url: &billing.config.processor.success_url(base),
        cancel_url: &billing.config.processor.cancel_url(base),
        metadata: &[("customer_id", &customer_id), ("offer_id", &id)],
        expires_at: None,
        asks: billing.config.billing.questions(),
        makes_invoice: false,
    };
    let session = billing.processor()?.create_checkout(&new, &super::key("co", offer.id)?).await;
    session.map_err(|error| {
        let offers: Vec<_> = offers.iter().map(|(item, _)| PricedOffer::Item(*item)).collect();
        offered_prices::refused(&offers, error)
    })
}

/// Closes the page of an earlier offer, so that it can no longer be paid, and then the offer. A
/// page that was not recorded is found by repeating the request that created it, or among the
/// customer's pages once the processor may have forgotten that request.
async fn withdraw(
    billing: &BillingState,
    offer: &SubscriptionOffer,
    payer: &str,
) -> Result<(), Failure> {
    let now = billing.clock.now();
    let session = match (&offer.session_id, PlanChoice::of(billing, offer)) {
        (Some(session), _) => Some(session.clone()),
        (None, _) if now < offer.created_at.plus_seconds(MOMENT_S) => {
            return Err(PaymentProblem::OtherChoice.into());
        }
        (None, _) if now < offer.created_at.plus_seconds(MAKING_S) => {
            return Err(PaymentProblem::ChangeInProgress.into());
        }
        (None, Some(choice)) if now < offer.created_at.plus_seconds(PAGE_USED_S) => {
            Some(create(billing, offer, payer, &choice).await?.id)
        }
        (None, _) => {
            let found = earlier_requests::find_page(billing, payer, &offer.id.to_string()).await?;
            found.map(|page| page.id)
        }
    };
    if let Some(session) = session {
        let key = super::key("expire", offer.id)?;
        match billing.processor()?.expire_checkout(&session, &key).await {
            // It has ended already, or was paid; reading the subscription shows which.
            Ok(_) | Err(ProcessorError::Refused(_) | ProcessorError::Missing) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(subscription_offers::close(&billing.store, offer.id, now).await?)
}

impl<'a> PlanChoice<'a> {
    /// The choice for which an offer was made; `None` if that is no longer sold.
    fn of(billing: &'a BillingState, offer: &SubscriptionOffer) -> Option<Self> {
        let plan = plans::plan(billing, &offer.plan_id).ok()?;
        let words = offer.slots.split(',').filter(|word| !word.is_empty());
        let slot = |word: &str| {
            let (platform, count) = word.split_once('=')?;
            Some((platform.parse().ok()?, count.parse().ok()?))
        };
        Some(Self { plan, slots: words.map(slot).collect::<Option<_>>()? })
    }

    /// Whether an offer was made for this choice.
    fn is_of(offer: &SubscriptionOffer, billing: &BillingState, choice: &Self) -> bool {
        let word = choice.word();
        offer.plan_id == choice.plan.id
            // Earlier versions named platforms by their wire names.
            && (offer.slots == word
                || PlanChoice::of(billing, offer).is_some_and(|made| made.word() == word))
    }

    /// The slots in canonical form, which stays the same when a platform gets another name.
    fn word(&self) -> String {
        let word =
            |(platform, count): &(Platform, i64)| format!("{}={count}", platform.stored_name());
        let mut words: Vec<String> = self.slots.iter().map(word).collect();
        words.sort_unstable();
        words.join(",")
    }
}
