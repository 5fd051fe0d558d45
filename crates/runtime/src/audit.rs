//! What is written into a customer's audit list: one word for each thing that can be done, and who did it.

use domain::account::AccountState;
use domain::id::{AuditId, CustomerId};
use serde_json::{Map, Value, json};
use store::audit::AuditEntry;
use store::slot_assignment::SlotShift;

use crate::clock::{Clock, Random};

/// Accounts that an entry or an email names.
pub const NAMED_MAX: usize = 50;

/// A further key was made.
pub const KEY_CREATED: &str = "key.created";
/// The name or the limits of a key were changed.
pub const KEY_CHANGED: &str = "key.changed";
/// A key got another secret.
pub const KEY_ROTATED: &str = "key.rotated";
/// A key was revoked for good.
pub const KEY_DELETED: &str = "key.deleted";
/// An account was connected, or connected anew with other credentials.
pub const ACCOUNT_CONNECTED: &str = "account.connected";
/// An account was switched off: it keeps its credentials and has no slot.
pub const ACCOUNT_SWITCHED_OFF: &str = "account.switched_off";
/// An account was switched on again.
pub const ACCOUNT_SWITCHED_ON: &str = "account.switched_on";
/// An account and its credentials were deleted.
pub const ACCOUNT_DELETED: &str = "account.deleted";
/// The password was changed by who knew the old one.
pub const PASSWORD_CHANGED: &str = "password.changed";
/// The password was replaced by who had the link mailed for that.
pub const PASSWORD_RESET: &str = "password.reset";
/// Another address took the place of the old one, once it was confirmed.
pub const EMAIL_CHANGED: &str = "email.changed";
/// The customer allowed staff to look at its calls, exports and usage.
pub const SUPPORT_ENABLED: &str = "support_access.enabled";
/// The customer ended that.
pub const SUPPORT_DISABLED: &str = "support_access.disabled";
/// What the words for all that staff looked at begin with.
pub const STAFF_LOOKS: &str = "support.";
/// A member of the staff read the customer's call log.
pub const STAFF_READ_CALLS: &str = "support.calls_read";
/// A member of the staff read the customer's usage by day.
pub const STAFF_READ_USAGE: &str = "support.usage_read";
/// A member of the staff looked at the customer's exports.
pub const STAFF_READ_EXPORTS: &str = "support.exports_read";
/// A member of the staff removed an export of the customer.
pub const STAFF_DELETED_EXPORT: &str = "support.export_deleted";
/// The customer became staff, or may do more as such.
pub const PERMISSION_GRANTED: &str = "permission.granted";
/// The customer may do less as staff, or is none any more.
pub const PERMISSION_REVOKED: &str = "permission.revoked";
/// Credits were given or taken by an operator.
pub const CREDITS_ADJUSTED: &str = "credits.adjusted";
/// The plan was changed, as the processor shows.
pub const PLAN_CHANGED: &str = "plan.changed";
/// Another plan begins with the next period.
pub const PLAN_CHANGE_PENDING: &str = "plan.change_pending";
/// The plan that was to begin with the next period does not.
pub const PLAN_CHANGE_TAKEN_BACK: &str = "plan.change_taken_back";
/// Slots were changed, as the processor shows.
pub const SLOTS_CHANGED: &str = "slots.changed";
/// The subscription began, ended, or is another one.
pub const SUBSCRIPTION_CHANGED: &str = "subscription.changed";
/// Accounts that waited for room got it.
pub const ACCOUNTS_ACTIVATED: &str = "accounts.activated";
/// Accounts over the limit became inactive.
pub const ACCOUNTS_DEACTIVATED: &str = "accounts.deactivated";
/// Who acts when the payment processor shows a new state.
pub const PROCESSOR: &str = "processor";
/// Who acts through the command line or the admin listener.
pub const OPERATOR: &str = "operator";

/// Who acts by a link that was mailed.
pub const MAILED_LINK: &str = "mailed link";

/// Something that somebody does, about to be written down.
pub struct AuditRecord {
    /// The customer it concerns.
    pub customer: CustomerId,
    /// Who: the id of a key or of a session, `operator`, `mailed link`, or the customer id of staff.
    pub actor: String,
    /// One of the words of this module.
    pub action: &'static str,
    /// What else is worth knowing, as a JSON object of fields; never a secret.
    pub details: Value,
}

impl AuditRecord {
    /// The entry of the list, at this moment.
    pub fn now(self, clock: &Clock, random: &Random) -> AuditEntry {
        let at = clock.now();
        AuditEntry {
            id: AuditId::new(at, random.bytes()),
            customer: self.customer,
            at,
            actor: self.actor,
            action: self.action.to_owned(),
            details: self.details.to_string(),
        }
    }
}

/// The fields that name accounts that got a slot or lost it, as far as there is room.
pub fn named_accounts(shifts: &[&SlotShift]) -> Value {
    let account =
        |shift: &&SlotShift| json!({"creator_id": shift.creator_id, "platform": shift.platform});
    json!({"accounts": shifts.iter().take(NAMED_MAX).map(account).collect::<Vec<_>>()})
}

/// What notes the accounts that get the slot which another one had; nothing where no account waited for it.
pub fn noting_activated<'n>(
    (clock, random): (&'n Clock, &'n Random),
    customer: CustomerId,
    actor: &'n str,
) -> impl Fn(&[SlotShift]) -> Option<AuditEntry> + Send + Sync + 'n {
    move |shifts| {
        let given = shifts.iter().filter(|shift| shift.state == AccountState::Active);
        let given: Vec<&SlotShift> = given.collect();
        let details = (!given.is_empty()).then(|| named_accounts(&given))?;
        let record =
            AuditRecord { customer, actor: actor.to_owned(), action: ACCOUNTS_ACTIVATED, details };
        Some(record.now(clock, random))
    }
}

/// The fields of an entry as it is stored. What versions without fields wrote is one text.
pub fn fields(details: &str) -> Map<String, Value> {
    if details.is_empty() {
        return Map::new();
    }
    match serde_json::from_str(details) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::from_iter([("text".to_owned(), Value::from(details))]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn details_are_fields_and_old_prose_is_one_text() {
        assert_eq!(Value::from(fields(r#"{"key_id":"key_1"}"#)), json!({"key_id": "key_1"}));
        assert_eq!(Value::from(fields("")), json!({}));
        for prose in ["key_1 (first), full", "{broken", "[1]", "7", "null"] {
            assert_eq!(Value::from(fields(prose)), json!({"text": prose}));
        }
    }
}
