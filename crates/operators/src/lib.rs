//! The operator's work on one customer, call or payment: found, shown, exported, suspended, erased,
//! refunded, settled; and whether the payment processor is set up.
//!
//! The command line and the admin listener run the same [`OperatorCommand`]s. Each look at one
//! customer and each change is in that customer's audit list, with the name of who did it. Nothing
//! here knows HTTP, and credits change only in the store's ledger.

mod calls;
mod command;
mod customers;
mod disputes;
mod dump;
mod erase;
mod liability;
mod payers;
mod payment_shapes;
pub mod processor_setup;
mod profile;
mod refunds;
mod shapes;
mod suspend;
mod unmatched;

pub use command::{CreditTreatment, OperatorCommand, run};
pub use dump::{CustomerArchive, IncompleteArchive, export};
pub use payment_shapes::{
    DisputeLine, InvoiceLine, OrderRefund, RefundedLot, ReversalLine, UnmatchedLine,
    UnmatchedResult,
};
pub use shapes::{
    CallPoint, CallView, CustomerErasure, CustomerLine, CustomerMatch, CustomerProfile, DebtNotice,
    ErasedTable, KeyLine, LedgerPoint, LiabilityReport, LiabilityRow, LotLine, OperatorOutcome,
    OrderLine, ProfileAccount, SlotLine, SuspensionView,
};

use std::fmt::Display;

use billing::BillingState;
use domain::customer::CustomerRef;
use domain::id::CustomerId;
use domain::staff::OperatorName;
use failures::{Failure, OperatorProblem};
use runtime::audit::{self, AuditRecord};
use runtime::clock::{Clock, Random};
use serde_json::Value;
use store::Store;
use store::audit::AuditEntry;

/// What the operator's work uses. Cloning it is cheap.
#[derive(Clone)]
pub struct OperatorsState {
    /// Stores everything.
    pub store: Store,
    /// Tells the time.
    pub clock: Clock,
    /// Generates ids.
    pub random: Random,
    /// Payments and subscriptions, and this node's caches.
    pub billing: BillingState,
}

/// Who works as the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OperatorIdentity {
    /// Someone who did not give a name.
    Unnamed,
    /// Someone with this name.
    Named(OperatorName),
    /// A customer with permissions as staff.
    Staff(CustomerId),
}

impl OperatorIdentity {
    /// From an optional name.
    pub fn of(name: Option<OperatorName>) -> Self {
        name.map_or(Self::Unnamed, Self::Named)
    }

    /// The actor in audit lists.
    pub fn actor(&self) -> String {
        match self {
            Self::Unnamed => audit::OPERATOR.to_owned(),
            Self::Named(name) => format!("{}{name}", audit::OPERATOR_PREFIX),
            Self::Staff(customer) => customer.to_string(),
        }
    }
}

impl OperatorsState {
    /// An audit entry, dated now.
    fn entry(
        &self,
        who: &OperatorIdentity,
        customer: CustomerId,
        action: &'static str,
        details: Value,
    ) -> AuditEntry {
        let record = AuditRecord { customer, actor: who.actor(), action, details };
        record.now(&self.clock, &self.random)
    }

    /// Writes an entry that belongs to no change.
    async fn record(
        &self,
        who: &OperatorIdentity,
        customer: CustomerId,
        action: &'static str,
        details: Value,
    ) -> Result<(), Failure> {
        Ok(store::audit::record(&self.store, &self.entry(who, customer, action, details)).await?)
    }

    /// The customer that the operator named.
    async fn find(&self, named: &CustomerRef) -> Result<store::customers::Customer, Failure> {
        let found = match named {
            CustomerRef::Id(id) => store::customers::find_by_id(&self.store, *id).await?,
            CustomerRef::Email(email) => {
                store::customers::find_by_email(&self.store, email).await?
            }
        };
        found.ok_or_else(|| unknown("customer", named))
    }
}

/// The failure for something that does not exist.
fn unknown(what: &'static str, given: impl Display) -> Failure {
    OperatorProblem::Unknown { what, given: given.to_string() }.into()
}
