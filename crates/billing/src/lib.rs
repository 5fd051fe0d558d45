//! Payments: what joins the books to the payment processor.
//!
//! Credits are granted for a payment in one place only (`fulfil`), however the payment became known; everything here
//! that learns of one ends there. What the processor says is read from the processor, never believed from a browser
//! or from an event. A row is committed before the request that it is about leaves, and its id is what repeated
//! requests are known by.

pub mod card_on_file;
pub mod cards;
mod change_requests;
pub mod changes;
pub mod charge;
pub mod checkout;
mod credit;
pub mod decide;
pub mod fulfil;
pub mod give_up;
pub mod invoices;
pub mod jobs;
pub mod lost;
pub mod lots;
pub mod low_balances;
mod opening;
pub mod payer;
mod period;
pub mod plan_changes;
pub mod plan_versions;
pub mod plans;
pub mod previews;
pub mod reconcile;
pub mod reversals;
pub mod slot_credits;
mod sold;
pub mod subscribe;
pub mod subscriptions;
pub mod top_up_worker;
pub mod top_ups;
pub mod webhook;

use std::fmt::Display;
use std::ops::Deref;
use std::sync::Arc;

use ::jobs::JobQueue;
use clients::processor::IdempotencyKey;
use clients::processor::ProcessorClient;
use domain::slot::AccountAllowances;
use failures::Failure;
use failures::PaymentProblem;
use runtime::cached::CachedEntries;
use runtime::clock::{Clock, Random};
use runtime::tasks::Tasks;
use settings::Config;
use settings::billing::Pack;
use store::Store;

use crate::low_balances::LowBalances;

/// What billing uses. A clone is another handle to the same.
#[derive(Clone)]
pub struct BillingState(Arc<BillingParts>);

/// The parts of [`BillingState`].
pub struct BillingParts {
    /// Where payments are recorded.
    pub store: Store,
    /// Tells when payments happen and when they are given up.
    pub clock: Clock,
    /// Makes ids.
    pub random: Random,
    /// Where work runs that a caller who hangs up must not end.
    pub tasks: Tasks,
    /// Packs, plans and how they are sold.
    pub config: Arc<Config>,
    /// How many accounts customers and plans have, besides what is paid for.
    pub allowances: Arc<AccountAllowances>,
    /// The payment processor, if one is configured.
    pub processor: Option<ProcessorClient>,
    /// Customers whose balance has just become low.
    pub low_balances: Arc<LowBalances>,
    /// Where follow-up work is queued.
    pub jobs: JobQueue,
    /// What this node remembers of accounts.
    pub cached: Arc<dyn CachedEntries>,
}

impl BillingState {
    /// Puts the parts together.
    pub fn new(parts: BillingParts) -> Self {
        Self(Arc::new(parts))
    }

    /// The payment processor, or that nothing can be paid here.
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

/// The pack of this id. Prices come from here alone.
pub fn pack<'a>(billing: &'a BillingState, id: &str) -> Result<&'a Pack, Failure> {
    const NO_PACK: Failure =
        Failure::NotFound("there is no pack of that id; `GET /v1/billing/plans` lists them");
    billing.config.packs.iter().find(|pack| pack.id == id).ok_or(NO_PACK)
}

/// What the processor knows the request of this kind about this row by, however often it is sent.
pub fn key(kind: &str, id: impl Display) -> Result<IdempotencyKey, Failure> {
    IdempotencyKey::of(kind, id).map_err(|error| Failure::Internal(error.to_string()))
}
