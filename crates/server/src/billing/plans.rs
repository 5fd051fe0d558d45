//! Plans and slots: what the configuration offers, at which of the processor's prices, and what an item of a
//! subscription is.
//!
//! A price that the configuration names is taken as it is. Otherwise one is made at the processor when it is first
//! needed, and found again by a word that says what it is for and what it costs. Prices and products say what they are
//! for in their metadata, so that a subscription keeps what it bought when the offer changes.

use std::collections::BTreeMap;

use clients::processor::objects::{Price, Reference};
use clients::processor::{NewPrice, NewProduct, Processor, ProcessorError};
use domain::platform::Platform;
use domain::slot::{Accounts, Allowances};
use store::subscriptions::Gives;

use crate::app::App;
use crate::config::Config;
use crate::config::billing::{CURRENCY, INTERVAL, Plan, SlotPrice};
use crate::error::ApiError;

/// What ids of our products at the processor begin with.
const PLAN_PRODUCT: &str = "creator_gateway_plan_";
const SLOT_PRODUCT: &str = "creator_gateway_slot_";
/// What prices say they are for.
const PLAN_KEY: &str = "plan_id";
const SLOT_KEY: &str = "slot_platform";

/// Something that is paid by the month.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Offered<'a> {
    /// A plan.
    Plan(&'a Plan),
    /// One extra account on a platform.
    Slot(Platform, &'a SlotPrice),
}

/// How many accounts customers have for good, and what each plan adds.
pub(crate) fn allowances(config: &Config) -> Allowances {
    let included = Accounts::each(|platform| config.slots.included_on(platform));
    let of_plan = |plan: &Plan| {
        let accounts = Accounts::each(|platform| plan.platforms.of(platform));
        (plan.id.clone(), accounts)
    };
    let plans: BTreeMap<_, _> = config.plans.iter().map(of_plan).collect();
    Allowances { included, plans }
}

/// The plan of this id.
pub(crate) fn plan<'a>(app: &'a App, id: &str) -> Result<&'a Plan, ApiError> {
    const NO_PLAN: ApiError = ApiError::NotFound(
        "there is no plan of that id; `GET /v1/billing/subscriptions/plans` lists them",
    );
    app.config.plans.iter().find(|plan| plan.id == id).ok_or(NO_PLAN)
}

/// What an extra slot costs, where one is sold.
pub(crate) fn slot(app: &App, platform: Platform) -> Option<Offered<'_>> {
    app.config.slots.prices.of(platform).map(|price| Offered::Slot(platform, price))
}

/// The processor's price for it.
pub(crate) async fn price(app: &App, offered: Offered<'_>) -> Result<String, ApiError> {
    if !offered.configured_price().is_empty() {
        return Ok(offered.configured_price().to_owned());
    }
    let processor = app.processor()?;
    let word = offered.word();
    if let Some(found) = processor.find_prices(&word).await?.data.into_iter().next() {
        return Ok(found.id);
    }
    make_product(processor, offered).await?;
    let (name, value) = offered.purpose();
    let new = NewPrice {
        product: &offered.product(),
        unit_amount_cents: offered.cents(),
        currency: CURRENCY,
        interval: Some(INTERVAL),
        lookup_key: Some(&word),
        metadata: &[(name, &value)],
    };
    match processor.create_price(&new, &super::key("price", &word)?).await {
        Ok(price) => Ok(price.id),
        // Somebody else made it in the meantime.
        Err(ProcessorError::Refused(refusal)) => {
            let found = processor.find_prices(&word).await?.data.into_iter().next();
            found.map(|price| price.id).ok_or_else(|| ProcessorError::Refused(refusal).into())
        }
        Err(error) => Err(error.into()),
    }
}

/// What an item at this price gives.
pub(crate) fn gives(config: &Config, price: &Price) -> Gives {
    let product = price.product.as_ref().map(Reference::id);
    if let Some(known) = known(config, Some(&price.id), product) {
        return known;
    }
    let platform = price.metadata.get(SLOT_KEY).and_then(|word| word.parse().ok());
    match (price.metadata.get(PLAN_KEY), platform) {
        (Some(plan), _) => Gives::Plan(plan.clone()),
        (None, Some(platform)) => Gives::Slots(platform),
        (None, None) => Gives::Other,
    }
}

/// The same from what a line of an invoice says; nothing where the price itself must be asked.
pub(crate) fn known(config: &Config, price: Option<&str>, product: Option<&str>) -> Option<Gives> {
    let is_price = |configured: &str| !configured.is_empty() && price == Some(configured);
    if let Some(plan) = config.plans.iter().find(|plan| is_price(&plan.price_id)) {
        return Some(Gives::Plan(plan.id.clone()));
    }
    let of_slot = Platform::ALL.iter().find(|platform| {
        config.slots.prices.of(**platform).is_some_and(|slot| is_price(&slot.price_id))
    });
    if let Some(platform) = of_slot {
        return Some(Gives::Slots(*platform));
    }
    if let Some(plan) = product?.strip_prefix(PLAN_PRODUCT) {
        return Some(Gives::Plan(plan.to_owned()));
    }
    let platform = product?.strip_prefix(SLOT_PRODUCT)?;
    platform.parse().ok().map(Gives::Slots)
}

/// Makes the product, unless it is there.
async fn make_product(processor: &Processor, offered: Offered<'_>) -> Result<(), ApiError> {
    let (id, name) = (offered.product(), offered.name());
    let (key, value) = offered.purpose();
    let new = NewProduct { id: Some(&id), name: &name, metadata: &[(key, &value)] };
    match processor.create_product(&new, &super::key("product", &id)?).await {
        Ok(_) => Ok(()),
        Err(ProcessorError::Refused(refusal))
            if refusal.code.as_deref() == Some("resource_already_exists") =>
        {
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

impl Offered<'_> {
    /// What it costs a month, in cents.
    pub(crate) const fn cents(&self) -> i64 {
        match self {
            Self::Plan(plan) => plan.price_cents,
            Self::Slot(_, price) => price.price_cents,
        }
    }

    fn configured_price(&self) -> &str {
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
            Self::Slot(platform, _) => format!("{SLOT_PRODUCT}{platform}"),
        }
    }

    /// What the price is found by: another amount is another price.
    fn word(&self) -> String {
        format!("{}_{}_{CURRENCY}_{INTERVAL}", self.product(), self.cents())
    }

    fn purpose(&self) -> (&'static str, String) {
        match self {
            Self::Plan(plan) => (PLAN_KEY, plan.id.clone()),
            Self::Slot(platform, _) => (SLOT_KEY, platform.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn price(id: &str, product: &str, metadata: (&str, &str)) -> Price {
        let json = serde_json::json!({
            "id": id, "product": product, "metadata": {metadata.0: metadata.1},
        });
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn a_price_is_known_by_the_configuration_by_its_product_or_by_what_it_says() {
        let config = Config::from_toml(
            "[[plans]]\nid = \"pro\"\nname = \"Pro\"\nprice_cents = 100\nmonthly_credits = 1\n\
             price_id = \"price_pro\"\n\
             [plans.platforms]\nplatform_alpha = 1\nplatform_beta = 0\nplatform_gamma = 0\n\
             platform_delta = 0\n\
             [slots.prices]\nplatform_beta = { price_cents = 500, price_id = \"price_beta\" }\n",
        )
        .unwrap();
        let plan = |id: &str| Gives::Plan(id.to_owned());

        for (price, expected) in [
            (price("price_pro", "prod_1", ("", "")), plan("pro")),
            (price("price_beta", "prod_1", ("", "")), Gives::Slots(Platform::Beta)),
            (price("price_1", "creator_gateway_plan_old", ("", "")), plan("old")),
            (
                price("price_2", "creator_gateway_slot_platform_alpha", ("", "")),
                Gives::Slots(Platform::Alpha),
            ),
            (price("price_3", "prod_1", ("plan_id", "gone")), plan("gone")),
            (
                price("price_4", "prod_1", ("slot_platform", "platform_beta")),
                Gives::Slots(Platform::Beta),
            ),
            (price("price_5", "prod_1", ("slot_platform", "x")), Gives::Other),
        ] {
            assert_eq!(gives(&config, &price), expected, "{price:?}");
        }
        assert_eq!(allowances(&config).of_plan(Some("pro")).on(Platform::Alpha), 1);
    }
}
