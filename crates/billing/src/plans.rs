//! Plans and slots: what the configuration offers, the processor's prices for it, and what an item
//! of a subscription is.
//!
//! A price named in the configuration is used if it matches (`offered_prices`). Otherwise one is
//! created at the processor when it is first needed, and found again by a lookup key that contains
//! its purpose and amount.
//! The metadata of prices and products also says what they are for, so that a subscription keeps
//! what it bought when the offer changes.

use domain::platform::Platform;
use domain::slot::{AccountAllowances, AccountCounts};
use failures::Failure;
use processor_client::{NewPrice, NewProduct, ProcessorClient, ProcessorError};

use super::offered_prices::{self, PricedOffer};
use super::plan_versions;

pub use super::plan_versions::{SoldItem, bought, configured as version};
use crate::BillingState;
use settings::Config;
use settings::billing::{CURRENCY, INTERVAL, Plan, SlotPrice};

/// The prefixes of our product ids at the processor.
const PLAN_PRODUCT: &str = "creator_gateway_plan_";
const SLOT_PRODUCT: &str = "creator_gateway_slot_";
/// Metadata keys of prices: a plan's id with its monthly credits and accounts, or the stored name
/// of the platform of slots.
pub(super) const PLAN_KEY: &str = "plan_id";
pub(super) const CREDITS_KEY: &str = "monthly_credits";
pub(super) const ACCOUNTS_KEY: &str = "accounts";
pub(super) const SLOT_KEY: &str = "slot_platform";

/// Something that is paid monthly.
#[derive(Debug, Clone, Copy)]
pub enum OfferedItem<'a> {
    /// A plan.
    Plan(&'a Plan),
    /// One extra account on a platform.
    Slot(Platform, &'a SlotPrice),
}

/// The accounts that every customer has, without payment.
pub fn allowances(config: &Config) -> AccountAllowances {
    AccountAllowances {
        included: AccountCounts::each(|platform| config.slots.included_on(platform)),
    }
}

/// The plans that are for sale.
pub fn sold(config: &Config) -> impl Iterator<Item = &Plan> {
    config.plans.iter().filter(|plan| !plan.retired)
}

/// The plan with this id, if it is for sale.
pub fn plan<'a>(billing: &'a BillingState, id: &str) -> Result<&'a Plan, Failure> {
    const NO_PLAN: Failure = Failure::NotFound(
        "there is no plan with that id; `GET /v1/billing/subscriptions/plans` lists them",
    );
    sold(&billing.config).find(|plan| plan.id == id).ok_or(NO_PLAN)
}

/// The offer of an extra slot, if one is for sale.
pub fn slot(billing: &BillingState, platform: Platform) -> Option<OfferedItem<'_>> {
    billing.config.slots.prices.of(platform).map(|price| OfferedItem::Slot(platform, price))
}

/// The processor's price for an offer, which must match. The version of a plan is recorded before
/// it is sold.
pub async fn price(billing: &BillingState, offered: OfferedItem<'_>) -> Result<String, Failure> {
    let price_id = match offered_prices::checked(billing, PricedOffer::Item(offered)).await? {
        Some(price_id) => price_id,
        None => make_price(billing, offered).await?,
    };
    if let OfferedItem::Plan(plan) = offered {
        plan_versions::write_down_sold(billing, plan, &price_id).await?;
    }
    Ok(price_id)
}

async fn make_price(billing: &BillingState, offered: OfferedItem<'_>) -> Result<String, Failure> {
    let processor = billing.processor()?;
    let word = offered.word();
    make_product(processor, offered).await?;
    let purpose = offered.purpose();
    let metadata: Vec<_> = purpose.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let new = NewPrice {
        product: &offered.product(),
        unit_amount_cents: offered.cents(),
        currency: CURRENCY,
        interval: Some(INTERVAL),
        lookup_key: Some(&word),
        is_taxed: billing.config.billing.tax.automatic,
        metadata: &metadata,
    };
    match processor.create_price(&new, &super::key("price", &word)?).await {
        Ok(price) => Ok(price.id),
        // Another node created it in the meantime.
        Err(ProcessorError::Refused(refusal)) => {
            let found = offered_prices::checked(billing, PricedOffer::Item(offered)).await?;
            found.ok_or_else(|| ProcessorError::Refused(refusal).into())
        }
        Err(error) => Err(error.into()),
    }
}

/// The accounts of a plan in one word: a number for each built-in platform, then other platforms
/// that have any. Declaring a platform changes no price that exists.
fn account_word(plan: &Plan) -> String {
    let built_in = Platform::BUILT_IN.map(|on| plan.platforms.of(on).to_string());
    let others = Platform::all().into_iter().filter(|on| !Platform::BUILT_IN.contains(on));
    let others = others.filter(|on| plan.platforms.of(*on) > 0);
    let others = others.map(|on| format!("{}{}", on.stored_name(), plan.platforms.of(on)));
    built_in.into_iter().chain(others).collect::<Vec<_>>().join("-")
}

/// The platform whose slots a price sells, according to the configuration or the price's product.
pub(super) fn slot_platform(
    config: &Config,
    price: &str,
    product: Option<&str>,
) -> Option<Platform> {
    let is_price = |slot: &SlotPrice| !slot.price_id.is_empty() && slot.price_id == price;
    let mut sold = Platform::all().into_iter();
    let configured = sold.find(|on| config.slots.prices.of(*on).is_some_and(is_price));
    configured.or_else(|| product?.strip_prefix(SLOT_PRODUCT)?.parse().ok())
}

/// The plan that one of our products stands for.
pub(super) fn plan_of_product(product: Option<&str>) -> Option<&str> {
    product?.strip_prefix(PLAN_PRODUCT)
}

/// Creates the product, unless it exists.
async fn make_product(
    processor: &ProcessorClient,
    offered: OfferedItem<'_>,
) -> Result<(), Failure> {
    let (id, name) = (offered.product(), offered.name());
    let (key, value) = offered.subject();
    let new = NewProduct { id: Some(&id), name: &name, metadata: &[(key, &value)] };
    // The name of a slot's product follows the platform's, and so must the key.
    let request = match offered {
        OfferedItem::Plan(_) => id.clone(),
        OfferedItem::Slot(platform, _) => format!("{id}:{platform}"),
    };
    match processor.create_product(&new, &super::key("product", request)?).await {
        Ok(_) => Ok(()),
        Err(ProcessorError::Refused(refusal))
            if refusal.code.as_deref() == Some("resource_already_exists") =>
        {
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

impl OfferedItem<'_> {
    /// Its monthly price, in cents.
    pub const fn cents(&self) -> i64 {
        match self {
            Self::Plan(plan) => plan.price_cents,
            Self::Slot(_, price) => price.price_cents,
        }
    }

    pub(super) fn configured_price(&self) -> &str {
        match self {
            Self::Plan(plan) => &plan.price_id,
            Self::Slot(_, price) => &price.price_id,
        }
    }

    fn name(&self) -> String {
        match self {
            Self::Plan(plan) => plan.name.clone(),
            Self::Slot(platform, _) => format!("Extra account on {platform}"),
        }
    }

    fn product(&self) -> String {
        match self {
            Self::Plan(plan) => format!("{PLAN_PRODUCT}{}", plan.id),
            Self::Slot(platform, _) => format!("{SLOT_PRODUCT}{}", platform.stored_name()),
        }
    }

    /// The lookup key of its price: a different amount, credits or accounts make a different price.
    pub(super) fn word(&self) -> String {
        let terms = match self {
            Self::Plan(plan) => {
                format!("{}_{}_{}", plan.price_cents, plan.monthly_credits, account_word(plan))
            }
            Self::Slot(_, price) => price.price_cents.to_string(),
        };
        format!("{}_{terms}_{CURRENCY}_{INTERVAL}", self.product())
    }

    /// The metadata of its price.
    fn purpose(&self) -> Vec<(&'static str, String)> {
        let mut purpose = vec![self.subject()];
        if let Self::Plan(plan) = self {
            purpose.push((CREDITS_KEY, plan.monthly_credits.to_string()));
            purpose.push((ACCOUNTS_KEY, plan_versions::accounts(plan).to_string()));
        }
        purpose
    }

    fn subject(&self) -> (&'static str, String) {
        match self {
            Self::Plan(plan) => (PLAN_KEY, plan.id.clone()),
            Self::Slot(platform, _) => (SLOT_KEY, platform.stored_name().to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slot_prices_are_recognised_by_configuration_or_product() {
        let config = Config::from_toml(
            "[slots.prices]\nplatform_beta = { price_cents = 500, price_id = \"price_beta\" }\n",
        )
        .unwrap();
        let product = |id| slot_platform(&config, "price_1", Some(id));

        assert_eq!(slot_platform(&config, "price_beta", None), Some(Platform::BETA));
        assert_eq!(product("creator_gateway_slot_platform_alpha"), Some(Platform::ALPHA));
        assert_eq!(product("creator_gateway_slot_x"), None);
        assert_eq!(slot_platform(&config, "price_1", None), None);
        assert_eq!(plan_of_product(Some("creator_gateway_plan_old")), Some("old"));
    }
}
