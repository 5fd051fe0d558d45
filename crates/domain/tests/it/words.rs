//! Plain words: the same text in JSON, in the database and for people, and nothing else is read.

use std::collections::BTreeSet;
use std::fmt::{Debug, Display};
use std::str::FromStr;

use domain::id::UnknownWord;
use domain::{account, breakdown, charge, customer, dataset, export, field_error, invoice, job};
use domain::{key, lots, mail, method, notice, payment, sales, slot, staff, subscription, top_up};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// What every list of words must hold.
fn check<T>(all: &[T], text: impl Fn(T) -> &'static str)
where
    T: Copy + Debug + Display + PartialEq + FromStr<Err = UnknownWord> + Ord,
    T: Serialize + DeserializeOwned,
{
    let mut words = BTreeSet::new();
    for one in all {
        let word = text(*one);
        assert!(words.insert(word), "{word} is written twice");
        assert_eq!(word.parse(), Ok(*one));
        assert_eq!(one.to_string(), word);
        let json = serde_json::to_string(one).unwrap();
        assert_eq!(json, format!("\"{word}\""));
        assert_eq!(serde_json::from_str::<T>(&json).unwrap(), *one);
        for wrong in [format!(" {word}"), format!("{word}\0"), flipped(word), format!("{word}s")] {
            assert!(!words.contains(wrong.as_str()), "{wrong}");
            assert!(wrong.parse::<T>().is_err(), "{wrong:?}");
        }
    }
    for json in ["null", "1", "[]", "\"\"", "\"\\u0000\""] {
        assert!(serde_json::from_str::<T>(json).is_err(), "{json}");
    }
    let refused = "surprise".parse::<T>().unwrap_err();
    let listed: Vec<&str> = all.iter().map(|one| text(*one)).collect();
    if refused.expected.starts_with("one of ") {
        assert_eq!(refused.expected, format!("one of {}", listed.join(", ")));
    }
    assert_eq!(refused.to_string(), format!("expected {}", refused.expected));
}

/// The same word in the other letter case.
fn flipped(word: &str) -> String {
    let upper = word.to_uppercase();
    if upper == word { word.to_lowercase() } else { upper }
}

macro_rules! checked {
    ($($kind:path,)+) => { $(check(<$kind>::ALL, <$kind>::as_str);)+ };
}

#[test]
fn every_word_is_read_as_it_is_written_and_a_refusal_lists_them_all() {
    checked! {
        account::AccountState,
        account::InactiveReason,
        account::WantedState,
        breakdown::BreakdownBy,
        charge::CallState,
        charge::Outcome,
        customer::CustomerState,
        customer::TrialState,
        dataset::DatasetName,
        export::ExportCredits,
        export::ExportFormat,
        export::ExportPhase,
        export::ExportRemoval,
        export::ExportState,
        field_error::FieldErrorKind,
        invoice::InvoiceState,
        job::JobKind,
        key::KeyScope,
        lots::LotSource,
        mail::LinkPurpose,
        method::Method,
        notice::NoticeKind,
        payment::Mismatch,
        payment::OrderChannel,
        payment::OrderState,
        payment::PaymentSource,
        payment::ReversalKind,
        payment::ReversalState,
        sales::PartKind,
        slot::ChangeStep,
        slot::SlotChangeKind,
        slot::SlotChangeState,
        staff::Permission,
        subscription::SubscriptionStatus,
        top_up::TopUpState,
    }
}

#[test]
fn only_two_lists_are_too_long_to_be_repeated_in_a_refusal() {
    let outcome = "surprise".parse::<charge::Outcome>().unwrap_err();
    let kind = "surprise".parse::<field_error::FieldErrorKind>().unwrap_err();

    assert_eq!(outcome.to_string(), "expected an outcome of a call");
    assert_eq!(kind.to_string(), "expected a kind of validation error");
}

#[test]
fn an_order_whose_money_arrived_is_paid_also_after_a_refund() {
    let paid: Vec<&str> = payment::OrderState::ALL
        .iter()
        .filter(|state| state.is_paid())
        .map(|state| state.as_str())
        .collect();

    assert_eq!(paid, ["paid", "refunded"]);
}

#[test]
fn a_charge_is_open_until_it_succeeded_or_failed() {
    let open: Vec<&str> = top_up::TopUpState::ALL
        .iter()
        .filter(|state| state.is_open())
        .map(|state| state.as_str())
        .collect();

    assert_eq!(open, ["claimed", "requires_action"]);
}

/// What was claimed stays with its node for less time than the processor remembers its key, and is
/// given up only after that.
#[test]
fn a_charge_is_looked_up_before_it_is_given_up() {
    let remembered_by_the_processor = 24 * 3_600;

    let times = [top_up::LEASE_S, top_up::SAME_KEY_S, remembered_by_the_processor, top_up::WAIT_S];

    assert!(times.is_sorted_by(|one, next| one < next), "{times:?}");
}

#[test]
fn only_exports_are_announced_on_request_and_every_notice_can_be_told_apart() {
    let silent: Vec<&str> = notice::NoticeKind::ALL
        .iter()
        .filter(|kind| !kind.is_on_by_default())
        .map(|kind| kind.as_str())
        .collect();

    assert_eq!(silent, ["exports"]);
    for kind in notice::NoticeKind::ALL {
        assert!(kind.is_optional() || kind.is_on_by_default(), "{kind} could never be got");
    }
}

#[test]
fn a_link_that_sets_a_password_is_valid_for_the_shortest_time() {
    let reset = mail::LinkPurpose::ResetPassword.lifetime_s();

    assert_eq!(reset, 3_600);
    for purpose in mail::LinkPurpose::ALL {
        assert!((reset..=86_400).contains(&purpose.lifetime_s()), "{purpose}");
    }
}

#[test]
fn the_subscription_that_entitles_to_the_most_counts() {
    use subscription::SubscriptionStatus as Status;

    let mut by_rank: Vec<Status> = Status::ALL.to_vec();
    by_rank.sort_by_key(|status| status.rank());
    let ranks: BTreeSet<u8> = by_rank.iter().map(|status| status.rank()).collect();

    assert_eq!(ranks.len(), by_rank.len(), "no two have the same rank");
    let entitling: Vec<bool> = by_rank.iter().map(|status| status.entitles()).collect();
    assert!(entitling.is_sorted(), "those that entitle rank above all others: {by_rank:?}");
    assert_eq!(by_rank.first(), Some(&Status::None));
    assert_eq!(by_rank.last(), Some(&Status::Active));
}

#[test]
fn a_read_only_key_may_use_get_alone() {
    let reads: Vec<&str> = method::Method::ALL
        .iter()
        .filter(|method| method.is_read())
        .map(|method| method.as_str())
        .collect();

    assert_eq!(reads, ["GET"]);
}

#[test]
fn an_export_that_has_ended_holds_no_credits_and_a_file_format_has_its_own_media_type() {
    for state in export::ExportState::ALL {
        assert_ne!(state.is_terminal(), state.is_held(), "{state}");
    }
    let types: BTreeSet<&str> =
        export::ExportFormat::ALL.iter().map(|format| format.media_type()).collect();
    assert_eq!(types.len(), export::ExportFormat::ALL.len());
    assert!(types.iter().all(|text| text.contains('/') && text.is_ascii()), "{types:?}");
    assert_eq!(export::credits_when_cancelled(-1), export::ExportCredits::Refunded);
    assert_eq!(export::credits_when_cancelled(i64::MAX), export::ExportCredits::Settled);
}

#[test]
fn removing_and_moving_money_need_more_than_looking() {
    use staff::Permission;

    for (needed, words) in [
        (Permission::TO_LOOK, &["support.read"][..]),
        (Permission::TO_MANAGE_EXPORTS, &["support.read", "data-export.manage"]),
        (Permission::TO_VIEW_CUSTOMERS, &["customers.read"]),
        (Permission::TO_CHANGE_CUSTOMERS, &["customers.write"]),
        (Permission::TO_MOVE_MONEY, &["billing.write"]),
        (Permission::TO_CHANGE_AND_MOVE_MONEY, &["customers.write", "billing.write"]),
    ] {
        let needed: Vec<&str> = needed.iter().map(|permission| permission.as_str()).collect();
        assert_eq!(needed, words);
    }
}

/// A status decides what a call costs, whether it may be repeated, and what its log says: these
/// must never contradict each other.
#[test]
fn no_status_is_charged_and_repeated() {
    use charge::Outcome;
    use domain::repeat::PlatformStatus;

    for status in 200..=599 {
        for has_retry_after in [false, true] {
            let said = PlatformStatus { status, has_retry_after };
            let outcome = Outcome::of_status(status);
            for method in method::Method::ALL {
                assert!(!(outcome.is_charged() && said.should_retry(*method)), "{status} {method}");
            }
            if said.should_retry(method::Method::Post) {
                assert!(said.is_not_carried_out(), "{status}");
            }
            if outcome.is_certainly_not_carried_out() {
                assert!(said.is_not_carried_out(), "{status}");
            }
            assert!(!outcome.may_have_happened(), "{status}: a response arrived");
            assert_eq!(charge::is_ok(outcome, Some(status)), (200..400).contains(&status));
        }
    }
}
