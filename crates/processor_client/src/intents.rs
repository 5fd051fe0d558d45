//! Payment intents: one attempt at one payment, from its beginning to its end.

use super::error::ProcessorError;
use super::form::{FormParameters, metadata_is};
use super::listing::ListFilter;
use super::objects::{ListPage, PaymentIntent, SearchPage};
use super::transport::{IdempotencyKey, ProcessorClient};

/// A payment with a saved card, confirmed at once.
#[derive(Debug, Clone, Copy)]
pub struct NewIntent<'a> {
    /// In the currency's smallest unit.
    pub amount_cents: i64,
    /// Such as `usd`.
    pub currency: &'a str,
    /// The processor's customer.
    pub customer: &'a str,
    /// The saved card.
    pub payment_method: &'a str,
    /// Whether somebody is there to authenticate.
    pub presence: CustomerPresence<'a>,
    /// For the customer's records.
    pub description: Option<&'a str>,
    /// What we know it by.
    pub metadata: &'a [(&'a str, &'a str)],
}

/// Whether the customer is at the browser. The two fail differently: with the customer there, a
/// bank that wants authentication gives an intent that waits for it; otherwise it declines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CustomerPresence<'a> {
    /// The customer is there, and comes back to this address after authenticating on a page of the
    /// bank's.
    OnSession {
        /// Where the customer comes back to, where there is such a page.
        return_url: Option<&'a str>,
    },
    /// Nobody is there.
    OffSession,
}

/// A second confirmation of an intent, with the customer there.
#[derive(Debug, Clone, Copy, Default)]
pub struct IntentConfirmation<'a> {
    /// The card; none: the one it has.
    pub payment_method: Option<&'a str>,
    /// Where the customer comes back to after authenticating on a page of the bank's.
    pub return_url: Option<&'a str>,
}

impl ProcessorClient {
    /// Makes and confirms a payment.
    pub async fn create_intent(
        &self,
        new: &NewIntent<'_>,
        key: &IdempotencyKey,
    ) -> Result<PaymentIntent, ProcessorError> {
        let form = FormParameters::new()
            .with("amount", new.amount_cents)
            .with("currency", new.currency)
            .with("customer", new.customer)
            .with("payment_method", new.payment_method)
            .with("payment_method_types[]", "card")
            .with("confirm", true)
            .with_some("description", new.description)
            .with_map("metadata", new.metadata)
            .expanding(&["latest_charge"]);
        let form = match new.presence {
            CustomerPresence::OnSession { return_url } => form.with_some("return_url", return_url),
            CustomerPresence::OffSession => form.with("off_session", true),
        };
        self.post(&["payment_intents"], form, key).await
    }

    /// Reads an intent with its card and its charge.
    pub async fn retrieve_intent(&self, id: &str) -> Result<PaymentIntent, ProcessorError> {
        let form = FormParameters::new().expanding(&["payment_method", "latest_charge"]);
        self.get(&["payment_intents", id], form).await
    }

    /// Confirms an intent again with the customer there: one that was declined for want of
    /// authentication then waits for it.
    pub async fn confirm_intent(
        &self,
        id: &str,
        confirmation: &IntentConfirmation<'_>,
        key: &IdempotencyKey,
    ) -> Result<PaymentIntent, ProcessorError> {
        let form = FormParameters::new()
            .with_some("payment_method", confirmation.payment_method)
            .with_some("return_url", confirmation.return_url)
            .with("off_session", false);
        self.post(&["payment_intents", id, "confirm"], form, key).await
    }

    /// Ends an intent that has not succeeded; it can never succeed after that.
    pub async fn cancel_intent(
        &self,
        id: &str,
        key: &IdempotencyKey,
    ) -> Result<PaymentIntent, ProcessorError> {
        self.post(&["payment_intents", id, "cancel"], FormParameters::new(), key).await
    }

    /// Lists intents, newest first; filters: customer, created.
    pub async fn list_intents(
        &self,
        listing: &ListFilter<'_>,
    ) -> Result<ListPage<PaymentIntent>, ProcessorError> {
        self.get(&["payment_intents"], listing.form()).await
    }

    /// Searches for intents with `metadata[name] = value`. The search may not know what was made in
    /// the last minute: a list does.
    pub async fn search_intents(
        &self,
        name: &str,
        value: &str,
    ) -> Result<SearchPage<PaymentIntent>, ProcessorError> {
        let form =
            FormParameters::new().with("query", &metadata_is(name, value)).with("limit", 100);
        self.get(&["payment_intents", "search"], form).await
    }
}
