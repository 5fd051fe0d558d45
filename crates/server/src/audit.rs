//! What is written into a customer's audit list: one word for each thing that can be done, and who did it.

use domain::id::{CustomerId, EntryId};
use store::audit::AuditEntry;

use crate::clock::{Clock, Random};

/// A further key was made.
pub(crate) const KEY_CREATED: &str = "key.created";
/// A key got another secret.
pub(crate) const KEY_ROTATED: &str = "key.rotated";
/// A key was revoked for good.
pub(crate) const KEY_DELETED: &str = "key.deleted";
/// Credits were given or taken by an operator.
pub(crate) const CREDITS_ADJUSTED: &str = "credits.adjusted";
/// Who acts through the command line or the admin listener.
pub(crate) const OPERATOR: &str = "operator";

/// Something that somebody does, about to be written down.
pub(crate) struct Deed {
    /// The customer it concerns.
    pub(crate) customer: CustomerId,
    /// Who: the id of a key, `session`, `operator`, or the customer id of staff.
    pub(crate) actor: String,
    /// One of the words of this module.
    pub(crate) action: &'static str,
    /// What else is worth knowing; never a secret.
    pub(crate) details: String,
}

impl Deed {
    /// The entry of the list, at this moment.
    pub(crate) fn now(self, clock: &Clock, random: &Random) -> AuditEntry {
        let at = clock.now();
        AuditEntry {
            id: EntryId::new(at, random.bytes()),
            customer: self.customer,
            at,
            actor: self.actor,
            action: self.action.to_owned(),
            details: self.details,
        }
    }
}
