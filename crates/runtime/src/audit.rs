//! The entries of a customer's audit list: one word for each action, and who did it.

use domain::account::AccountState;
use domain::id::{AuditId, CustomerId};
use serde_json::{Map, Value, json};
use store::audit::AuditEntry;
use store::slot_assignment::SlotShift;

use crate::clock::{Clock, Random};

/// The most accounts that an entry or an email names.
pub const NAMED_MAX: usize = 50;

/// A key was created.
pub const KEY_CREATED: &str = "key.created";
/// The name or the limits of a key were changed.
pub const KEY_CHANGED: &str = "key.changed";
/// A key got a new secret.
pub const KEY_ROTATED: &str = "key.rotated";
/// A key was revoked permanently.
pub const KEY_DELETED: &str = "key.deleted";
/// An account was connected, or connected again with other credentials.
pub const ACCOUNT_CONNECTED: &str = "account.connected";
/// An account was switched off: it keeps its credentials and has no slot.
pub const ACCOUNT_SWITCHED_OFF: &str = "account.switched_off";
/// An account was switched on again.
pub const ACCOUNT_SWITCHED_ON: &str = "account.switched_on";
/// An account and its credentials were deleted.
pub const ACCOUNT_DELETED: &str = "account.deleted";
/// The password was changed by someone who knew the old one.
pub const PASSWORD_CHANGED: &str = "password.changed";
/// The password was reset with an emailed link.
pub const PASSWORD_RESET: &str = "password.reset";
/// A new, confirmed address replaced the old one.
pub const EMAIL_CHANGED: &str = "email.changed";
/// The customer chose which notices it gets.
pub const NOTICES_CHANGED: &str = "notices.changed";
/// The customer allowed staff to view its calls, exports and usage.
pub const SUPPORT_ENABLED: &str = "support_access.enabled";
/// The customer ended support access.
pub const SUPPORT_DISABLED: &str = "support_access.disabled";
/// The prefix of the actions in which staff view data.
pub const STAFF_LOOKS: &str = "support.";
/// Staff read the customer's call log.
pub const STAFF_READ_CALLS: &str = "support.calls_read";
/// Staff read the customer's usage by day.
pub const STAFF_READ_USAGE: &str = "support.usage_read";
/// Staff viewed the customer's exports.
pub const STAFF_READ_EXPORTS: &str = "support.exports_read";
/// Staff removed an export of the customer.
pub const STAFF_DELETED_EXPORT: &str = "support.export_deleted";
/// The customer became staff, or got another permission.
pub const PERMISSION_GRANTED: &str = "permission.granted";
/// The customer lost a permission, or is no longer staff.
pub const PERMISSION_REVOKED: &str = "permission.revoked";
/// An operator granted or took credits.
pub const CREDITS_ADJUSTED: &str = "credits.adjusted";
/// The plan changed, as the processor shows it.
pub const PLAN_CHANGED: &str = "plan.changed";
/// Another plan starts with the next period.
pub const PLAN_CHANGE_PENDING: &str = "plan.change_pending";
/// The plan that was to start with the next period will not.
pub const PLAN_CHANGE_TAKEN_BACK: &str = "plan.change_taken_back";
/// Slots changed, as the processor shows them.
pub const SLOTS_CHANGED: &str = "slots.changed";
/// A subscription started, ended, or replaced another.
pub const SUBSCRIPTION_CHANGED: &str = "subscription.changed";
/// Accounts that waited for a slot got one.
pub const ACCOUNTS_ACTIVATED: &str = "accounts.activated";
/// Accounts over the limit became inactive.
pub const ACCOUNTS_DEACTIVATED: &str = "accounts.deactivated";
/// The actor when the payment processor shows a new state.
pub const PROCESSOR: &str = "processor";
/// The actor when a command of the command line or the admin listener is used.
pub const OPERATOR: &str = "operator";

/// The prefix of the actor when the operator's person gave a name; the customer does not see it.
pub const OPERATOR_PREFIX: &str = "operator:";
/// An operator viewed the customer.
pub const OPERATOR_VIEWED: &str = "operator.customer_viewed";
/// An operator found the customer by something of its.
pub const OPERATOR_FOUND: &str = "operator.customer_found";
/// An operator viewed a call of the customer.
pub const OPERATOR_VIEWED_CALL: &str = "operator.call_viewed";
/// An operator exported everything that is stored about the customer.
pub const OPERATOR_EXPORTED: &str = "operator.customer_exported";
/// An operator looked at what a change would do, and did not make it.
pub const OPERATOR_PREVIEWED: &str = "operator.previewed";
/// The operator suspended the customer.
pub const CUSTOMER_SUSPENDED: &str = "customer.suspended";
/// The operator ended the suspension.
pub const CUSTOMER_RESUMED: &str = "customer.resumed";
/// The operator ended the customer's subscription.
pub const SUBSCRIPTION_CANCELLED: &str = "subscription.cancelled_by_operator";
/// The operator ended all sessions of the customer.
pub const SESSIONS_ENDED: &str = "sessions.ended_by_operator";
/// The operator erased the customer.
pub const CUSTOMER_ERASED: &str = "customer.erased";
/// The operator refunded an order.
pub const ORDER_REFUNDED: &str = "order.refunded_by_operator";
/// The operator granted credits for a payment that matched no order.
pub const PAYMENT_SETTLED: &str = "payment.settled_by_operator";

/// Every action that an audit list can have.
pub const ACTIONS: [&str; 40] = [
    KEY_CREATED,
    KEY_CHANGED,
    KEY_ROTATED,
    KEY_DELETED,
    ACCOUNT_CONNECTED,
    ACCOUNT_SWITCHED_OFF,
    ACCOUNT_SWITCHED_ON,
    ACCOUNT_DELETED,
    PASSWORD_CHANGED,
    PASSWORD_RESET,
    EMAIL_CHANGED,
    NOTICES_CHANGED,
    SUPPORT_ENABLED,
    SUPPORT_DISABLED,
    STAFF_READ_CALLS,
    STAFF_READ_USAGE,
    STAFF_READ_EXPORTS,
    STAFF_DELETED_EXPORT,
    PERMISSION_GRANTED,
    PERMISSION_REVOKED,
    CREDITS_ADJUSTED,
    PLAN_CHANGED,
    PLAN_CHANGE_PENDING,
    PLAN_CHANGE_TAKEN_BACK,
    SLOTS_CHANGED,
    SUBSCRIPTION_CHANGED,
    ACCOUNTS_ACTIVATED,
    ACCOUNTS_DEACTIVATED,
    OPERATOR_VIEWED,
    OPERATOR_FOUND,
    OPERATOR_VIEWED_CALL,
    OPERATOR_EXPORTED,
    OPERATOR_PREVIEWED,
    CUSTOMER_SUSPENDED,
    CUSTOMER_RESUMED,
    SUBSCRIPTION_CANCELLED,
    SESSIONS_ENDED,
    CUSTOMER_ERASED,
    ORDER_REFUNDED,
    PAYMENT_SETTLED,
];

/// The actor when an emailed link is used.
pub const MAILED_LINK: &str = "mailed link";

/// An action to be recorded in the audit list.
pub struct AuditRecord {
    /// The customer whom it concerns.
    pub customer: CustomerId,
    /// The actor: the id of a key or of a session, `operator`, `mailed link`, or the customer id of
    /// staff.
    pub actor: String,
    /// One of the constants of this module.
    pub action: &'static str,
    /// Further facts, as the fields of a JSON object; never a secret.
    pub details: Value,
}

impl AuditRecord {
    /// The audit entry, dated now.
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

/// The fields that name accounts that got or lost a slot, up to [`NAMED_MAX`].
pub fn named_accounts(shifts: &[&SlotShift]) -> Value {
    let account =
        |shift: &&SlotShift| json!({"creator_id": shift.creator_id, "platform": shift.platform});
    json!({"accounts": shifts.iter().take(NAMED_MAX).map(account).collect::<Vec<_>>()})
}

/// Returns a function that builds the entry for accounts that a change of slots activated; it
/// returns `None` if there are none.
pub fn noting_activated<'n>(
    clock: &'n Clock,
    random: &'n Random,
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

/// The actor as the customer sees it: the names of the operator's people are not shown.
pub fn shown_actor(actor: &str) -> &str {
    if actor.starts_with(OPERATOR_PREFIX) { OPERATOR } else { actor }
}

/// The fields of a stored entry. Versions without fields wrote one text.
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
    fn details_are_fields_and_older_text_is_kept_whole() {
        assert_eq!(Value::from(fields(r#"{"key_id":"key_1"}"#)), json!({"key_id": "key_1"}));
        assert_eq!(Value::from(fields("")), json!({}));
        for prose in ["key_1 (first), full", "{broken", "[1]", "7", "null"] {
            assert_eq!(Value::from(fields(prose)), json!({"text": prose}));
        }
    }
}
