//! Invoices: what a subscription costs, and whether it was paid.

use super::error::ProcessorError;
use super::form::FormParameters;
use super::listing::ListFilter;
use super::objects::{InvoiceItem, InvoiceLine, InvoicePayment, ListPage, ProcessorInvoice};
use super::subscriptions::{ItemChange, ProrationBehavior, write_items};
use super::transport::{IdempotencyKey, ProcessorClient};

/// What a change of a subscription would cost.
#[derive(Debug, Clone, Copy)]
pub struct InvoicePreview<'a> {
    /// The subscription.
    pub subscription: &'a str,
    /// The items as they would change.
    pub items: &'a [ItemChange<'a>],
    /// What would become of the rest of the period.
    pub proration: ProrationBehavior,
    /// The time that the rest is counted from, in seconds since 1970; none: now.
    pub proration_date: Option<i64>,
}

impl ProcessorClient {
    /// Reads an invoice with its payments.
    pub async fn retrieve_invoice(&self, id: &str) -> Result<ProcessorInvoice, ProcessorError> {
        self.get(&["invoices", id], FormParameters::new().expanding(&["payments"])).await
    }

    /// Lists the lines of an invoice that come after this one: an invoice carries only its first
    /// ones.
    pub async fn list_invoice_lines(
        &self,
        id: &str,
        after: &str,
    ) -> Result<ListPage<InvoiceLine>, ProcessorError> {
        let listing = ListFilter { after: Some(after), ..ListFilter::default() };
        self.get(&["invoices", id, "lines"], listing.form()).await
    }

    /// Lists invoices, newest first; filters: customer, subscription, status (`draft`, `open`,
    /// `paid`, `void`, `uncollectible`), created. Each carries the first page of its lines.
    pub async fn list_invoices(
        &self,
        listing: &ListFilter<'_>,
    ) -> Result<ListPage<ProcessorInvoice>, ProcessorError> {
        self.get(&["invoices"], listing.form()).await
    }

    /// Computes an invoice that is not made.
    pub async fn preview_invoice(
        &self,
        preview: &InvoicePreview<'_>,
    ) -> Result<ProcessorInvoice, ProcessorError> {
        let form = FormParameters::new().with("subscription", preview.subscription);
        let form = write_items(form, "subscription_details[items]", preview.items);
        let form = preview
            .proration
            .write(form, "subscription_details[proration_behavior]")
            .with_some("subscription_details[proration_date]", preview.proration_date);
        self.ask(&["invoices", "create_preview"], form).await
    }

    /// Pays an open invoice with this card, or with the one it would be paid with. `off_session`:
    /// the customer is not there to authenticate. A payment that fails is
    /// [`ProcessorError::Declined`], and the invoice stays open; one that is paid or void already
    /// is [`ProcessorError::Refused`].
    pub async fn pay_invoice(
        &self,
        id: &str,
        payment_method: Option<&str>,
        off_session: bool,
        key: &IdempotencyKey,
    ) -> Result<ProcessorInvoice, ProcessorError> {
        let form = FormParameters::new()
            .with_some("payment_method", payment_method)
            .with("off_session", off_session)
            .expanding(&["payments"]);
        self.post(&["invoices", id, "pay"], form, key).await
    }

    /// Voids an open invoice, permanently: it is not collected any more. What the customer's
    /// balance had paid of it goes back to the balance; credit lines among its lines do not. One
    /// that is paid or void already is [`ProcessorError::Refused`].
    pub async fn void_invoice(
        &self,
        id: &str,
        key: &IdempotencyKey,
    ) -> Result<ProcessorInvoice, ProcessorError> {
        self.post(&["invoices", id, "void"], FormParameters::new(), key).await
    }

    /// Lists the items of a customer that wait for the next invoice, newest first, 100 a page;
    /// `after` is the id of the last one of the page before.
    pub async fn list_pending_items(
        &self,
        customer: &str,
        after: Option<&str>,
    ) -> Result<ListPage<InvoiceItem>, ProcessorError> {
        let form = FormParameters::new()
            .with("limit", 100)
            .with("customer", customer)
            .with("pending", true)
            .with_some("starting_after", after);
        self.get(&["invoiceitems"], form).await
    }

    /// Lists the invoices that this intent paid, as their payments: intents do not name their
    /// invoices.
    pub async fn list_invoice_payments(
        &self,
        payment_intent: &str,
    ) -> Result<ListPage<InvoicePayment>, ProcessorError> {
        let form = FormParameters::new()
            .with("limit", 100)
            .with("payment[type]", "payment_intent")
            .with("payment[payment_intent]", payment_intent);
        self.get(&["invoice_payments"], form).await
    }
}
