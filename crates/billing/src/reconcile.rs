//! The reconciler: compares the processor's last days with the ledger, so that a payment is granted
//! even if no event about it arrived, or if the database was restored from an older copy.
//!
//! It grants nothing itself. What is missing from the ledger is handled as if an event had arrived;
//! payments of all kinds are handled in the order in which they were made, because the first
//! credits paid settle a debt. Once a day `compare_days` checks the other direction.
//!
//! `reconcile_rounds` says when: everything once a day, and changes in between.

use std::collections::{BTreeMap, BTreeSet};

use domain::id::CustomerId;
use domain::payment::OrderState;
use failures::{Failure, PaymentProblem};
use processor_client::objects::ProcessorEvent;
use processor_client::objects::{
    IntentStatus, PaymentIntent, ProcessorInvoice, ProcessorSubscription,
};
use processor_client::{EventListing, ListFilter, ProcessorClient, ProcessorError};
use runtime::metrics;

use super::fulfil::{self, FulfilmentOutcome};
use super::listing::{all, listing};
use super::marks::{self, OrderMark};
use super::{
    credit_notes, disputes, invoice_records, invoices, payer, reversals, subscriptions, webhook,
};
use crate::BillingState;

/// How far back the regular reconciliation looks, in hours.
pub const HOURS: i64 = 72;
/// How far back a reconciliation can look: a year. The processor keeps events for 30 days, and
/// their objects permanently.
pub const HOURS_MAX: i64 = 366 * 24;
/// The type of the event that reports a paid invoice.
const INVOICE_PAID: &str = "invoice.paid";
/// The number of customers read from the store at a time.
const CUSTOMERS: i64 = 100;

/// The result of a reconciliation.
#[derive(Debug, Default, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ReconciliationReport {
    /// How many hours it looked back.
    pub hours: i64,
    /// Objects of the processor that it checked.
    pub looked_at: u64,
    /// Payments that were missing from the ledger and have been granted.
    pub granted: u64,
    /// Events that had not reached us and have been processed.
    pub events: u64,
    /// Payments that match nothing we sold; each is logged once as an error, and listed as
    /// unmatched.
    pub unmatched: u64,
    /// Objects or lists that could not be read or processed; the next reconciliation tries again.
    pub failed: u64,
    /// Seconds after which the processor wants to be asked again, because there were too many
    /// requests; none if it did not say so. The rest was left for the next reconciliation.
    #[serde(default)]
    pub limited_s: Option<u64>,
}

/// Reconciles the last `hours` hours.
pub async fn run(billing: &BillingState, hours: i64) -> Result<ReconciliationReport, Failure> {
    let hours = hours.clamp(1, HOURS_MAX);
    let from = billing.clock.now().plus_seconds(-hours.saturating_mul(3_600)).unix_seconds();
    let mut look = Reconciliation {
        billing,
        processor: billing.processor()?.clone(),
        from,
        report: ReconciliationReport { hours, ..ReconciliationReport::default() },
    };
    if let Err(error) = payer::link_made_since(billing, from).await {
        look.unread("customers", &error);
    }
    let untold = look.recorded(Some(false)).await;
    let untold = look.read("events", untold);
    look.payments(&untold).await;
    look.others().await;
    look.events(untold).await;
    metrics::reconciled(look.report.granted, look.report.failed);
    Ok(look.report)
}

/// Handles what the processor has recorded from `from` on and before `until`, both in seconds since
/// 1970: the events that have not reached us, whatever object they are about.
pub(super) async fn changes(
    billing: &BillingState,
    from: i64,
    until: i64,
) -> Result<ReconciliationReport, Failure> {
    let processor = billing.processor()?.clone();
    let hours = (until.saturating_sub(from)).div_euclid(3_600);
    let report = ReconciliationReport { hours, ..ReconciliationReport::default() };
    let mut look = Reconciliation { billing, processor, from, report };
    let recorded = look.recorded(None).await;
    let recorded = look.read("events", recorded);
    let ours = recorded
        .into_iter()
        .filter(|event| event.created < until && webhook::EVENTS.contains(&event.kind.as_str()));
    look.events(ours.collect()).await;
    metrics::reconciled(look.report.granted, look.report.failed);
    Ok(look.report)
}

/// One reconciliation in progress.
struct Reconciliation<'a> {
    billing: &'a BillingState,
    processor: ProcessorClient,
    /// Seconds since 1970.
    from: i64,
    report: ReconciliationReport,
}

/// An object that may have been paid, and when, in seconds since 1970.
struct PaymentCandidate {
    at: i64,
    what: Paid,
}

enum Paid {
    /// The id of an invoice.
    Invoice(String),
    Intent(Box<PaymentIntent>),
}

impl PaymentCandidate {
    fn of_intent(intent: PaymentIntent) -> Self {
        Self { at: intent.created, what: Paid::Intent(Box::new(intent)) }
    }

    /// Of two payments in the same second the invoice comes first, because a renewal falls due
    /// automatically.
    const fn place(&self) -> (i64, bool) {
        (self.at, matches!(self.what, Paid::Intent(_)))
    }
}

impl Reconciliation<'_> {
    /// Handles pages, subscriptions, refunds and disputes.
    async fn others(&mut self) {
        if let Err(error) = self.checkouts().await {
            self.unread("checkouts", &error);
        }
        if let Err(error) = self.subscriptions().await {
            self.unread("subscriptions", &error);
        }
        if let Err(error) = self.reversals().await {
            self.unread("refunds and disputes", &error);
        }
    }

    /// Whether the processor wants no more requests for now.
    const fn is_limited(&self) -> bool {
        self.report.limited_s.is_some()
    }

    /// Handles payments of invoices and orders that the ledger does not have yet, in the order in
    /// which they were made.
    async fn payments(&mut self, untold: &[ProcessorEvent]) {
        let invoices = self.invoices(untold).await;
        let mut payments = self.read("invoices", invoices);
        let intents = self.intents().await;
        payments.extend(self.read("payment intents", intents));
        payments.sort_by_key(PaymentCandidate::place);
        for payment in payments {
            if self.is_limited() {
                return;
            }
            self.report.looked_at += 1;
            match payment.what {
                Paid::Invoice(id) => {
                    let taken = self.take_invoice(&id).await;
                    self.count(&id, taken);
                }
                Paid::Intent(intent) => {
                    let taken = self.take_intent(&intent).await;
                    self.count(&intent.id, taken);
                }
            }
        }
    }

    async fn intents(&self) -> Result<Vec<PaymentCandidate>, ProcessorError> {
        let (processor, from) = (self.processor.clone(), self.from);
        let intents: Vec<PaymentIntent> = all(move |after| {
            let processor = processor.clone();
            async move { processor.list_intents(&listing(from, after.as_deref())).await }
        })
        .await?;
        Ok(intents.into_iter().map(PaymentCandidate::of_intent).collect())
    }

    /// Handles an intent whose order is not closed, and money that arrived for a closed order.
    async fn take_intent(
        &self,
        intent: &PaymentIntent,
    ) -> Result<Option<FulfilmentOutcome>, Failure> {
        if self.is_news(intent).await? {
            return fulfil::take_intent(self.billing, intent).await.map(Some);
        }
        Ok(None)
    }

    async fn is_news(&self, intent: &PaymentIntent) -> Result<bool, Failure> {
        let is_paid = intent.status == IntentStatus::Succeeded;
        let id = match marks::order_in(self.billing, &intent.metadata).await? {
            OrderMark::None => return Ok(false),
            OrderMark::Malformed => return Ok(is_paid),
            OrderMark::Order(id) => id,
        };
        let order = store::orders::find_any(&self.billing.store, id).await?;
        Ok(order.map_or(is_paid, |order| match order.state {
            OrderState::Pending => true,
            OrderState::Failed | OrderState::Expired => is_paid,
            OrderState::Paid | OrderState::Refunded => {
                is_paid && order.payment.as_deref() != Some(&intent.id)
            }
        }))
    }

    /// Handles checkout pages that were paid or have ended, and subscriptions that began on one.
    async fn checkouts(&mut self) -> Result<(), Failure> {
        if self.is_limited() {
            return Ok(());
        }
        let (processor, from) = (self.processor.clone(), self.from);
        let sessions = all(move |after| {
            let processor = processor.clone();
            async move { processor.list_checkouts(&listing(from, after.as_deref())).await }
        })
        .await?;
        let mut subscribers = BTreeSet::new();
        for session in sessions {
            self.report.looked_at += 1;
            if session.mode == "subscription" {
                subscribers.extend(session.customer_id().map(str::to_owned));
                continue;
            }
            let named = session.client_reference_id.as_deref();
            let Some(id) = named.and_then(|named| named.parse().ok()) else { continue };
            let order = store::orders::find_any(&self.billing.store, id).await?;
            // The page of an unknown order counts itself where there was nothing to pay.
            let is_lost = session.is_paid() && session.payment_intent.is_none();
            if order.map_or(is_lost, |order| order.state == OrderState::Pending) {
                let taken = fulfil::fulfil_session(self.billing, &session.id).await;
                self.count(&session.id, taken.map(Some));
            }
        }
        for subscriber in subscribers {
            if self.is_limited() {
                break;
            }
            if let Err(error) = self.take_subscriber(&subscriber).await {
                self.failed(&subscriber, &error);
            }
        }
        Ok(())
    }

    /// Reads the subscription of a customer of whom none is stored. The others are compared in
    /// lists.
    async fn take_subscriber(&self, payer: &str) -> Result<(), Failure> {
        let store = &self.billing.store;
        let Some(customer) = store::processor_customers::owner(store, payer).await? else {
            return Ok(());
        };
        let known = store::subscriptions::find(store, customer).await?;
        if known.is_some_and(|known| known.view.subscription_id.is_some()) {
            return Ok(());
        }
        subscriptions::sync_customer(self.billing, customer, payer).await
    }

    /// Paid invoices of these hours, and older ones that were paid within them according to an
    /// event that our endpoint has not received.
    async fn invoices(
        &self,
        untold: &[ProcessorEvent],
    ) -> Result<Vec<PaymentCandidate>, ProcessorError> {
        let (processor, from) = (self.processor.clone(), self.from);
        let listed: Vec<ProcessorInvoice> = all(move |after| {
            let processor = processor.clone();
            async move { processor.list_invoices(&listing(from, after.as_deref())).await }
        })
        .await?;
        self.mirror(&listed).await;
        let known: BTreeSet<&str> = listed.iter().map(|invoice| invoice.id.as_str()).collect();
        let told = untold.iter().filter(|event| event.kind == INVOICE_PAID);
        let told = told.filter_map(|event| Some((event.created, event.object_id()?)));
        let older = told.filter(|(_, id)| !known.contains(id));
        let paid = listed.iter().filter(|invoice| invoice.is_paid());
        let paid = paid.map(|invoice| (invoice.paid_at(), invoice.id.as_str()));
        let payment =
            |(at, id): (i64, &str)| PaymentCandidate { at, what: Paid::Invoice(id.to_owned()) };
        Ok(older.chain(paid).map(payment).collect())
    }

    /// Stores invoices that are new, or whose state changed.
    async fn mirror(&self, listed: &[ProcessorInvoice]) {
        for invoice in listed {
            if let Err(error) = invoice_records::note_listed(self.billing, invoice).await {
                tracing::warn!(%error, payment.object = invoice.id, "an invoice could not be stored yet");
            }
        }
    }

    /// Handles a paid invoice whose credits have not been granted.
    async fn take_invoice(&self, id: &str) -> Result<Option<FulfilmentOutcome>, Failure> {
        if store::recorded_payments::is_granted(&self.billing.store, id).await? {
            return Ok(None);
        }
        invoices::fulfil_invoice(self.billing, id).await.map(Some)
    }

    /// Compares every live subscription with the stored one, however old, because the event about
    /// its change or end may be missing. Only those that differ are read again.
    async fn subscriptions(&mut self) -> Result<(), Failure> {
        if self.is_limited() {
            return Ok(());
        }
        let mut listed = self.live_subscriptions().await?;
        let mut after = None;
        while !self.is_limited() {
            let store = &self.billing.store;
            let customers = store::subscriptions::list_live(store, after, CUSTOMERS).await?;
            let Some(last) = customers.last().copied() else { break };
            after = Some(last);
            for customer in customers {
                self.report.looked_at += 1;
                if let Err(error) = self.compare(customer, &mut listed).await {
                    self.failed(&customer.to_string(), &error);
                }
            }
        }
        // What is left is stored as nobody's, or was never ours.
        for payer in listed.into_values().filter_map(|one| one.customer_id().map(str::to_owned)) {
            if self.is_limited() {
                break;
            }
            if let Err(error) = subscriptions::sync(self.billing, &payer).await {
                self.failed(&payer, &error);
            }
        }
        Ok(())
    }

    /// All subscriptions that have not ended, by id.
    async fn live_subscriptions(
        &self,
    ) -> Result<BTreeMap<String, ProcessorSubscription>, ProcessorError> {
        let processor = self.processor.clone();
        let listed = all(move |after| {
            let processor = processor.clone();
            async move {
                let listing = ListFilter { after: after.as_deref(), ..ListFilter::default() };
                processor.list_subscriptions(&listing).await
            }
        })
        .await?;
        Ok(listed.into_iter().map(|one| (one.id.clone(), one)).collect())
    }

    /// Reads a customer's subscription again unless it is listed as it is stored.
    async fn compare(
        &self,
        customer: CustomerId,
        listed: &mut BTreeMap<String, ProcessorSubscription>,
    ) -> Result<(), Failure> {
        let known = store::subscriptions::find(&self.billing.store, customer).await?;
        let of = known.as_ref().and_then(|known| known.view.subscription_id.as_deref());
        let listed = of.and_then(|id| listed.remove(id));
        match (known, listed) {
            (Some(known), Some(listed)) if subscriptions::is_stored(&listed, &known.view) => {
                subscriptions::apply_again(self.billing, customer, &known).await
            }
            _ => self.follow(customer).await,
        }
    }

    async fn follow(&self, customer: CustomerId) -> Result<(), Failure> {
        let payer = store::processor_customers::find(&self.billing.store, customer).await?;
        match payer {
            Some(payer) => subscriptions::sync_customer(self.billing, customer, &payer).await,
            None => Ok(()),
        }
    }

    async fn reversals(&mut self) -> Result<(), Failure> {
        if self.is_limited() {
            return Ok(());
        }
        let read_at = self.billing.clock.now();
        for refund in reversals::refunds_since(&self.processor, self.from).await? {
            self.report.looked_at += 1;
            if let Err(error) = reversals::take_refund(self.billing, &refund, read_at).await {
                self.failed(&refund.id, &error);
            }
        }
        for note in credit_notes::notes_since(&self.processor, self.from).await? {
            self.report.looked_at += 1;
            if let Err(error) = credit_notes::take_note(self.billing, &note).await {
                self.failed(&note.id, &error);
            }
        }
        self.disputes().await
    }

    async fn disputes(&mut self) -> Result<(), Failure> {
        for notice in disputes::listed(&self.processor, self.from).await? {
            self.report.looked_at += 1;
            if let Err(error) = disputes::take(self.billing, &notice).await {
                self.failed(notice.id(), &error);
            }
        }
        Ok(())
    }

    /// Events, oldest first; with `false` only those that our endpoint has not received.
    async fn recorded(
        &self,
        delivered: Option<bool>,
    ) -> Result<Vec<ProcessorEvent>, ProcessorError> {
        let (processor, from) = (self.processor.clone(), self.from);
        all(move |after| {
            let processor = processor.clone();
            async move {
                let listing = EventListing {
                    delivered,
                    created_from: Some(from),
                    after: after.as_deref(),
                    ..EventListing::default()
                };
                processor.list_events(&listing).await
            }
        })
        .await
    }

    async fn events(&mut self, untold: Vec<ProcessorEvent>) {
        for event in untold {
            if self.is_limited() {
                return;
            }
            self.report.looked_at += 1;
            let id = event.id.clone();
            match webhook::accept(self.billing, event).await {
                Ok(true) => self.report.events += 1,
                Ok(false) => {}
                Err(error) => self.failed(&id, &error),
            }
        }
    }

    /// Counts the result for an object; `None` means that the ledger already had it.
    fn count(&mut self, object: &str, taken: Result<Option<FulfilmentOutcome>, Failure>) {
        match taken {
            Ok(Some(FulfilmentOutcome::Granted(_))) => self.report.granted += 1,
            Ok(Some(FulfilmentOutcome::Unmatched)) => self.report.unmatched += 1,
            Ok(
                Some(
                    FulfilmentOutcome::Open
                    | FulfilmentOutcome::Ended { .. }
                    | FulfilmentOutcome::NotOurs,
                )
                | None,
            ) => {}
            Err(error) => self.failed(object, &error),
        }
    }

    /// The objects of a list; empty if it could not be read, which is counted as a failure.
    fn read<T>(&mut self, what: &str, list: Result<Vec<T>, ProcessorError>) -> Vec<T> {
        list.unwrap_or_else(|error| {
            self.unread(what, &error.into());
            Vec::new()
        })
    }

    /// Remembers that the processor limits requests, so that nothing more is asked of it.
    fn note_limit(&mut self, error: &Failure) {
        if let Failure::Payment(PaymentProblem::RateLimited { retry_after_s }) = error {
            self.report.limited_s = Some(*retry_after_s);
        }
    }

    fn unread(&mut self, what: &str, error: &Failure) {
        self.report.failed += 1;
        self.note_limit(error);
        tracing::warn!(%error, what, "a list of the processor could not be read");
    }

    fn failed(&mut self, object: &str, error: &Failure) {
        self.report.failed += 1;
        self.note_limit(error);
        tracing::warn!(%error, payment.object = object, "an object could not be reconciled");
    }
}
