//! The processor's customers and their saved cards.

use super::error::ProcessorError;
use super::form::{FormParameters, metadata_is};
use super::listing::ListFilter;
use super::objects::{ListPage, PaymentMethod, ProcessorCustomer, SearchPage};
use super::transport::{IdempotencyKey, ProcessorClient};

/// The name in a customer's metadata of what it is called here.
const OURS: &str = "customer_id";

/// A customer to be made.
#[derive(Debug, Clone, Copy)]
pub struct NewCustomer<'a> {
    /// Its mail address.
    pub email: &'a str,
    /// Our customer's id; it goes into `metadata.customer_id`.
    pub customer_id: &'a str,
}

/// What changes of a customer; what is none stays.
#[derive(Debug, Clone, Copy, Default)]
pub struct CustomerChange<'a> {
    /// Its mail address.
    pub email: Option<&'a str>,
    /// The card that invoices are paid with; an empty text: none.
    pub default_payment_method: Option<&'a str>,
}

impl ProcessorClient {
    /// Makes a customer.
    pub async fn create_customer(
        &self,
        new: &NewCustomer<'_>,
        key: &IdempotencyKey,
    ) -> Result<ProcessorCustomer, ProcessorError> {
        let form = FormParameters::new()
            .with("email", new.email)
            .with_map("metadata", &[(OURS, new.customer_id)]);
        self.post(&["customers"], form, key).await
    }

    /// Searches for customers that were made for this customer of ours. The search may not know
    /// what was made in the last minute; deleted ones are not found.
    pub async fn search_customers(
        &self,
        customer_id: &str,
    ) -> Result<SearchPage<ProcessorCustomer>, ProcessorError> {
        let form =
            FormParameters::new().with("query", &metadata_is(OURS, customer_id)).with("limit", 100);
        self.get(&["customers", "search"], form).await
    }

    /// Lists customers, newest first, without deleted ones; filters: created.
    pub async fn list_customers(
        &self,
        listing: &ListFilter<'_>,
    ) -> Result<ListPage<ProcessorCustomer>, ProcessorError> {
        self.get(&["customers"], listing.form()).await
    }

    /// Changes a customer.
    pub async fn update_customer(
        &self,
        id: &str,
        change: &CustomerChange<'_>,
        key: &IdempotencyKey,
    ) -> Result<ProcessorCustomer, ProcessorError> {
        let default = "invoice_settings[default_payment_method]";
        let form = FormParameters::new()
            .with_some("email", change.email)
            .with_some(default, change.default_payment_method);
        self.post(&["customers", id], form, key).await
    }

    /// Reads a customer; one that was deleted says so.
    pub async fn retrieve_customer(&self, id: &str) -> Result<ProcessorCustomer, ProcessorError> {
        self.get(&["customers", id], FormParameters::new()).await
    }

    /// Deletes a customer for good; its subscriptions end at once. One that is gone already is
    /// [`ProcessorError::Missing`].
    pub async fn delete_customer(&self, id: &str) -> Result<ProcessorCustomer, ProcessorError> {
        self.delete(&["customers", id]).await
    }

    /// Reads the customer's cards, newest first; `limit` is 1 to 100.
    pub async fn list_cards(
        &self,
        customer: &str,
        limit: u8,
    ) -> Result<ListPage<PaymentMethod>, ProcessorError> {
        let form = FormParameters::new().with("type", "card").with("limit", limit.clamp(1, 100));
        self.get(&["customers", customer, "payment_methods"], form).await
    }

    /// Reads a card.
    pub async fn retrieve_payment_method(&self, id: &str) -> Result<PaymentMethod, ProcessorError> {
        self.get(&["payment_methods", id], FormParameters::new()).await
    }

    /// Takes a card from its customer, for good. One that has no customer any more is refused with
    /// status 400.
    pub async fn detach_payment_method(
        &self,
        id: &str,
        key: &IdempotencyKey,
    ) -> Result<PaymentMethod, ProcessorError> {
        self.post(&["payment_methods", id, "detach"], FormParameters::new(), key).await
    }
}
