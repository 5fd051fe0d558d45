//! The mirror of invoices that customers read. Events, the reconciler and our own changes keep it
//! up to date. A request lists a customer's invoices at the processor only if that was not done for
//! some time, so that the number of such requests is bounded.

use domain::id::{CustomerId, OrderId};
use domain::invoice::InvoiceState;
use domain::sales::PartKind;
use failures::Failure;
use processor_client::objects::{InvoiceLine, InvoiceStatus, ProcessorInvoice};
use processor_client::{ListFilter, ProcessorError};
use store::invoices::{
    self, InvoiceChange, InvoiceQuery, InvoiceSums, ListingClaim, StoredInvoice, StoredInvoiceLine,
};
use store::orders;

use super::marks::{self, OrderMark};
use super::period::{self, seconds};
use super::plans::{self, SoldItem};
use crate::BillingState;

/// The pages of 100 invoices that the first listing of a customer reads.
const FIRST_PAGES: usize = 10;
/// Seconds after which a listing that failed may be tried again.
const RETRY_S: i64 = 60;

/// What an invoice is for.
struct InvoiceSubject {
    order: Option<OrderId>,
    lines: Vec<(PartKind, Option<String>)>,
}

/// A page of a customer's invoices, newest first.
pub async fn list(
    billing: &BillingState,
    query: &InvoiceQuery<'_>,
) -> Result<Vec<StoredInvoice>, Failure> {
    if let Err(error) = refresh(billing, query.customer).await {
        tracing::warn!(%error, customer.id = %query.customer, "invoices could not be listed at the processor");
    }
    Ok(invoices::list(&billing.store, query).await?)
}

/// One invoice of a customer. It is read again if that was not done for some time, because the
/// addresses of its page and document expire.
pub async fn find(
    billing: &BillingState,
    customer: CustomerId,
    id: &str,
) -> Result<Option<StoredInvoice>, Failure> {
    let Some(known) = invoices::find(&billing.store, customer, id).await? else { return Ok(None) };
    let now = billing.clock.now();
    let before = now.plus_seconds(-billing.config.billing.invoices_refresh_s);
    let is_due = billing.processor().is_ok()
        && invoices::claim_reading(&billing.store, id, now, before).await?;
    if !is_due {
        return Ok(Some(known));
    }
    if let Err(error) = read_again(billing, id).await {
        tracing::warn!(%error, payment.object = id, "an invoice could not be read again");
        return Ok(Some(known));
    }
    Ok(invoices::find(&billing.store, customer, id).await?)
}

/// Reads an invoice from the processor, and stores what is there.
pub(super) async fn read_again(billing: &BillingState, id: &str) -> Result<(), Failure> {
    match billing.processor()?.retrieve_invoice(id).await {
        Ok(invoice) => note(billing, &invoice).await,
        Err(ProcessorError::Missing) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The same for an invoice that was just read, where a failure must not stop what follows: the
/// reconciler stores it later.
pub(super) async fn note_or_log(billing: &BillingState, invoice: &ProcessorInvoice) {
    if let Err(error) = note(billing, invoice).await {
        tracing::warn!(%error, payment.object = invoice.id, "an invoice could not be stored yet");
    }
}

/// Stores an invoice if it is for something of ours and not a draft.
pub(super) async fn note(
    billing: &BillingState,
    invoice: &ProcessorInvoice,
) -> Result<(), Failure> {
    let Some(state) = state(invoice) else { return Ok(()) };
    if invoice.id.is_empty() || invoice.livemode != billing.config.processor.livemode {
        return Ok(());
    }
    let change = InvoiceChange {
        id: &invoice.id,
        state,
        due_cents: invoice.amount_due,
        paid_cents: invoice.amount_paid,
        hosted_url: invoice.hosted_invoice_url.as_deref(),
        pdf_url: invoice.invoice_pdf.as_deref(),
        paid_at: (state == InvoiceState::Paid).then(|| seconds(invoice.paid_at())),
        read_at: billing.clock.now(),
    };
    if invoices::state_of(&billing.store, &invoice.id).await?.is_some() {
        return Ok(invoices::update(&billing.store, &change).await?);
    }
    let payer = invoice.customer_id().unwrap_or_default();
    let owner = store::processor_customers::owner(&billing.store, payer).await?;
    let Some(customer) = owner else { return Ok(()) };
    let lines = period::all_lines(billing, invoice).await?;
    let Some(subject) = subject(billing, customer, invoice, &lines).await? else {
        return Ok(());
    };
    let stored = stored(invoice, customer, &change, &lines, subject);
    Ok(invoices::insert(&billing.store, &stored).await?)
}

/// Stores an invoice of a list if it is new or its state changed.
pub(super) async fn note_listed(
    billing: &BillingState,
    invoice: &ProcessorInvoice,
) -> Result<(), Failure> {
    let known = invoices::state_of(&billing.store, &invoice.id).await?;
    if known.is_some() && known == state(invoice) {
        return Ok(());
    }
    note(billing, invoice).await
}

fn state(invoice: &ProcessorInvoice) -> Option<InvoiceState> {
    match invoice.status {
        InvoiceStatus::Open => Some(InvoiceState::Open),
        InvoiceStatus::Paid => Some(InvoiceState::Paid),
        InvoiceStatus::Uncollectible => Some(InvoiceState::Uncollectible),
        InvoiceStatus::Void => Some(InvoiceState::Void),
        InvoiceStatus::Draft | InvoiceStatus::Other => None,
    }
}

/// What an invoice is for; `None` if it is for nothing of ours.
async fn subject(
    billing: &BillingState,
    customer: CustomerId,
    invoice: &ProcessorInvoice,
    lines: &[InvoiceLine],
) -> Result<Option<InvoiceSubject>, Failure> {
    if let OrderMark::Order(id) = marks::order_in(billing, &invoice.metadata).await?
        && let Some(order) = orders::find(&billing.store, customer, id).await?
    {
        let line = |_: &InvoiceLine| (PartKind::Pack, Some(order.pack_id.clone()));
        let lines = lines.iter().map(line).collect();
        return Ok(Some(InvoiceSubject { order: Some(id), lines }));
    }
    if invoice.subscription_id().is_none() {
        return Ok(None);
    }
    let mut all = Vec::new();
    for line in lines {
        all.push(match line.price_id() {
            Some(price) => match plans::bought(billing, price, line.product_id()).await? {
                SoldItem::Plan(version) => (PartKind::Plan, Some(version.plan_id)),
                SoldItem::Slots(platform) => {
                    (PartKind::Slot, Some(platform.stored_name().to_owned()))
                }
                SoldItem::Other => (PartKind::Other, None),
            },
            None => (PartKind::Other, None),
        });
    }
    let is_ours = all.iter().any(|(kind, _)| *kind != PartKind::Other);
    Ok(is_ours.then_some(InvoiceSubject { order: None, lines: all }))
}

fn stored(
    invoice: &ProcessorInvoice,
    customer: CustomerId,
    change: &InvoiceChange<'_>,
    lines: &[InvoiceLine],
    subject: InvoiceSubject,
) -> StoredInvoice {
    let line =
        |(line, (kind, reference)): (&InvoiceLine, (PartKind, Option<String>))| StoredInvoiceLine {
            kind,
            reference,
            description: line.description.clone().unwrap_or_default(),
            quantity: line.quantity.unwrap_or(1),
            amount_cents: line.amount,
            discount_cents: line.discount(),
            tax_cents: line.tax(),
            starts_at: seconds(line.period.start),
            ends_at: seconds(line.period.end),
            is_proration: line.is_proration(),
        };
    StoredInvoice {
        id: invoice.id.clone(),
        customer,
        number: invoice.number.clone().unwrap_or_default(),
        state: change.state,
        reason: invoice.billing_reason.clone().unwrap_or_default(),
        subscription: invoice.subscription_id().map(str::to_owned),
        order: subject.order,
        currency: invoice.currency.clone(),
        sums: InvoiceSums {
            subtotal_cents: invoice.subtotal,
            discount_cents: invoice.discount(),
            tax_cents: invoice.tax(),
            total_cents: invoice.total,
            due_cents: change.due_cents,
            paid_cents: change.paid_cents,
        },
        hosted_url: invoice.hosted_invoice_url.clone(),
        pdf_url: invoice.invoice_pdf.clone(),
        created_at: seconds(invoice.created),
        paid_at: change.paid_at,
        read_at: change.read_at,
        lines: lines.iter().zip(subject.lines).map(line).collect(),
    }
}

/// Lists a customer's invoices at the processor, if that is due: all of them the first time, then
/// the newest 100.
async fn refresh(billing: &BillingState, customer: CustomerId) -> Result<(), Failure> {
    if billing.processor().is_err() {
        return Ok(());
    }
    let payer = store::processor_customers::find(&billing.store, customer).await?;
    let Some(payer) = payer else { return Ok(()) };
    let (now, every) = (billing.clock.now(), billing.config.billing.invoices_refresh_s);
    let claim =
        invoices::claim_listing(&billing.store, customer, now, now.plus_seconds(-every)).await?;
    let pages = match claim {
        ListingClaim::First => FIRST_PAGES,
        ListingClaim::Again => 1,
        ListingClaim::NotDue => return Ok(()),
    };
    let read = read_pages(billing, &payer, pages).await;
    if read.is_err() {
        let due = now.plus_seconds(RETRY_S.saturating_sub(every));
        invoices::listing_failed(&billing.store, customer, claim, due).await?;
    }
    read
}

async fn read_pages(billing: &BillingState, payer: &str, pages: usize) -> Result<(), Failure> {
    let processor = billing.processor()?;
    let mut after = None::<String>;
    for _ in 0..pages {
        let listing =
            ListFilter { customer: Some(payer), after: after.as_deref(), ..ListFilter::default() };
        let page = processor.list_invoices(&listing).await?;
        after = page.next().map(str::to_owned);
        for invoice in &page.data {
            note(billing, invoice).await?;
        }
        if after.is_none() {
            break;
        }
    }
    Ok(())
}
