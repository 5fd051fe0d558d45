//! What a customer has as credit or owes at the processor: it is settled with the next invoice.

use super::error::ProcessorError;
use super::form::FormParameters;
use super::listing::ListFilter;
use super::objects::{BalanceTransaction, ListPage};
use super::transport::{IdempotencyKey, ProcessorClient};

/// A movement of a customer's balance to be made.
#[derive(Debug, Clone, Copy)]
pub struct NewBalanceTransaction<'a> {
    /// The processor's customer.
    pub customer: &'a str,
    /// In the currency's smallest unit, not 0. Above zero the customer owes it on the next invoice;
    /// below zero it is credit that pays for later invoices.
    pub amount_cents: i64,
    /// Such as `usd`; the currency of the customer's invoices.
    pub currency: &'a str,
    /// For people who look at the customer at the processor.
    pub description: Option<&'a str>,
    /// What we know it by.
    pub metadata: &'a [(&'a str, &'a str)],
}

impl ProcessorClient {
    /// Moves a customer's balance. [`super::objects::ProcessorCustomer::balance`] is the balance
    /// after it, unless another movement came between. A customer that does not exist is
    /// [`ProcessorError::Missing`].
    pub async fn create_balance_transaction(
        &self,
        new: &NewBalanceTransaction<'_>,
        key: &IdempotencyKey,
    ) -> Result<BalanceTransaction, ProcessorError> {
        let form = FormParameters::new()
            .with("amount", new.amount_cents)
            .with("currency", new.currency)
            .with_some("description", new.description)
            .with_map("metadata", new.metadata);
        self.post(&["customers", new.customer, "balance_transactions"], form, key).await
    }

    /// Lists the movements of a customer's balance, newest first, 100 a page; `after` is the id of
    /// the last one of the page before.
    pub async fn list_balance_transactions(
        &self,
        customer: &str,
        after: Option<&str>,
    ) -> Result<ListPage<BalanceTransaction>, ProcessorError> {
        let listing = ListFilter { after, ..ListFilter::default() };
        self.get(&["customers", customer, "balance_transactions"], listing.form()).await
    }
}
