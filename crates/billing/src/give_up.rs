//! Voiding: when a subscription has ended, its open invoices are voided. So is an invoice of a live
//! subscription that the processor no longer retries while a later invoice is paid.
//!
//! After its last retry the processor ends a subscription and leaves its invoices open. The
//! customer does not have what they sell, so they should not be paid any more. Voiding returns the
//! part that the customer's balance had paid. Credit among an invoice's lines (from lowered slots)
//! would be lost, so we add it to the balance. An invoice that the processor still retries is left
//! alone.

use domain::id::CustomerId;
use failures::Failure;
use processor_client::objects::{
    InvoiceLine, InvoiceStatus, LineParentKind, ProcessorInvoice, SubscriptionStatus,
};
use processor_client::{NewBalanceTransaction, ProcessorError};
use store::ended_subscriptions::{self, EndedSubscription, VoidedInvoice};

use super::credit_adjustments::{self, VOIDED};
use super::period;
use crate::BillingState;

/// Seconds until the background work looks at unfinished subscriptions again.
const AGAIN_AFTER_S: i64 = 600;
/// The number of subscriptions that one round of the background work looks at.
const LEFT_MAX: i64 = 20;

/// A customer, here and at the processor.
#[derive(Debug, Clone, Copy)]
pub(super) struct PayingCustomer<'a> {
    pub(super) customer: CustomerId,
    pub(super) processor_customer: &'a str,
}

impl PayingCustomer<'_> {
    fn pays_for(self, subscription: &str, has_ended: bool) -> EndedSubscription {
        EndedSubscription {
            subscription_id: subscription.to_owned(),
            customer: self.customer,
            processor_customer: self.processor_customer.to_owned(),
            has_ended,
        }
    }
}

/// Voids invoices that the processor no longer retries, except the latest of the subscription:
/// while that one is open the subscription itself is unpaid, and the processor decides when it
/// ends.
pub(super) async fn tries_ended(
    billing: &BillingState,
    payer: PayingCustomer<'_>,
    subscription: &str,
) -> Result<(), Failure> {
    let live = payer.pays_for(subscription, false);
    ended_subscriptions::note(&billing.store, std::slice::from_ref(&live), billing.clock.now())
        .await?;
    if let Err(error) = give_up(billing, &live).await {
        tracing::warn!(%error, subscription, "an invoice that is no longer retried could not be voided yet");
    }
    Ok(())
}

/// Voids the open invoices of subscriptions that have ended. What fails now is left to the
/// background work.
pub(super) async fn follow(billing: &BillingState, payer: PayingCustomer<'_>, ended: &[String]) {
    if ended.is_empty() {
        return;
    }
    if let Err(error) = give_up_all(billing, payer, ended).await {
        tracing::warn!(%error, customer.id = %payer.customer, "open invoices could not be voided yet");
    }
}

/// Continues unfinished work.
pub async fn resume_left(billing: &BillingState) {
    if billing.processor().is_err() {
        return;
    }
    let seen_before = billing.clock.now().plus_seconds(-AGAIN_AFTER_S);
    let left = ended_subscriptions::list_open(&billing.store, seen_before, LEFT_MAX).await;
    let left = match left {
        Ok(left) => left,
        Err(error) => return tracing::warn!(%error, "ended subscriptions could not be read"),
    };
    for ended in left {
        if let Err(error) = give_up(billing, &ended).await {
            tracing::warn!(%error, subscription = ended.subscription_id, "open invoices could not be voided yet");
        }
    }
}

async fn give_up_all(
    billing: &BillingState,
    payer: PayingCustomer<'_>,
    ended: &[String],
) -> Result<(), Failure> {
    let ended: Vec<_> = ended.iter().map(|id| payer.pays_for(id, true)).collect();
    ended_subscriptions::note(&billing.store, &ended, billing.clock.now()).await?;
    for open in ended_subscriptions::list_open_of(&billing.store, payer.customer).await? {
        give_up(billing, &open).await?;
    }
    Ok(())
}

/// Voids the open invoices of a subscription, and records when none is left.
async fn give_up(billing: &BillingState, ended: &EndedSubscription) -> Result<(), Failure> {
    let id = ended.subscription_id.as_str();
    ended_subscriptions::look_later(&billing.store, id, billing.clock.now()).await?;
    for begun in ended_subscriptions::list_begun(&billing.store, id).await? {
        void(billing, ended, begun).await?;
    }
    let latest = if ended.has_ended { None } else { latest_invoice(billing, id).await? };
    let mut is_tried = false;
    for invoice in period::listed(billing, id, 0).await? {
        if !matches!(invoice.status, InvoiceStatus::Open | InvoiceStatus::Uncollectible)
            || latest.as_ref() == Some(&invoice.id)
        {
            continue;
        }
        if invoice.next_payment_attempt.is_some() {
            is_tried = true;
            continue;
        }
        let returned_cents = credit_among(&invoice, &period::all_lines(billing, &invoice).await?);
        let voided = VoidedInvoice { invoice_id: invoice.id, returned_cents };
        ended_subscriptions::begin_void(&billing.store, ended, &voided, billing.clock.now())
            .await?;
        void(billing, ended, voided).await?;
    }
    // For a live subscription, the processor sends an event when the retries of another invoice
    // end.
    if !is_tried || !ended.has_ended {
        ended_subscriptions::settle(&billing.store, id, billing.clock.now()).await?;
    }
    Ok(())
}

/// The invoice that decides whether a live subscription is paid; `None` once the subscription has
/// ended.
async fn latest_invoice(
    billing: &BillingState,
    subscription: &str,
) -> Result<Option<String>, Failure> {
    let found = billing.processor()?.retrieve_subscription(subscription).await?;
    let is_over = matches!(
        found.status,
        SubscriptionStatus::Canceled | SubscriptionStatus::IncompleteExpired
    );
    let latest = found.latest_invoice.filter(|_| !is_over);
    Ok(latest.map(|invoice| invoice.id().to_owned()))
}

/// The amount that had waited for this invoice, if it was a net credit.
fn credit_among(invoice: &ProcessorInvoice, lines: &[InvoiceLine]) -> i64 {
    let is_renewal = invoice.billing_reason.as_deref() == Some("subscription_cycle");
    let waited = |line: &&InvoiceLine| {
        line.parent_kind() == Some(LineParentKind::InvoiceItem)
            || (is_renewal && line.is_proration())
    };
    let sum = lines.iter().filter(waited);
    let sum = sum.fold(0_i64, |sum, line| sum.saturating_add(line.net_amount()));
    sum.saturating_neg().max(0)
}

/// Voids an invoice and returns the credit among its lines. Safe to repeat.
async fn void(
    billing: &BillingState,
    ended: &EndedSubscription,
    mut voided: VoidedInvoice,
) -> Result<(), Failure> {
    let processor = billing.processor()?;
    let key = super::key("void", &voided.invoice_id)?;
    match processor.void_invoice(&voided.invoice_id, &key).await {
        Ok(_) => {}
        Err(error @ (ProcessorError::Refused(_) | ProcessorError::Missing)) => {
            let invoice = processor.retrieve_invoice(&voided.invoice_id).await?;
            match invoice.status {
                InvoiceStatus::Void => {}
                // It was paid after all, and the credit was used for it.
                InvoiceStatus::Paid => voided.returned_cents = 0,
                _ => return Err(error.into()),
            }
        }
        Err(error) => return Err(error.into()),
    }
    if voided.returned_cents > 0 {
        give_back(billing, ended, &voided).await?;
    }
    tracing::info!(
        customer.id = %ended.customer, invoice = voided.invoice_id, returned_cents = voided.returned_cents,
        "an invoice of an ended subscription was voided"
    );
    Ok(ended_subscriptions::finish_void(&billing.store, &voided, billing.clock.now()).await?)
}

/// Adds the credit to the customer's balance, unless that was done before. The processor forgets
/// idempotency keys after a day, so the balance transactions are searched first.
async fn give_back(
    billing: &BillingState,
    ended: &EndedSubscription,
    voided: &VoidedInvoice,
) -> Result<(), Failure> {
    let processor = billing.processor()?;
    let payer = ended.processor_customer.as_str();
    let made = credit_adjustments::list(billing, payer, None).await?;
    if made.iter().any(|made| made.metadata.get(VOIDED) == Some(&voided.invoice_id)) {
        return Ok(());
    }
    let new = NewBalanceTransaction {
        customer: payer,
        amount_cents: voided.returned_cents.saturating_neg(),
        currency: settings::billing::CURRENCY,
        description: Some("Credit among the lines of a voided invoice"),
        metadata: &[(VOIDED, &voided.invoice_id)],
    };
    let key = super::key("give_back", &voided.invoice_id)?;
    processor.create_balance_transaction(&new, &key).await?;
    Ok(())
}
