//! Prices at the processor, compared with what the configuration sells. What has a price that does
//! not match is not for sale: no page is opened for it, and lists show it as unavailable. The
//! operator is told once. It is for sale again as soon as its price is found to match.
//!
//! Prices are compared at the start, every ten minutes, and before a page opens or a subscription
//! is changed. A price that cannot be read is unknown, not wrong: what is known of it stays.
//! Charges of saved cards and automatic top-up send the configured amount and need no price.

use std::collections::BTreeSet;

use domain::platform::Platform;
use emails::OperatorNotice;
use failures::{Failure, PaymentProblem};
use processor_client::objects::ProcessorPrice;
use processor_client::{ProcessorClient, ProcessorError};
use runtime::metrics;
use settings::Config;
use settings::billing::{CURRENCY, INTERVAL, Pack};
use store::price_faults::{self, PriceFault};

use super::plans::{self, OfferedItem};
use crate::BillingState;

/// Something that is sold at a price of the processor.
#[derive(Debug, Clone, Copy)]
pub enum PricedOffer<'a> {
    /// A pack, paid once.
    Pack(&'a Pack),
    /// A plan or a slot, paid by the month.
    Item(OfferedItem<'a>),
}

/// A price as it was found at the processor.
#[derive(Debug)]
pub enum FoundPrice {
    /// It matches, and has this id.
    Good(String),
    /// It does not match.
    Wrong {
        /// Its id.
        price_id: String,
        /// What is wrong, for people: `costs 1 cents instead of 4900 cents`.
        fault: String,
    },
    /// It does not exist yet; it is made when it is needed.
    NotMade,
}

/// What is for sale, by the words that [`PricedOffer::subject`] returns.
#[derive(Debug, Default)]
pub struct UnavailableOffers(BTreeSet<(String, String)>);

impl UnavailableOffers {
    /// Whether an offer can be bought on a page.
    pub fn allow(&self, offer: PricedOffer<'_>) -> bool {
        let Some(price_ref) = offer.price_ref() else { return true };
        !self.0.contains(&(offer.subject(), price_ref))
    }
}

impl<'a> PricedOffer<'a> {
    /// Everything that is sold.
    pub fn all(config: &'a Config) -> Vec<Self> {
        let packs = config.packs.iter().map(Self::Pack);
        let plans = plans::sold(config).map(|plan| Self::Item(OfferedItem::Plan(plan)));
        let slots = config.slots.prices.sold();
        let slots = slots.map(|(platform, price)| Self::Item(OfferedItem::Slot(platform, price)));
        packs.chain(plans).chain(slots).collect()
    }

    /// What it is, in the configuration's words: `pack:pack_10`.
    pub fn subject(&self) -> String {
        match self {
            Self::Pack(pack) => format!("pack:{}", pack.id),
            Self::Item(OfferedItem::Plan(plan)) => format!("plan:{}", plan.id),
            Self::Item(OfferedItem::Slot(platform, _)) => {
                format!("slot:{}", platform.stored_name())
            }
        }
    }

    /// The price's id in the configuration, or the word that it is found by; `None` if the price is
    /// sent with each page.
    pub fn price_ref(&self) -> Option<String> {
        let configured = self.configured_price();
        match self {
            _ if !configured.is_empty() => Some(configured.to_owned()),
            Self::Pack(_) => None,
            Self::Item(offered) => Some(offered.word()),
        }
    }

    /// Whether the configuration names its price.
    pub fn is_configured(&self) -> bool {
        !self.configured_price().is_empty()
    }

    /// Reads its price from the processor.
    pub async fn find(&self, processor: &ProcessorClient) -> Result<FoundPrice, ProcessorError> {
        let configured = self.configured_price();
        if configured.is_empty() {
            let Self::Item(offered) = self else { return Ok(FoundPrice::NotMade) };
            let found = processor.find_prices(&offered.word()).await?.data;
            let in_use = found.iter().find(|price| price.active != Some(false));
            let price = in_use.or_else(|| found.first());
            return Ok(price.map_or(FoundPrice::NotMade, |price| self.compared(price)));
        }
        match processor.retrieve_price(configured).await {
            Ok(price) => Ok(self.compared(&price)),
            Err(ProcessorError::Missing) => Ok(FoundPrice::Wrong {
                price_id: configured.to_owned(),
                fault: "does not exist in this account and mode".to_owned(),
            }),
            Err(error) => Err(error),
        }
    }

    /// Whether a price is the one that this is sold at.
    fn is_sold_at(&self, price: &ProcessorPrice) -> bool {
        let configured = self.configured_price();
        match self {
            _ if !configured.is_empty() => price.id == configured,
            Self::Pack(_) => false,
            Self::Item(offered) => price.lookup_key.as_deref() == Some(&offered.word()),
        }
    }

    fn compared(&self, price: &ProcessorPrice) -> FoundPrice {
        let mut differences = self.differences(price);
        if price.active == Some(false) {
            differences.insert(0, "is archived".to_owned());
        }
        let price_id = price.id.clone();
        if differences.is_empty() {
            return FoundPrice::Good(price_id);
        }
        FoundPrice::Wrong { price_id, fault: differences.join(", and ") }
    }

    /// How a price differs from what is configured, in words that follow its id.
    fn differences(&self, price: &ProcessorPrice) -> Vec<String> {
        let mut differences = Vec::new();
        let wanted = self.cents();
        if price.unit_amount != Some(wanted) {
            let costs = price
                .unit_amount
                .map_or_else(|| "no fixed amount".to_owned(), |cents| format!("{cents} cents"));
            differences.push(format!("costs {costs} instead of {wanted} cents"));
        }
        if price.currency != CURRENCY {
            differences.push(format!("is in {} instead of {CURRENCY}", price.currency));
        }
        let is_monthly = price.recurring.as_ref().is_some_and(|interval| {
            interval.interval == INTERVAL && interval.interval_count.unwrap_or(1) == 1
        });
        match (self, is_monthly, price.recurring.is_some()) {
            (Self::Item(_), false, _) => differences.push("is not paid once a month".to_owned()),
            (Self::Pack(_), _, true) => differences.push("is paid again and again".to_owned()),
            _ => {}
        }
        differences
    }

    const fn cents(&self) -> i64 {
        match self {
            Self::Pack(pack) => pack.price_cents,
            Self::Item(offered) => offered.cents(),
        }
    }

    fn configured_price(&self) -> &str {
        match self {
            Self::Pack(pack) => &pack.price_id,
            Self::Item(offered) => offered.configured_price(),
        }
    }

    const fn kind(&self) -> &'static str {
        match self {
            Self::Pack(_) => "pack",
            Self::Item(OfferedItem::Plan(_)) => "plan",
            Self::Item(OfferedItem::Slot(..)) => "slot",
        }
    }

    fn not_for_sale(&self) -> Failure {
        let what = match self {
            Self::Pack(pack) => format!("the pack {}", pack.id),
            Self::Item(OfferedItem::Plan(plan)) => format!("the plan {}", plan.id),
            Self::Item(OfferedItem::Slot(platform, _)) => format!("an extra slot on {platform}"),
        };
        PaymentProblem::NotForSale { what }.into()
    }
}

/// What is not for sale on pages at the moment.
pub async fn unavailable(billing: &BillingState) -> Result<UnavailableOffers, Failure> {
    let faults = price_faults::list(&billing.store).await?;
    let named = faults.into_iter().map(|fault| (fault.subject, fault.price_ref));
    Ok(UnavailableOffers(named.collect()))
}

/// The id of the price at which something is sold now; `None` if it must be made. Fails if it does
/// not match, also if it did not when it could last be read.
pub(super) async fn checked(
    billing: &BillingState,
    offer: PricedOffer<'_>,
) -> Result<Option<String>, Failure> {
    let processor = billing.processor()?;
    let Some(price_ref) = offer.price_ref() else { return Ok(None) };
    match offer.find(processor).await {
        Ok(found) => {
            note(billing, offer, &price_ref, &found).await?;
            match found {
                FoundPrice::Good(price_id) => Ok(Some(price_id)),
                FoundPrice::NotMade => Ok(None),
                FoundPrice::Wrong { .. } => Err(offer.not_for_sale()),
            }
        }
        Err(error) => {
            let known = price_faults::find(&billing.store, &offer.subject(), &price_ref).await?;
            if known.is_some() {
                return Err(offer.not_for_sale());
            }
            match offer.configured_price() {
                // It cannot be found by its word.
                "" => Err(error.into()),
                configured => {
                    tracing::warn!(%error, price.id = configured, "a price could not be compared");
                    Ok(Some(configured.to_owned()))
                }
            }
        }
    }
}

/// Refuses more slots at a price of the subscription that is the one sold now, if it does not
/// match. A subscriber's own older price is none of those that are sold.
pub(super) async fn check_item(
    billing: &BillingState,
    platform: Platform,
    price_id: &str,
) -> Result<(), Failure> {
    let Some(offered) = plans::slot(billing, platform) else { return Ok(()) };
    let offer = PricedOffer::Item(offered);
    let price = match billing.processor()?.retrieve_price(price_id).await {
        Ok(price) if offer.is_sold_at(&price) => price,
        // Of what cannot be read nothing is known.
        Ok(_) | Err(_) => return Ok(()),
    };
    // An archived price goes on for its subscribers.
    if offer.differences(&price).is_empty() {
        return Ok(());
    }
    checked(billing, offer).await.map(drop)
}

/// The failure of a page that could not be made for these offers: if the processor refused one of
/// their prices, that could not be read before, they are not for sale.
pub(super) fn refused(offers: &[PricedOffer<'_>], error: ProcessorError) -> Failure {
    let priced = offers.iter().find(|offer| offer.price_ref().is_some());
    match (&error, priced) {
        (ProcessorError::Refused(refusal), Some(offer))
            if refusal.param.as_deref().is_some_and(|param| param.starts_with("line_items")) =>
        {
            tracing::error!(%error, offer = offer.subject(), "the payment processor refuses a price");
            offer.not_for_sale()
        }
        _ => error.into(),
    }
}

/// Compares every price. What cannot be read is left as it is, until the next round.
pub async fn check_all(billing: &BillingState) {
    let Ok(processor) = billing.processor() else { return };
    let offers = PricedOffer::all(&billing.config);
    for offer in &offers {
        let Some(price_ref) = offer.price_ref() else { continue };
        match offer.find(processor).await {
            Ok(found) => {
                if let Err(error) = note(billing, *offer, &price_ref, &found).await {
                    tracing::warn!(%error, offer = offer.subject(), "a price could not be noted");
                }
            }
            Err(error @ ProcessorError::RateLimited(_)) => {
                tracing::warn!(%error, "prices are compared later");
                break;
            }
            Err(error) => {
                tracing::warn!(%error, offer = offer.subject(), "a price could not be compared");
            }
        }
    }
    if let Err(error) = sum_up(billing, &offers).await {
        tracing::warn!(%error, "the prices that do not match could not be counted");
    }
}

/// Forgets faults of what is no longer sold, and counts the others.
async fn sum_up(billing: &BillingState, offers: &[PricedOffer<'_>]) -> Result<(), Failure> {
    let sold: BTreeSet<(String, Option<String>)> =
        offers.iter().map(|offer| (offer.subject(), offer.price_ref())).collect();
    let mut wrong = BTreeSet::new();
    for fault in price_faults::list(&billing.store).await? {
        let (subject, price_ref) = (fault.subject, fault.price_ref);
        if sold.contains(&(subject.clone(), Some(price_ref.clone()))) {
            wrong.insert(subject);
        } else {
            price_faults::remove(&billing.store, &subject, &price_ref).await?;
        }
    }
    for kind in metrics::OFFER_KINDS {
        let of_kind = offers.iter().filter(|offer| offer.kind() == kind);
        let count = of_kind.filter(|offer| wrong.contains(&offer.subject())).count();
        metrics::prices_not_for_sale(kind, count);
    }
    Ok(())
}

/// Records what was found, and tells the operator what is new.
async fn note(
    billing: &BillingState,
    offer: PricedOffer<'_>,
    price_ref: &str,
    found: &FoundPrice,
) -> Result<(), Failure> {
    let (store, subject) = (&billing.store, offer.subject());
    let known = price_faults::find(store, &subject, price_ref).await?;
    let FoundPrice::Wrong { price_id, fault } = found else {
        if known.is_some() && price_faults::remove(store, &subject, price_ref).await? {
            tracing::info!(offer = subject, "the price matches: it is for sale again");
        }
        return Ok(());
    };
    if known.is_some_and(|known| known.price_id == *price_id && known.fault == *fault) {
        return Ok(());
    }
    let new = PriceFault {
        subject: subject.clone(),
        price_ref: price_ref.to_owned(),
        price_id: price_id.clone(),
        fault: fault.clone(),
        found_at: billing.clock.now(),
    };
    let notice = OperatorNotice::PriceFault {
        subject: subject.clone(),
        price_id: price_id.clone(),
        fault: fault.clone(),
    };
    let email = super::operator_email(billing, notice);
    if price_faults::note(store, &new, email.as_slice()).await? {
        billing.jobs.wake();
    }
    tracing::error!(
        offer = subject,
        price.id = price_id,
        fault,
        "a price does not match: not for sale"
    );
    Ok(())
}
