//! Products and prices: what an item of a subscription is.

use super::checkout::TAX_BEHAVIOR;
use super::error::ProcessorError;
use super::form::{FormParameters, metadata_is};
use super::objects::{ListPage, ProcessorPrice, ProcessorProduct, SearchPage};
use super::transport::{IdempotencyKey, ProcessorClient};

/// A product to be made.
#[derive(Debug, Clone, Copy)]
pub struct NewProduct<'a> {
    /// The id that it is to have; none: one of the processor's.
    pub id: Option<&'a str>,
    /// For people; it stands on invoices.
    pub name: &'a str,
    /// What we know it by.
    pub metadata: &'a [(&'a str, &'a str)],
}

/// A price to be made.
#[derive(Debug, Clone, Copy)]
pub struct NewPrice<'a> {
    /// What it is the price of.
    pub product: &'a str,
    /// In the currency's smallest unit.
    pub unit_amount_cents: i64,
    /// Such as `usd`.
    pub currency: &'a str,
    /// `month` or `year` for what is paid again and again.
    pub interval: Option<&'a str>,
    /// What it can be found by.
    pub lookup_key: Option<&'a str>,
    /// Whether tax is computed on it, and added to it.
    pub is_taxed: bool,
    /// What we know it by.
    pub metadata: &'a [(&'a str, &'a str)],
}

impl ProcessorClient {
    /// Makes a product. One whose id is taken is refused with the code `resource_already_exists`.
    pub async fn create_product(
        &self,
        new: &NewProduct<'_>,
        key: &IdempotencyKey,
    ) -> Result<ProcessorProduct, ProcessorError> {
        let form = FormParameters::new()
            .with_some("id", new.id)
            .with("name", new.name)
            .with_map("metadata", new.metadata);
        self.post(&["products"], form, key).await
    }

    /// Reads a product.
    pub async fn retrieve_product(&self, id: &str) -> Result<ProcessorProduct, ProcessorError> {
        self.get(&["products", id], FormParameters::new()).await
    }

    /// Makes a price.
    pub async fn create_price(
        &self,
        new: &NewPrice<'_>,
        key: &IdempotencyKey,
    ) -> Result<ProcessorPrice, ProcessorError> {
        let form = FormParameters::new()
            .with("product", new.product)
            .with("unit_amount", new.unit_amount_cents)
            .with("currency", new.currency)
            .with_some("recurring[interval]", new.interval)
            .with_some("lookup_key", new.lookup_key)
            .with_some("tax_behavior", new.is_taxed.then_some(TAX_BEHAVIOR))
            .with_map("metadata", new.metadata);
        self.post(&["prices"], form, key).await
    }

    /// Reads a price.
    pub async fn retrieve_price(&self, id: &str) -> Result<ProcessorPrice, ProcessorError> {
        self.get(&["prices", id], FormParameters::new()).await
    }

    /// Searches for prices in use with `metadata[name] = value`. The search may not know what was
    /// made in the last minute.
    pub async fn search_prices(
        &self,
        name: &str,
        value: &str,
    ) -> Result<SearchPage<ProcessorPrice>, ProcessorError> {
        let query = format!("active:'true' AND {}", metadata_is(name, value));
        let form = FormParameters::new().with("query", &query).with("limit", 100);
        self.get(&["prices", "search"], form).await
    }

    /// Lists the prices that can be found by this word, those that are no longer in use, too.
    pub async fn find_prices(
        &self,
        lookup_key: &str,
    ) -> Result<ListPage<ProcessorPrice>, ProcessorError> {
        let form = FormParameters::new().with("lookup_keys[]", lookup_key);
        self.get(&["prices"], form).await
    }
}
