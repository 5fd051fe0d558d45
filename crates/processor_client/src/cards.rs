//! The processor's customers and their saved cards.

use super::error::ProcessorError;
use super::form::FormParameters;
use super::objects::{ListPage, PaymentMethod, ProcessorCustomer};
use super::transport::{IdempotencyKey, ProcessorClient};

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
            .with_map("metadata", &[("customer_id", new.customer_id)]);
        self.post(&["customers"], form, key).await
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
