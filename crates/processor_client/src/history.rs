//! Charges, refunds, disputes and events: what became of payments.

use super::error::ProcessorError;
use super::form::FormParameters;
use super::listing::ListFilter;
use super::objects::{
    CardCharge, EarlyFraudWarning, ListPage, PaymentDispute, PaymentRefund, ProcessorEvent,
};
use super::transport::{IdempotencyKey, ProcessorClient};

/// Money to be given back.
#[derive(Debug, Clone, Copy)]
pub struct NewRefund<'a> {
    /// The payment.
    pub payment_intent: &'a str,
    /// How much of it; none: all that is left.
    pub amount_cents: Option<i64>,
    /// What we know it by.
    pub metadata: &'a [(&'a str, &'a str)],
}

/// Which events a list holds.
#[derive(Debug, Clone, Copy, Default)]
pub struct EventListing<'a> {
    /// Only these types, 20 at most; none: all.
    pub types: &'a [&'a str],
    /// Only those that every endpoint took (`true`), or that one did not take yet (`false`).
    pub delivered: Option<bool>,
    /// Only those of this time or later: seconds since 1970. Events are kept for 30 days.
    pub created_from: Option<i64>,
    /// Those after this id: the last one of the page before.
    pub after: Option<&'a str>,
}

impl ProcessorClient {
    /// Reads a charge.
    pub async fn retrieve_charge(&self, id: &str) -> Result<CardCharge, ProcessorError> {
        self.get(&["charges", id], FormParameters::new()).await
    }

    /// Lists charges, newest first; filters: customer, intent, created.
    pub async fn list_charges(
        &self,
        listing: &ListFilter<'_>,
    ) -> Result<ListPage<CardCharge>, ProcessorError> {
        self.get(&["charges"], listing.form()).await
    }

    /// Gives money back.
    pub async fn create_refund(
        &self,
        new: &NewRefund<'_>,
        key: &IdempotencyKey,
    ) -> Result<PaymentRefund, ProcessorError> {
        let form = FormParameters::new()
            .with("payment_intent", new.payment_intent)
            .with_some("amount", new.amount_cents)
            .with_map("metadata", new.metadata);
        self.post(&["refunds"], form, key).await
    }

    /// Reads a refund.
    pub async fn retrieve_refund(&self, id: &str) -> Result<PaymentRefund, ProcessorError> {
        self.get(&["refunds", id], FormParameters::new()).await
    }

    /// Lists refunds, newest first; filters: intent, created.
    pub async fn list_refunds(
        &self,
        listing: &ListFilter<'_>,
    ) -> Result<ListPage<PaymentRefund>, ProcessorError> {
        self.get(&["refunds"], listing.form()).await
    }

    /// Reads a dispute.
    pub async fn retrieve_dispute(&self, id: &str) -> Result<PaymentDispute, ProcessorError> {
        self.get(&["disputes", id], FormParameters::new()).await
    }

    /// Lists disputes, newest first; filters: intent, created.
    pub async fn list_disputes(
        &self,
        listing: &ListFilter<'_>,
    ) -> Result<ListPage<PaymentDispute>, ProcessorError> {
        self.get(&["disputes"], listing.form()).await
    }

    /// Reads a warning of fraud.
    pub async fn retrieve_fraud_warning(
        &self,
        id: &str,
    ) -> Result<EarlyFraudWarning, ProcessorError> {
        self.get(&["radar", "early_fraud_warnings", id], FormParameters::new()).await
    }

    /// Lists warnings of fraud, newest first; filters: intent, created.
    pub async fn list_fraud_warnings(
        &self,
        listing: &ListFilter<'_>,
    ) -> Result<ListPage<EarlyFraudWarning>, ProcessorError> {
        self.get(&["radar", "early_fraud_warnings"], listing.form()).await
    }

    /// Reads an event.
    pub async fn retrieve_event(&self, id: &str) -> Result<ProcessorEvent, ProcessorError> {
        self.get(&["events", id], FormParameters::new()).await
    }

    /// Lists events, newest first.
    pub async fn list_events(
        &self,
        listing: &EventListing<'_>,
    ) -> Result<ListPage<ProcessorEvent>, ProcessorError> {
        let mut form = FormParameters::new()
            .with("limit", 100)
            .with_some("delivery_success", listing.delivered)
            .with_some("created[gte]", listing.created_from)
            .with_some("starting_after", listing.after);
        for kind in listing.types {
            form = form.with("types[]", kind);
        }
        self.get(&["events"], form).await
    }
}
