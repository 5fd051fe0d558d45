//! What the credit notes of an invoice say of its sale, and what follows for its credits.

use std::collections::BTreeMap;

use domain::id::EntryId;
use domain::payment::PaymentSource;
use domain::sales::{
    CreditNote, CreditWithdrawal, NotedPart, RefundedMoney, pot_of_period, pot_of_sale,
};
use domain::time::Timestamp;
use failures::Failure;
use processor_client::objects::{self, CreditNoteLine, CreditNoteStatus, ProcessorInvoice};
use processor_client::{ListFilter, ProcessorError};
use store::jobs::NewJob;
use store::money_back::{ReadNote, RecordedSale};
use store::reversals::{self as records, ReversalChange, ReversalEffect, SaleNotes};

use super::{credit, listing, period, plans, sold};
use crate::BillingState;
use crate::jobs::adjust_credit::{self, CreditAdjustment};

/// Applies what the credit notes of a paid invoice say. False if its payment is not recorded.
pub(super) async fn follow(
    billing: &BillingState,
    invoice: &ProcessorInvoice,
) -> Result<bool, Failure> {
    let Some(sale) = sale_of(billing, invoice).await? else { return Ok(false) };
    let read_at = billing.clock.now();
    let notes = of_read_invoice(billing, invoice, &sale).await?;
    let now = billing.clock.now();
    let read = SaleNotes {
        entry: EntryId::new(now, billing.random.bytes()),
        sale: &sale.id,
        notes: &notes,
        credit_cents: credit_of(billing, &sale).await?,
        read_at,
        at: now,
    };
    let following = |change: &ReversalChange| withdrawals(billing, change);
    let effect = records::apply_notes(&billing.store, &read, &following).await?;
    if let ReversalEffect::Booked(booked) = effect {
        billing.jobs.wake();
        tracing::info!(
            customer.id = %booked.customer, payment.object = sale.id, credits = booked.taken.whole(),
            debt = booked.debt.whole(), "credit notes were read, and the money that went back was divided again"
        );
    }
    Ok(true)
}

/// The changes of the customer's credit at the processor that follow from money that went back.
pub(super) fn withdrawals(billing: &BillingState, change: &ReversalChange) -> Vec<NewJob> {
    let of_credit = |withdrawal: &CreditWithdrawal| {
        adjust_credit::job(billing, &CreditAdjustment::of(change.customer, withdrawal))
    };
    change.withdrawals.iter().map(of_credit).collect()
}

/// The customer's credit at the processor, in cents, as far as a change of the sale concerns it.
pub(super) async fn credit_of(billing: &BillingState, sale: &RecordedSale) -> Result<i64, Failure> {
    match sale.source {
        PaymentSource::Intent => Ok(0),
        PaymentSource::Invoice => {
            super::slot_credits::read_all(billing).await;
            credit::of_customer(billing, sale.customer).await
        }
    }
}

/// The credit notes of a recorded sale, read anew. A pack has an invoice only where that is
/// configured, or was.
pub(super) async fn of_sale(
    billing: &BillingState,
    sale: &RecordedSale,
) -> Result<Vec<ReadNote>, Failure> {
    let processor = billing.processor()?;
    let invoice = match sale.source {
        PaymentSource::Invoice => Some(sale.id.clone()),
        PaymentSource::Intent => {
            let payments = processor.list_invoice_payments(&sale.id).await?.data;
            payments.into_iter().find_map(|paid| Some(paid.invoice?.id().to_owned()))
        }
    };
    let Some(invoice) = invoice else { return Ok(Vec::new()) };
    let notes = listed(billing, &invoice).await?;
    if notes.is_empty() {
        return Ok(Vec::new());
    }
    match processor.retrieve_invoice(&invoice).await {
        Ok(invoice) => read(billing, &invoice, sale, notes).await,
        Err(ProcessorError::Missing) => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

async fn of_read_invoice(
    billing: &BillingState,
    invoice: &ProcessorInvoice,
    sale: &RecordedSale,
) -> Result<Vec<ReadNote>, Failure> {
    let notes = listed(billing, &invoice.id).await?;
    if notes.is_empty() {
        return Ok(Vec::new());
    }
    read(billing, invoice, sale, notes).await
}

/// All notes of an invoice, oldest first, voided ones too.
async fn listed(
    billing: &BillingState,
    invoice: &str,
) -> Result<Vec<objects::CreditNote>, Failure> {
    let processor = billing.processor()?;
    let notes = listing::all(|after| async move {
        let of =
            ListFilter { invoice: Some(invoice), after: after.as_deref(), ..ListFilter::default() };
        processor.list_credit_notes(&of).await
    });
    Ok(notes.await?)
}

/// What the notes say of the parts of the sale.
async fn read(
    billing: &BillingState,
    invoice: &ProcessorInvoice,
    sale: &RecordedSale,
    notes: Vec<objects::CreditNote>,
) -> Result<Vec<ReadNote>, Failure> {
    let pots = pots_of_lines(billing, invoice, sale).await?;
    let mut all = Vec::new();
    for note in notes {
        let lines = all_lines(billing, &note).await?;
        all.push(said(&note, &lines, &pots));
    }
    Ok(all)
}

fn said(
    note: &objects::CreditNote,
    lines: &[CreditNoteLine],
    pots: &BTreeMap<String, String>,
) -> ReadNote {
    let mut parts: BTreeMap<&str, i64> = BTreeMap::new();
    for line in lines {
        let named = line.invoice_line_item.as_ref().and_then(|of| pots.get(of.id()));
        if let Some(pot) = named {
            let cents = parts.entry(pot).or_default();
            *cents = cents.saturating_add(line.net_amount().max(0));
        }
    }
    let mut refunds: BTreeMap<&str, i64> = BTreeMap::new();
    for of in &note.refunds {
        if let Some(refund) = &of.refund {
            let cents = refunds.entry(refund.id()).or_default();
            *cents = cents.saturating_add(of.amount_refunded.max(0));
        }
    }
    let tax = note.tax().max(0);
    let named = parts.values().fold(tax, |sum, cents| sum.saturating_add(*cents));
    let part = |(pot, cents): (&str, i64)| NotedPart { pot: pot.to_owned(), cents };
    let refund = |(id, cents): (&str, i64)| RefundedMoney { id: id.to_owned(), cents };
    let says = CreditNote {
        parts: parts.into_iter().map(part).collect(),
        tax,
        other: note.amount.saturating_sub(named).max(0),
        unasked: note.pre_payment_amount.max(0),
        credited: note.credited(),
        refunds: refunds.into_iter().map(refund).collect(),
    };
    ReadNote { id: note.id.clone(), is_void: note.status == CreditNoteStatus::Void, says }
}

/// The pot of each line of the invoice, by the line's id.
async fn pots_of_lines(
    billing: &BillingState,
    invoice: &ProcessorInvoice,
    sale: &RecordedSale,
) -> Result<BTreeMap<String, String>, Failure> {
    let mut pots = BTreeMap::new();
    for line in period::all_lines(billing, invoice).await? {
        let pot = match (invoice.subscription_id(), line.price_id()) {
            (None, _) => pot_of_sale(&sale.id),
            (Some(subscription), price) => {
                let bought = match price {
                    Some(price) => plans::bought(billing, price, line.product_id()).await?,
                    None => plans::SoldItem::Other,
                };
                let end: Timestamp = period::seconds(line.period.end);
                pot_of_period(sold::kind_of(&bought), subscription, end)
            }
        };
        pots.insert(line.id, pot);
    }
    Ok(pots)
}

/// Every line of a note; the note itself contains only the first ones.
async fn all_lines(
    billing: &BillingState,
    note: &objects::CreditNote,
) -> Result<Vec<CreditNoteLine>, Failure> {
    let mut after = note.lines.next().map(str::to_owned);
    let mut lines = note.lines.data.clone();
    while let Some(last) = after {
        let page = billing.processor()?.list_credit_note_lines(&note.id, &last).await?;
        after = page.next().map(str::to_owned);
        lines.extend(page.data);
    }
    Ok(lines)
}

/// The recorded sale of an invoice: a subscription's, or that of a pack.
pub(super) async fn sale_of(
    billing: &BillingState,
    invoice: &ProcessorInvoice,
) -> Result<Option<RecordedSale>, Failure> {
    let found = match invoice.subscription_id() {
        Some(_) => store::money_back::sale(&billing.store, &invoice.id).await?,
        None => match invoice.payment_intent_id() {
            Some(intent) => store::money_back::sale_paid_by(&billing.store, intent).await?,
            None => None,
        },
    };
    Ok(found)
}
