//! The version of a plan that a price of the processor sells.
//!
//! What was recorded when the price was first seen counts. A new price is read from the processor:
//! the prices that we create name their plan, its credits and its accounts in their metadata. Older
//! prices name only the plan; they sell what the configuration says of it, provided that it still
//! costs the same.

use domain::plan::PlanVersion;
use domain::platform::Platform;
use domain::slot::AccountCounts;
use domain::time::Timestamp;
use failures::{Failure, PaymentProblem};
use processor_client::objects::{ExpandableObject, ProcessorPrice};
use processor_client::{ProcessorClient, ProcessorError};
use settings::billing::Plan;
use settings::{Config, ConfigProblem};
use store::plan_versions::{self, UnknownVersion};
use store::{Store, StoreError};

use super::plans;
use super::plans::{ACCOUNTS_KEY, CREDITS_KEY, PLAN_KEY, SLOT_KEY};
use crate::BillingState;

/// What a price sells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SoldItem {
    /// A version of a plan.
    Plan(PlanVersion),
    /// Extra slots on a platform.
    Slots(Platform),
    /// Nothing of ours.
    Other,
}

/// Why it is unknown what a price sells.
#[derive(Debug, thiserror::Error)]
pub enum UnknownPrice {
    /// The database could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The processor could not be reached.
    #[error("the payment processor could not be asked about its price {price_id}")]
    Processor {
        /// The price.
        price_id: String,
        /// The cause.
        source: ProcessorError,
    },
    /// The price names a plan, but neither its metadata nor the configuration says what the plan
    /// includes.
    #[error(
        "the payment processor's price {price_id} sells the plan `{plan_id}` for {cents} cents, and nothing says with how many \
         credits and accounts: write `monthly_credits` (a number) and `accounts` (such as \
         `platform_alpha=2,platform_beta=2`) into the price's metadata at the processor"
    )]
    Version {
        /// The price.
        price_id: String,
        /// The plan that the price names.
        plan_id: String,
        /// Its amount, or a question mark.
        cents: String,
    },
}

impl From<UnknownPrice> for Failure {
    fn from(unknown: UnknownPrice) -> Self {
        match unknown {
            UnknownPrice::Store(error) => error.into(),
            UnknownPrice::Processor { source, .. } => source.into(),
            version @ UnknownPrice::Version { .. } => Self::Internal(version.to_string()),
        }
    }
}

/// The sources in which versions are looked up.
#[derive(Clone, Copy)]
pub struct VersionLookup<'a> {
    /// Stores known versions.
    pub store: &'a Store,
    /// The plans that are sold now.
    pub config: &'a Config,
    /// `None` if no processor is configured.
    pub processor: Option<&'a ProcessorClient>,
    /// The time at which a new version is recorded.
    pub now: Timestamp,
}

/// What the processor's price sells. A version seen for the first time is recorded. Fails if the
/// price is new and the processor cannot be reached, or if it sells a plan with unknown credits.
pub async fn bought(
    billing: &BillingState,
    price_id: &str,
    product_id: Option<&str>,
) -> Result<SoldItem, Failure> {
    Ok(VersionLookup::of(billing).bought(price_id, product_id).await?)
}

/// Records what a configured plan sells at this price. If the price was first seen with other
/// terms, the plan is not for sale.
pub(super) async fn write_down_sold(
    billing: &BillingState,
    plan: &Plan,
    price_id: &str,
) -> Result<PlanVersion, Failure> {
    let version = configured(plan, price_id);
    let known = plan_versions::write_down(&billing.store, &version, billing.clock.now()).await?;
    if known.is_same_offer(&version) {
        return Ok(known);
    }
    tracing::error!(plan.id = plan.id, problem = other_terms(&known), "a price does not match");
    Err(PaymentProblem::NotForSale { what: format!("the plan {}", plan.id) }.into())
}

/// The accounts of a configured plan.
pub(super) fn accounts(plan: &Plan) -> AccountCounts {
    AccountCounts::each(|platform| plan.platforms.of(platform))
}

/// Problems that prevent the start: configured prices that were first seen with other terms, and
/// subscriptions to an unknown version.
pub async fn problems(versions: VersionLookup<'_>) -> Result<Vec<ConfigProblem>, StoreError> {
    let mut problems = Vec::new();
    let plans = versions.config.plans.iter().enumerate();
    for (index, plan) in plans.filter(|(_, plan)| !plan.price_id.is_empty()) {
        let version = configured(plan, &plan.price_id);
        let known = plan_versions::find(versions.store, &plan.price_id).await?;
        if let Some(other) = known.filter(|known| !known.is_same_offer(&version)) {
            problems
                .push(ConfigProblem::new(format!("plans[{index}].price_id"), other_terms(&other)));
        }
    }
    for unknown in plan_versions::list_unknown(versions.store).await? {
        match versions.of_subscription(&unknown).await {
            Ok(()) => {}
            Err(UnknownPrice::Store(error)) => return Err(error),
            Err(problem) => {
                problems.push(ConfigProblem::new(
                    "plans",
                    format!("there are subscribers, and {problem}"),
                ));
            }
        }
    }
    Ok(problems)
}

impl<'a> VersionLookup<'a> {
    /// Looks versions up with billing's state.
    pub fn of(billing: &'a BillingState) -> Self {
        Self {
            store: &billing.store,
            config: &billing.config,
            processor: billing.processor().ok(),
            now: billing.clock.now(),
        }
    }

    /// What the price with this id sells.
    pub async fn bought(
        &self,
        price_id: &str,
        product_id: Option<&str>,
    ) -> Result<SoldItem, UnknownPrice> {
        if let Some(known) = self.known(price_id, product_id).await? {
            return Ok(known);
        }
        let Some(processor) = self.processor else { return Ok(SoldItem::Other) };
        match processor.retrieve_price(price_id).await {
            Ok(price) => self.said_by(&price).await,
            Err(ProcessorError::Missing) => Ok(SoldItem::Other),
            Err(source) => Err(UnknownPrice::Processor { price_id: price_id.to_owned(), source }),
        }
    }

    /// The same for a price that was just read from the processor.
    pub async fn of_price(&self, price: &ProcessorPrice) -> Result<SoldItem, UnknownPrice> {
        let product = price.product.as_ref().map(ExpandableObject::id);
        match self.known(&price.id, product).await? {
            Some(known) => Ok(known),
            None => self.said_by(price).await,
        }
    }

    /// Resolves the price of a subscription stored when only the plan's id was recorded. Without a
    /// processor, the configured plan with that id is used.
    async fn of_subscription(&self, unknown: &UnknownVersion) -> Result<(), UnknownPrice> {
        let plan_id = unknown.plan_id.as_deref().unwrap_or_default();
        let bought = match (self.processor, self.plan(plan_id)) {
            (None, Some(plan)) => self.write_down(configured(plan, &unknown.price_id)).await?,
            _ => self.bought(&unknown.price_id, None).await?,
        };
        if matches!(bought, SoldItem::Plan(_)) {
            return Ok(());
        }
        let (price_id, plan_id) = (unknown.price_id.clone(), plan_id.to_owned());
        Err(UnknownPrice::Version { price_id, plan_id, cents: "?".to_owned() })
    }

    /// What is recorded or configured about a price.
    async fn known(
        &self,
        price_id: &str,
        product_id: Option<&str>,
    ) -> Result<Option<SoldItem>, UnknownPrice> {
        if let Some(version) = plan_versions::find(self.store, price_id).await? {
            return Ok(Some(SoldItem::Plan(version)));
        }
        if let Some(platform) = plans::slot_platform(self.config, price_id, product_id) {
            return Ok(Some(SoldItem::Slots(platform)));
        }
        let mut plans = self.config.plans.iter();
        let plan = plans.find(|plan| !plan.price_id.is_empty() && plan.price_id == price_id);
        match plan {
            Some(plan) => self.write_down(configured(plan, price_id)).await.map(Some),
            None => Ok(None),
        }
    }

    /// What a price's own metadata says.
    async fn said_by(&self, price: &ProcessorPrice) -> Result<SoldItem, UnknownPrice> {
        let said = |key: &str| price.metadata.get(key).map(String::as_str);
        let product = price.product.as_ref().map(ExpandableObject::id);
        let plan_id = said(PLAN_KEY).or_else(|| plans::plan_of_product(product));
        let Some(plan_id) = plan_id else {
            let platform = said(SLOT_KEY).and_then(|word| word.parse().ok());
            return Ok(platform.map_or(SoldItem::Other, SoldItem::Slots));
        };
        let terms = said(CREDITS_KEY).zip(said(ACCOUNTS_KEY)).zip(price.unit_amount);
        let terms = terms.and_then(|((credits, accounts), cents)| {
            let credits: i64 = credits.parse().ok().filter(|credits| *credits >= 0)?;
            Some((credits, accounts.parse().ok()?, cents))
        });
        if let Some((monthly_credits, accounts, price_cents)) = terms {
            let (price_id, plan_id) = (price.id.clone(), plan_id.to_owned());
            let version = PlanVersion { price_id, plan_id, price_cents, monthly_credits, accounts };
            return self.write_down(version).await;
        }
        let plan = self.plan(plan_id);
        let is_same_price =
            |sold: &&Plan| price.unit_amount.is_none_or(|cents| cents == sold.price_cents);
        match plan.filter(is_same_price) {
            Some(plan) => self.write_down(configured(plan, &price.id)).await,
            None => Err(UnknownPrice::Version {
                price_id: price.id.clone(),
                plan_id: plan_id.to_owned(),
                cents: price.unit_amount.map_or_else(|| "?".to_owned(), |cents| cents.to_string()),
            }),
        }
    }

    async fn write_down(&self, version: PlanVersion) -> Result<SoldItem, UnknownPrice> {
        Ok(SoldItem::Plan(plan_versions::write_down(self.store, &version, self.now).await?))
    }

    fn plan(&self, id: &str) -> Option<&'a Plan> {
        self.config.plans.iter().find(|plan| plan.id == id)
    }
}

/// What a configured plan sells at this price.
pub fn configured(plan: &Plan, price_id: &str) -> PlanVersion {
    PlanVersion {
        price_id: price_id.to_owned(),
        plan_id: plan.id.clone(),
        price_cents: plan.price_cents,
        monthly_credits: plan.monthly_credits,
        accounts: accounts(plan),
    }
}

fn other_terms(known: &PlanVersion) -> String {
    let PlanVersion { price_id, plan_id, price_cents, monthly_credits, accounts } = known;
    format!(
        "{price_id} was sold as the plan `{plan_id}` for {price_cents} cents with {monthly_credits} credits and the \
         accounts {accounts}, and its subscribers keep that: make a new price at the payment processor for other terms, \
         and name it here"
    )
}
