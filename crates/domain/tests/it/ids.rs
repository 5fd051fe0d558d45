//! Ids: one spelling each, in the order of their creation, never taken for those of another kind.

use std::collections::BTreeSet;

use domain::id::{
    AuditId, CallId, ChangeId, CustomerId, DataKeyId, EntryId, ExportId, JobId, KeyId, LotId,
    NodeId, OfferId, OrderId, RequestId, RunId, SessionId,
};
use domain::time::Timestamp;
use proptest::prelude::*;

/// The last millisecond that a UUID of version 7 can hold, in microseconds.
const LAST_MICROS: i64 = 281_474_976_710_655 * 1_000;

macro_rules! kinds {
    ($act:ident: $($rest:tt)*) => {
        $act! { AuditId CallId ChangeId CustomerId DataKeyId EntryId ExportId JobId KeyId LotId
            NodeId OfferId OrderId RequestId RunId SessionId, $($rest)* }
    };
}

/// Checks that the text of an id of every kind is read as that kind.
macro_rules! round_trips {
    ($($kind:ident)+, $at:expr, $random:expr) => {$({
        let id = $kind::new($at, $random);
        let text = id.to_string();
        let body = text.strip_prefix($kind::PREFIX).unwrap();
        prop_assert_eq!(body.len(), 32);
        prop_assert!(body.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')));
        prop_assert_eq!(text.parse::<$kind>(), Ok(id));
        let json = serde_json::to_string(&id).unwrap();
        prop_assert_eq!(&json, &format!("\"{text}\""));
        prop_assert_eq!(serde_json::from_str::<$kind>(&json).unwrap(), id);
        prop_assert_eq!(id.made_at(), Some(to_the_millisecond($at)));
        for other in every_text($at, $random).iter().filter(|other| **other != text) {
            let is_former = $kind::PREFIX == AuditId::PREFIX && other.starts_with("ent_");
            prop_assert_eq!(other.parse::<$kind>().is_ok(), is_former, "{} as {}", other, $kind::PREFIX);
        }
    })+};
}

macro_rules! texts {
    ($($kind:ident)+, $at:expr, $random:expr) => { vec![$($kind::new($at, $random).to_string(),)+] };
}

macro_rules! prefixes {
    ($($kind:ident)+,) => { vec![$($kind::PREFIX,)+] };
}

fn every_text(at: Timestamp, random: [u8; 10]) -> Vec<String> {
    kinds!(texts: at, random)
}

fn to_the_millisecond(at: Timestamp) -> Timestamp {
    Timestamp::from_unix_micros(at.unix_micros() / 1_000 * 1_000)
}

fn moments() -> impl Strategy<Value = Timestamp> {
    prop_oneof![Just(0), Just(999), Just(LAST_MICROS), 0..LAST_MICROS]
        .prop_map(Timestamp::from_unix_micros)
}

proptest! {
    #[test]
    fn an_id_of_any_kind_is_read_as_that_kind_alone(at in moments(), random: [u8; 10]) {
        kinds!(round_trips: at, random);
    }

    #[test]
    fn a_later_id_sorts_after_an_earlier_one_as_value_and_as_text(
        first in moments(), later_ms in 1_i64..1_000_000, one: [u8; 10], other: [u8; 10],
    ) {
        let second = first.plus_micros(later_ms * 1_000);
        prop_assume!(second.unix_micros() <= LAST_MICROS);
        let (early, late) = (CallId::new(first, one), CallId::new(second, other));

        prop_assert!(early < late);
        prop_assert!(early.to_string() < late.to_string());
    }

    /// Ids are compared as text, so there must be no second spelling of one.
    #[test]
    fn no_changed_text_is_read_as_the_same_id(random: [u8; 10], place in 0_usize..36, to: char) {
        let id = KeyId::new(Timestamp::from_unix_micros(1_790_000_000_000_000), random);
        let text = id.to_string();
        let changed: String =
            text.chars().enumerate().map(|(at, own)| if at == place { to } else { own }).collect();
        prop_assume!(changed != text);

        prop_assert_ne!(changed.parse::<KeyId>(), Ok(id));
    }

    #[test]
    fn entries_written_together_sort_in_their_order_and_keep_their_time(
        at in moments(), random: [u8; 10], number in 0_u64..1_000_000,
    ) {
        // The last numbers of a millisecond would begin again at the first; 2^61 are left before.
        let mut random = random;
        random[2] &= 0b1101_1111;
        let first = EntryId::new(at, random);

        let ids = [first, first.nth(number + 1), first.nth(number + 2)];

        prop_assert!(ids.is_sorted(), "{:?}", ids);
        prop_assert_eq!(ids.map(|id| id.to_string()).iter().collect::<BTreeSet<_>>().len(), 3);
        for id in ids {
            prop_assert_eq!(id.made_at(), Some(to_the_millisecond(at)));
            prop_assert_eq!(id.to_string().parse(), Ok(id));
        }
    }

    #[test]
    fn what_gives_back_a_call_and_the_lot_of_an_entry_are_found_by_it(
        at in moments(), one: [u8; 10], other: [u8; 10],
    ) {
        let (call, second) = (CallId::new(at, one), CallId::new(at, other));
        let (entry, of_second) = (EntryId::of_call(call), EntryId::of_call(second));

        prop_assert_eq!(entry.to_string(), call.to_string().replace("call_", "ent_"));
        prop_assert_eq!(LotId::of(entry).to_string(), call.to_string().replace("call_", "lot_"));
        prop_assert_eq!(call == second, entry == of_second);
    }
}

#[test]
fn every_kind_has_a_prefix_of_its_own_and_none_begins_another() {
    let prefixes: Vec<&str> = kinds!(prefixes:);

    for (place, one) in prefixes.iter().enumerate() {
        assert!(one.ends_with('_') && one.is_ascii(), "{one}");
        for other in prefixes.iter().skip(place + 1) {
            assert!(!one.starts_with(other) && !other.starts_with(one), "{one} {other}");
        }
    }
}

#[test]
fn times_before_the_epoch_count_as_the_epoch() {
    let early = JobId::new(Timestamp::from_unix_micros(-1_000_000), [0; 10]);

    assert_eq!(early.made_at(), Some(Timestamp::from_unix_micros(0)));
    assert!(early.to_string().starts_with("job_000000000000"), "{early}");
}

/// An id that another program made may have no time in it.
#[test]
fn an_id_without_a_time_is_read_and_has_no_time() {
    let id: OrderId = "ord_00000000000000000000000000000000".parse().unwrap();

    assert_eq!(id.made_at(), None);
    assert_eq!(id.to_string(), "ord_00000000000000000000000000000000");
}

#[test]
fn a_refusal_says_which_prefix_is_expected() {
    let refused = "key_1".parse::<CustomerId>().unwrap_err();
    let in_json = serde_json::from_str::<ExportId>("\"cus_1\"").unwrap_err();

    assert_eq!(
        refused.to_string(),
        "expected an id that starts with `cus_` and ends with 32 hexadecimal digits"
    );
    assert!(in_json.to_string().contains("starts with `exp_`"), "{in_json}");
    for json in ["null", "1", "[]", "\"\""] {
        assert!(serde_json::from_str::<ExportId>(json).is_err(), "{json}");
    }
}
