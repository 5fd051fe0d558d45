//! Staff look at a customer's things: only with permission, only while the customer allows it, never without a
//! trace in the customer's audit list. All of that is one transaction, before anything is read.

use domain::id::CustomerId;
use domain::staff::Permission;
use failures::Failure;
use runtime::audit::AuditRecord;
use serde_json::Value;
use store::support_access::{self, SupportLook, SupportLookOutcome};
use web::auth::Caller;

use crate::IdentityState;

/// What a member of the staff wants to look at, or do.
pub struct StaffVisit {
    /// Whose things.
    pub customer: CustomerId,
    /// What it takes.
    pub needs: &'static [Permission],
    /// What it is, as a word of the audit list.
    pub action: &'static str,
    /// What exactly, as fields for the customer to read.
    pub details: Value,
}

/// Lets the caller in, and writes that down. Whether a customer does not exist or does not allow it is not told.
pub async fn visit(
    identity: &IdentityState,
    caller: &Caller,
    visit: StaffVisit,
) -> Result<(), Failure> {
    caller.refuse_limited()?;
    let StaffVisit { customer, needs, action, details } = visit;
    let record = AuditRecord { customer, actor: caller.customer.to_string(), action, details };
    let look = SupportLook { staff: caller.customer, needs, customer };
    let entry = record.now(&identity.clock, &identity.random);
    match support_access::look(&identity.store, &look, &entry).await? {
        SupportLookOutcome::Allowed => Ok(()),
        SupportLookOutcome::NotPermitted => Err(Failure::MissingPermission(needs)),
        SupportLookOutcome::NotOpen => Err(Failure::SupportAccessClosed),
    }
}
