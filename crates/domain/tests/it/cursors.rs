//! Cursors: where a page continues, as text that a caller sends back.

use domain::breakdown::{BreakdownCursor, MalformedCursor};
use domain::id::{CallId, EntryId};
use domain::ledger::{KINDS, LedgerLine, SumKind};
use domain::time::{Timestamp, UtcDay};
use proptest::prelude::*;

/// Days of the years 1970 to 2999.
fn days() -> impl Strategy<Value = UtcDay> {
    (0_i64..376_200).prop_map(UtcDay::from_number)
}

fn lines() -> impl Strategy<Value = LedgerLine> {
    let entries = (0_i64..4_000_000_000_000_000, any::<[u8; 10]>())
        .prop_map(|(at, random)| EntryId::new(Timestamp::from_unix_micros(at), random));
    let kinds = prop_oneof![Just(SumKind::Export), Just(SumKind::Usage)];
    prop_oneof![
        entries.clone().prop_map(LedgerLine::Entry),
        (kinds.clone(), days()).prop_map(|(kind, day)| LedgerLine::Sum(kind, day)),
        (kinds, days(), entries)
            .prop_map(|(kind, day, entry)| LedgerLine::SumAfter(kind, day, entry)),
    ]
}

proptest! {
    #[test]
    fn every_line_of_a_ledger_is_read_back(line in lines()) {
        let text = line.to_string();

        prop_assert_eq!(text.parse(), Ok(line));
        let json = serde_json::to_string(&line).unwrap();
        prop_assert_eq!(&json, &format!("\"{text}\""));
        prop_assert_eq!(serde_json::from_str::<LedgerLine>(&json).unwrap(), line);
    }

    #[test]
    fn a_line_has_one_spelling(text in "(usage|export|ent)_[0-9a-f_T:Z+-]{0,45}") {
        if let Ok(line) = text.parse::<LedgerLine>() {
            prop_assert_eq!(line.to_string(), text);
        }
    }

    #[test]
    fn every_entry_of_a_breakdown_is_found_again(
        credits: i64, platform in "[a-z_]{0,9}", method in "[A-Z]{0,6}", name in "[^\\x00\\n]{0,20}",
    ) {
        let cursor = BreakdownCursor { credits, platform, method, name };
        let text = cursor.to_string();

        prop_assert!(text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')), "{}", text);
        prop_assert_eq!(text.parse(), Ok(cursor.clone()));
        let json = serde_json::to_string(&cursor).unwrap();
        prop_assert_eq!(serde_json::from_str::<BreakdownCursor>(&json).unwrap(), cursor);
    }

    #[test]
    fn no_text_makes_a_parser_of_cursors_panic(text in any::<String>(), hex in "([0-9a-f]{2}){0,40}") {
        for written in [text, hex] {
            if let Ok(cursor) = written.parse::<BreakdownCursor>() {
                prop_assert_eq!(cursor.to_string().parse(), Ok(cursor));
            }
            let _line = written.parse::<LedgerLine>();
        }
    }

    /// PostgreSQL refuses such a text in a query, which would be a failure on our side.
    #[test]
    fn no_cursor_holds_a_text_that_a_database_cannot_hold(before in "[a-z]{0,4}", after in "[a-z]{0,4}", place in 0..3) {
        let mut parts = ["a".to_owned(), "b".to_owned(), "c".to_owned()];
        parts[usize::try_from(place).unwrap()] = format!("{before}\0{after}");
        let digits = |byte: u8| format!("{byte:02x}");
        let text: Vec<String> = format!("7\n{}", parts.join("\n")).bytes().map(digits).collect();

        prop_assert_eq!(text.concat().parse::<BreakdownCursor>(), Err(MalformedCursor));
    }
}

#[test]
fn upper_case_digits_are_another_spelling_and_refused() {
    let cursor = BreakdownCursor {
        credits: -1,
        platform: String::new(),
        method: String::new(),
        name: "zone".to_owned(),
    };
    let text = cursor.to_string();

    assert_eq!(text, "2d310a0a0a7a6f6e65");
    assert_eq!(text.parse(), Ok(cursor));
    assert_eq!(text.to_uppercase().parse::<BreakdownCursor>(), Err(MalformedCursor));
    assert_eq!(MalformedCursor.to_string(), "not the `next_before` of a page of a breakdown");
}

#[test]
fn sums_are_named_like_their_kinds_and_usage_is_listed_above_exports() {
    for kind in [SumKind::Usage, SumKind::Export] {
        assert!(KINDS.contains(&kind.as_str()), "{}", kind.as_str());
    }
    assert!(SumKind::Usage > SumKind::Export);
}

#[test]
fn the_id_of_something_else_is_no_line() {
    let call = CallId::new(Timestamp::from_unix_micros(1_000_000), [1; 10]);

    let refused = call.to_string().parse::<LedgerLine>().unwrap_err();

    assert_eq!(refused.to_string(), "must be the `next_before` of a page of the ledger");
    for json in ["null", "7", "{}", "\"usage_2026-02-30\""] {
        assert!(serde_json::from_str::<LedgerLine>(json).is_err(), "{json}");
    }
}
