//! Staff access to a customer's data: only with a permission, only while the customer allows it,
//! and always recorded in the customer's audit list. All of that is one transaction, before
//! anything is read.

use domain::id::CustomerId;
use domain::staff::Permission;
use failures::Failure;
use runtime::audit::AuditRecord;
use serde_json::Value;
use store::support_access::{self, SupportLook, SupportLookOutcome};
use web::auth::Caller;

use crate::IdentityState;

/// What a member of the staff wants to read or do.
pub struct StaffVisit {
    /// The customer.
    pub customer: CustomerId,
    /// The permissions, all of which are needed.
    pub needs: &'static [Permission],
    /// The action in the audit list.
    pub action: &'static str,
    /// Further fields of the audit record, which the customer can read.
    pub details: Value,
}

/// Checks the caller's access and records it. We do not say whether a customer does not exist or
/// does not allow access.
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
