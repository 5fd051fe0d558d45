//! Staff look at a customer's things: only with permission, only while the customer allows it, never without a
//! trace in the customer's audit list. All of that is one transaction, before anything is read.

use domain::id::CustomerId;
use domain::staff::Permission;
use failures::Failure;
use runtime::audit::AuditRecord;
use serde_json::Value;
use store::support_access::{self, Look, Looking};
use web::auth::Caller;
use web::error::ApiError;

use crate::app::App;

/// What a member of the staff wants to look at, or do.
pub(crate) struct Visit {
    /// Whose things.
    pub(crate) customer: CustomerId,
    /// What it takes.
    pub(crate) needs: &'static [Permission],
    /// What it is, as a word of the audit list.
    pub(crate) action: &'static str,
    /// What exactly, as fields for the customer to read.
    pub(crate) details: Value,
}

/// Lets the caller in, and writes that down. Whether a customer does not exist or does not allow it is not told.
pub(crate) async fn visit(app: &App, caller: &Caller, visit: Visit) -> Result<(), ApiError> {
    caller.refuse_limited()?;
    let Visit { customer, needs, action, details } = visit;
    let record = AuditRecord { customer, actor: caller.customer.to_string(), action, details };
    let look = Look { staff: caller.customer, needs, customer };
    let entry = record.now(&app.clock, &app.random);
    match support_access::look(&app.store, &look, &entry).await? {
        Looking::Allowed => Ok(()),
        Looking::NotPermitted => Err(ApiError::Failure(Failure::MissingPermission(needs))),
        Looking::NotOpen => Err(ApiError::Failure(Failure::SupportAccessClosed)),
    }
}
