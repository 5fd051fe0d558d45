//! Entries of the audit list: what is recorded, and how much of it a customer sees.

use domain::account::AccountState;
use domain::id::CustomerId;
use domain::platform::Platform;
use domain::time::Timestamp;
use proptest::prelude::*;
use runtime::audit::{self, AuditRecord, NAMED_MAX};
use runtime::{Clock, Random};
use serde_json::{Value, json};
use store::slot_assignment::SlotShift;

const NOW: Timestamp = Timestamp::from_unix_micros(1_790_000_000_000_000);

fn customer() -> CustomerId {
    CustomerId::new(NOW, [1; 10])
}

fn shift(number: usize, state: AccountState) -> SlotShift {
    SlotShift {
        creator_id: format!("ada{number}").parse().unwrap(),
        platform: Platform::BETA,
        state,
    }
}

proptest! {
    /// What is written as fields is read as the same fields, also next to texts of older versions.
    #[test]
    fn recorded_details_are_read_back(key in "[a-z_]{1,9}", value in any::<String>(), number: i64) {
        let details = json!({key.clone(): value, "number": number});
        let record = AuditRecord { customer: customer(), actor: "operator".to_owned(), action: audit::CREDITS_ADJUSTED, details: details.clone() };

        let entry = record.now(&Clock::manual(NOW), &Random::seeded(1));

        prop_assert_eq!(Value::from(audit::fields(&entry.details)), details);
    }

    #[test]
    fn every_stored_text_has_fields_and_loses_nothing(text in any::<String>()) {
        let fields = audit::fields(&text);

        prop_assert_eq!(fields.is_empty(), text.is_empty() || text.trim() == "{}");
        if !text.trim_start().starts_with('{') && !text.is_empty() {
            prop_assert_eq!(Value::from(fields), json!({"text": text}));
        }
    }

    /// The customer learns that the operator did it, and not who.
    #[test]
    fn no_name_of_the_operators_people_is_shown(name in "[a-z.@-]{1,20}", other in "[a-z_0-9 ]{0,20}") {
        let person = format!("{}{name}", audit::OPERATOR_PREFIX);
        prop_assert_eq!(audit::shown_actor(&person), audit::OPERATOR);
        prop_assert_eq!(audit::shown_actor(&other), &other);
    }
}

#[test]
fn an_entry_is_dated_when_it_is_made_and_has_an_id_of_its_own() {
    let (clock, random) = (Clock::manual(NOW), Random::seeded(1));
    let record = || AuditRecord {
        customer: customer(),
        actor: audit::MAILED_LINK.to_owned(),
        action: audit::PASSWORD_RESET,
        details: json!({}),
    };

    let first = record().now(&clock, &random);
    clock.advance_seconds(1);
    let second = record().now(&clock, &random);

    assert_eq!((first.at, second.at), (NOW, NOW.plus_seconds(1)));
    assert_eq!(first.id.made_at(), Some(NOW));
    assert!(first.id < second.id);
    assert_eq!((first.actor.as_str(), first.action.as_str()), ("mailed link", "password.reset"));
    assert_eq!((first.customer, first.details.as_str()), (customer(), "{}"));
}

#[test]
fn accounts_that_got_a_slot_are_named_up_to_fifty_and_others_are_not() {
    let (clock, random) = (Clock::manual(NOW), Random::seeded(1));
    let noting = audit::noting_activated(&clock, &random, customer(), audit::PROCESSOR);
    let mut shifts = vec![shift(0, AccountState::Inactive)];
    assert!(noting(&shifts).is_none(), "nothing was activated");
    assert!(noting(&[]).is_none());

    shifts.extend((1..=NAMED_MAX + 5).map(|number| shift(number, AccountState::Active)));
    let entry = noting(&shifts).unwrap();

    assert_eq!((entry.action.as_str(), entry.actor.as_str()), ("accounts.activated", "processor"));
    let fields = audit::fields(&entry.details);
    let named = fields["accounts"].as_array().unwrap();
    assert_eq!(named.len(), NAMED_MAX);
    assert_eq!(named[0], json!({"creator_id": "ada1", "platform": "platform_beta"}));
    assert_eq!(named[NAMED_MAX - 1]["creator_id"], "ada50");
}

#[test]
fn what_staff_view_is_told_apart_by_its_prefix() {
    for action in [
        audit::STAFF_READ_CALLS,
        audit::STAFF_READ_USAGE,
        audit::STAFF_READ_EXPORTS,
        audit::STAFF_DELETED_EXPORT,
    ] {
        assert!(action.starts_with(audit::STAFF_LOOKS), "{action}");
    }
    for action in [audit::SUPPORT_ENABLED, audit::SUPPORT_DISABLED, audit::OPERATOR_VIEWED] {
        assert!(!action.starts_with(audit::STAFF_LOOKS), "{action}");
    }
}
