//! The reconciler: compares the processor's last days with the ledger, so that a payment is granted
//! even if no event about it arrived, or if the database was restored from an older copy.
//!
//! It grants nothing itself. What is missing from the ledger is handled as if an event had arrived;
//! payments of all kinds are handled in the order in which they were made, because the first
//! credits paid settle a debt. Once a day `compare_days` checks the other direction.

use std::collections::BTreeSet;
use std::time::Duration;

use clients::processor::objects::{HasId, ProcessorEvent};
use clients::processor::objects::{IntentStatus, ListPage, PaymentIntent, ProcessorInvoice};
use clients::processor::{EventListing, ListFilter, ProcessorClient, ProcessorError};
use domain::id::CustomerId;
use domain::payment::OrderState;
use domain::time::UtcDay;
use failures::Failure;
use runtime::metrics;
use tokio_util::sync::CancellationToken;

use super::fulfil::{self, FulfilmentOutcome};
use super::marks::{self, OrderMark};
use super::{compare_days, invoice_records, invoices, reversals, subscriptions, webhook};
use crate::BillingState;

/// How far back the regular reconciliation looks, in hours.
pub const HOURS: i64 = 72;
/// How far back a reconciliation can look: a year. The processor keeps events for 30 days, and
/// their objects permanently.
pub const HOURS_MAX: i64 = 366 * 24;
/// The maximum number of pages read from one list, with 100 objects each.
const PAGES_MAX: usize = 1_000;
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
}

/// Reconciles periodically, starting immediately, and compares each day after it has ended.
pub fn start(billing: &BillingState, stop: &CancellationToken) {
    let section = &billing.config.processor;
    if !section.is_configured() || section.reconcile_every_s == 0 {
        return;
    }
    let (worker, stopped) = (billing.clone(), stop.clone());
    let every = Duration::from_secs(section.reconcile_every_s);
    billing.tasks.spawn_control(async move {
        let mut timer = tokio::time::interval(every);
        timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut compared = None;
        loop {
            tokio::select! {
                () = stopped.cancelled() => return,
                _ = timer.tick() => {}
            }
            let yesterday = worker.clock.now().day().plus_days(-1);
            tokio::select! {
                () = stopped.cancelled() => return,
                () = round(&worker, (compared != Some(yesterday)).then_some(yesterday)) => {}
            }
            compared = Some(yesterday);
        }
    });
}

/// Reconciles the last `hours` hours.
pub async fn run(billing: &BillingState, hours: i64) -> Result<ReconciliationReport, Failure> {
    let processor = billing.processor()?.clone();
    let hours = hours.clamp(1, HOURS_MAX);
    let from = billing.clock.now().plus_seconds(-hours.saturating_mul(3_600)).unix_seconds();
    let mut look = Reconciliation {
        billing,
        processor,
        from,
        report: ReconciliationReport { hours, ..ReconciliationReport::default() },
    };
    let untold = look.untold().await;
    let untold = look.read("events", untold);
    look.payments(&untold).await;
    let parts = [
        look.checkouts().await.map_err(|error| ("checkouts", error)),
        look.subscriptions().await.map_err(|error| ("subscriptions", error)),
        look.reversals().await.map_err(|error| ("refunds and disputes", error)),
    ];
    for (what, error) in parts.into_iter().filter_map(Result::err) {
        look.unread(what, &error);
    }
    look.events(untold).await;
    metrics::reconciled(look.report.granted, look.report.failed);
    Ok(look.report)
}

async fn round(billing: &BillingState, day: Option<UtcDay>) {
    match run(billing, HOURS).await {
        Ok(report) if report.granted > 0 => {
            tracing::warn!(?report, "granted payments of which no event had arrived");
        }
        Ok(report) => tracing::debug!(?report, "reconciled"),
        Err(error) => tracing::warn!(%error, "the reconciliation with the processor failed"),
    }
    let Some(day) = day else { return };
    match compare_days::compare(billing, day).await {
        Ok(0) => {
            tracing::info!(%day, "the day's payments match those of the processor");
        }
        Ok(differing) => tracing::error!(%day, differing, "payments differ from the processor's"),
        Err(error) => tracing::warn!(%error, %day, "the day's payments could not be compared"),
    }
}

/// One reconciliation in progress.
struct Reconciliation<'a> {
    billing: &'a BillingState,
    processor: ProcessorClient,
    /// Seconds since 1970.
    from: i64,
    report: ReconciliationReport,
}

/// An object that may have been paid.
struct Payment {
    /// When, in seconds since 1970.
    at: i64,
    what: Paid,
}

enum Paid {
    /// The id of an invoice.
    Invoice(String),
    Intent(Box<PaymentIntent>),
}

impl Payment {
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
    /// Handles payments of invoices and orders that the ledger does not have yet, in the order in
    /// which they were made.
    async fn payments(&mut self, untold: &[ProcessorEvent]) {
        let invoices = self.invoices(untold).await;
        let mut payments = self.read("invoices", invoices);
        let intents = self.intents().await;
        payments.extend(self.read("payment intents", intents));
        payments.sort_by_key(Payment::place);
        for payment in payments {
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

    async fn intents(&self) -> Result<Vec<Payment>, ProcessorError> {
        let (processor, from) = (self.processor.clone(), self.from);
        let intents: Vec<PaymentIntent> = all(move |after| {
            let processor = processor.clone();
            async move { processor.list_intents(&listing(from, after.as_deref())).await }
        })
        .await?;
        Ok(intents.into_iter().map(Payment::of_intent).collect())
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

    /// Whether an intent has news for its order.
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
            if order.is_some_and(|order| order.state == OrderState::Pending) {
                let taken = fulfil::fulfil_session(self.billing, &session.id).await;
                self.count(&session.id, taken.map(Some));
            }
        }
        for subscriber in subscribers {
            if let Err(error) = subscriptions::sync(self.billing, &subscriber).await {
                self.failed(&subscriber, &error);
            }
        }
        Ok(())
    }

    /// Paid invoices of these hours, and older ones that were paid within them according to an
    /// event that our endpoint has not received.
    async fn invoices(&self, untold: &[ProcessorEvent]) -> Result<Vec<Payment>, ProcessorError> {
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
        let payment = |(at, id): (i64, &str)| Payment { at, what: Paid::Invoice(id.to_owned()) };
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

    /// Reads every live subscription again, however old, because the event about its change or end
    /// may be missing.
    async fn subscriptions(&mut self) -> Result<(), Failure> {
        let mut after = None;
        loop {
            let store = &self.billing.store;
            let customers = store::subscriptions::list_live(store, after, CUSTOMERS).await?;
            let Some(last) = customers.last().copied() else { return Ok(()) };
            after = Some(last);
            for customer in customers {
                self.report.looked_at += 1;
                if let Err(error) = self.follow(customer).await {
                    self.failed(&customer.to_string(), &error);
                }
            }
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
        let (processor, from) = (self.processor.clone(), self.from);
        let refunds = all(move |after| {
            let processor = processor.clone();
            async move { processor.list_refunds(&listing(from, after.as_deref())).await }
        })
        .await?;
        for refund in refunds {
            self.report.looked_at += 1;
            if let Err(error) = reversals::take_refund(self.billing, &refund).await {
                self.failed(&refund.id, &error);
            }
        }
        self.disputes().await
    }

    async fn disputes(&mut self) -> Result<(), Failure> {
        let (processor, from) = (self.processor.clone(), self.from);
        let disputes = all(move |after| {
            let processor = processor.clone();
            async move { processor.list_disputes(&listing(from, after.as_deref())).await }
        })
        .await?;
        for dispute in disputes {
            self.report.looked_at += 1;
            if let Err(error) = reversals::take_dispute(self.billing, &dispute).await {
                self.failed(&dispute.id, &error);
            }
        }
        Ok(())
    }

    /// Events that our endpoint has not received, oldest first.
    async fn untold(&self) -> Result<Vec<ProcessorEvent>, ProcessorError> {
        let (processor, from) = (self.processor.clone(), self.from);
        all(move |after| {
            let processor = processor.clone();
            async move {
                let listing = EventListing {
                    delivered: Some(false),
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

    fn unread(&mut self, what: &str, error: &Failure) {
        self.report.failed += 1;
        tracing::warn!(%error, what, "a list of the processor could not be read");
    }

    fn failed(&mut self, object: &str, error: &Failure) {
        self.report.failed += 1;
        tracing::warn!(%error, payment.object = object, "an object could not be reconciled");
    }
}

const fn listing(from: i64, after: Option<&str>) -> ListFilter<'_> {
    ListFilter {
        customer: None,
        subscription: None,
        payment_intent: None,
        status: None,
        created_from: Some(from),
        after,
        limit: None,
    }
}

/// All pages of a list, oldest object first.
async fn all<T, F, R>(mut page: F) -> Result<Vec<T>, ProcessorError>
where
    T: HasId,
    F: FnMut(Option<String>) -> R,
    R: Future<Output = Result<ListPage<T>, ProcessorError>>,
{
    let mut found = Vec::new();
    let mut after = None;
    for _ in 0..PAGES_MAX {
        let read = page(after.take()).await?;
        after = read.next().map(str::to_owned);
        found.extend(read.data);
        if after.is_none() {
            break;
        }
    }
    // The processor lists the newest first.
    found.reverse();
    Ok(found)
}
