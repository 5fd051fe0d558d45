//! Payments: the connection between the ledger and the payment processor.
//!
//! Credits for a payment are granted in one place only (`fulfil`), however we hear of the payment.
//! State is always read from the processor, never trusted from a browser or an event. A row is
//! committed before its request is sent, and the idempotency keys of repeated requests are derived
//! from its id.

pub mod card_on_file;
pub mod cards;
mod change_requests;
pub mod changes;
pub mod charge;
pub mod checkout;
pub mod compare_days;
mod credit;
mod credit_adjustments;
pub mod credit_notes;
pub mod decide;
pub mod disputes;
mod doubles;
mod earlier_requests;
pub mod fulfil;
pub mod give_up;
mod invoice_notes;
pub mod invoice_records;
pub mod invoices;
pub mod jobs;
pub mod liability;
mod listing;
pub mod lost;
mod lost_orders;
pub mod lots;
pub mod low_balances;
mod marks;
mod mismatches;
pub mod notices;
pub mod offered_prices;
mod opening;
mod page_goods;
pub mod payer;
mod period;
pub mod plan_changes;
pub mod plan_versions;
pub mod plans;
pub mod previews;
mod receipts;
pub mod reconcile;
pub mod reconcile_rounds;
pub mod reversals;
pub mod slot_credits;
mod sold;
pub mod subscribe;
pub mod subscriptions;
pub mod top_up_view;
pub mod top_up_worker;
pub mod top_ups;
pub mod webhook;

use std::fmt::Display;
use std::ops::Deref;
use std::sync::Arc;

use ::jobs::JobQueue;
use domain::slot::AccountAllowances;
use emails::{EmailRequest, OperatorNotice};
use failures::Failure;
use failures::PaymentProblem;
use processor_client::IdempotencyKey;
use processor_client::ProcessorClient;
use runtime::cached::CachedEntries;
use runtime::clock::{Clock, Random};
use runtime::tasks::Tasks;
use settings::Config;
use settings::billing::Pack;
use store::Store;
use store::jobs::NewJob;

use crate::low_balances::LowBalances;

/// What billing uses. Cloning it is cheap.
#[derive(Clone)]
pub struct BillingState(Arc<BillingParts>);

/// The parts of [`BillingState`].
pub struct BillingParts {
    /// Stores payments.
    pub store: Store,
    /// Tells when payments happen and expire.
    pub clock: Clock,
    /// Generates ids.
    pub random: Random,
    /// Runs work that must continue if the caller disconnects.
    pub tasks: Tasks,
    /// Packs, plans and how they are sold.
    pub config: Arc<Config>,
    /// The accounts that customers and plans include, besides paid slots.
    pub allowances: Arc<AccountAllowances>,
    /// The payment processor, if one is configured.
    pub processor: Option<ProcessorClient>,
    /// Customers whose balance has just become low.
    pub low_balances: Arc<LowBalances>,
    /// The queue for follow-up work.
    pub jobs: JobQueue,
    /// This node's cache of accounts.
    pub cached: Arc<dyn CachedEntries>,
}

impl BillingState {
    /// Builds the state.
    pub fn new(parts: BillingParts) -> Self {
        Self(Arc::new(parts))
    }

    /// The payment processor, or the problem that none is configured.
    pub fn processor(&self) -> Result<&ProcessorClient, Failure> {
        self.processor.as_ref().ok_or(Failure::Payment(PaymentProblem::NotConfigured))
    }
}

impl Deref for BillingState {
    type Target = BillingParts;

    fn deref(&self) -> &BillingParts {
        &self.0
    }
}

/// The pack with this id. Prices are taken only from here.
pub fn pack<'a>(billing: &'a BillingState, id: &str) -> Result<&'a Pack, Failure> {
    const NO_PACK: Failure =
        Failure::NotFound("there is no pack with that id; `GET /v1/billing/plans` lists them");
    billing.config.packs.iter().find(|pack| pack.id == id).ok_or(NO_PACK)
}

/// The idempotency key of a request of this kind for this row, the same however often it is sent.
pub fn key(kind: &str, id: impl Display) -> Result<IdempotencyKey, Failure> {
    IdempotencyKey::of(kind, id).map_err(|error| Failure::Internal(error.to_string()))
}

/// An email to the operator as a job; `None` if it wants no emails.
fn operator_email(billing: &BillingState, notice: OperatorNotice) -> Option<NewJob> {
    billing.config.mail.operator()?;
    Some(emails::job(&billing.jobs, &EmailRequest::Operator { notice }))
}
