//! Numbers, money, times and addresses: read back, they are what was written.

use console_kit::{address, format, values};
use proptest::prelude::*;
use serde_json::{Value, json};

proptest! {
    #[test]
    fn a_number_is_read_back_as_it_was_written(number in 0..=i64::MAX) {
        prop_assert_eq!(values::number(&format::number(number)), json!(number));
        prop_assert_eq!(values::number(&number.to_string()), json!(number));
    }

    #[test]
    fn no_text_is_read_as_another_number(text in "[0-9,. -]{0,14}") {
        let digits: String = text.chars().filter(|letter| *letter != ',').collect();
        match values::number(&text) {
            Value::Number(number) => prop_assert_eq!(number.to_string().parse::<i64>().unwrap(),
                digits.trim().parse::<i64>().unwrap()),
            other => prop_assert_eq!(other, json!(text)),
        }
    }

    #[test]
    fn money_has_every_cent(cents in 0..=i64::MAX) {
        let text = format::dollars(cents);
        let digits: String = text.chars().filter(char::is_ascii_digit).collect();
        prop_assert_eq!(digits.parse::<i64>().unwrap(), cents);
        prop_assert_eq!(text.rsplit('.').next().unwrap().len(), 2);
    }

    #[test]
    fn a_segment_is_one_and_is_read_back(value in any::<String>()) {
        let segment = address::segment(&value);
        prop_assert!(!segment.contains(['/', '?', '#', '%']) || segment.contains('%'));
        prop_assert!(!segment.contains(['/', '?', '#', '\\', ' ', '"', '<']));
        prop_assert!(segment != "." && segment != "..");
        let plain = format!("v={segment}");
        let read: Vec<(String, String)> = serde_urlencoded::from_str(&plain).unwrap();
        prop_assert_eq!(&read[0].1, &value);
    }

    #[test]
    fn a_query_has_each_value_once_and_whole(one in any::<String>(), two in any::<String>()) {
        let query = address::query(&[("one", &one), ("two", &two)]);
        let read: Vec<(String, String)> =
            serde_urlencoded::from_str(query.trim_start_matches('?')).unwrap();
        let kept: Vec<(String, String)> = [("one", one), ("two", two)]
            .into_iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
        prop_assert_eq!(query.starts_with('?'), !kept.is_empty());
        prop_assert_eq!(read, kept);
    }
}

#[test]
fn the_smallest_and_the_largest_numbers_are_written() {
    assert_eq!(format::number(i64::MIN), "−9,223,372,036,854,775,808");
    assert_eq!(format::dollars(i64::MIN), "−$92,233,720,368,547,758.08");
    assert_eq!(format::counted(-1, "credit"), "−1 credits");
    assert_eq!(format::counted(0, "account"), "0 accounts");
    assert_eq!(format::cost(1), "1 credit");
}

#[test]
fn times_with_any_zone_are_written_in_utc_and_others_not_at_all() {
    let late = "2026-12-31T23:30:00-02:00";

    assert_eq!(format::day(late), "1 Jan 2027");
    assert_eq!(format::minute(late), "1 Jan 2027, 01:30");
    assert_eq!(format::time("2026-02-28T00:00:00+14:00"), "10:00:00");
    for none in ["", "2026-12-31", "2026-12-31T23:30:00", "2026-13-01T00:00:00Z", "<b>"] {
        assert_eq!((format::moment(none), format::day(none)), (String::new(), String::new()));
    }
    assert_eq!(format::short_day("2026-02-30"), "2026-02-30", "no day stays as it is");
}

#[test]
fn lists_and_members_are_read_line_by_line() {
    assert_eq!(values::words("a\tb\r\n c"), json!(["a", "b", "c"]));
    assert_eq!(values::words("  "), json!([]));
    let members = values::members("x-token: a:b=c\r\n\r\ny = \n");
    assert_eq!(members, Some(json!({"x-token": "a:b=c", "y": ""})));
    assert_eq!(values::members(""), Some(json!({})));
    assert_eq!(values::members("a: 1\nnothing"), None);
    assert_eq!(values::members("a: 1\na: 2"), Some(json!({"a": "2"})), "the last line counts");
}

#[test]
fn times_of_browsers_are_utc_and_others_are_passed_on() {
    assert_eq!(values::time("2026-12-01T10:00"), "2026-12-01T10:00:00Z");
    assert_eq!(values::time("2026-12-01T10:00:00-05:00"), "2026-12-01T10:00:00-05:00");
    for other in ["", "2026-12-01", "now", "2026-12-01 10:00"] {
        assert_eq!(values::time(other), other);
    }
}

#[test]
fn what_is_kept_in_an_address_stays_as_it_is_and_nothing_else_does() {
    assert_eq!(address::encoded("a/b?c=d&e", "/="), "a/b%3Fc=d%26e");
    assert_eq!(address::encoded("ä b", " "), "%C3%A4 b", "only ASCII can be kept");
    assert_eq!(address::encoded("-._~09AZaz", ""), "-._~09AZaz");
    assert_eq!(address::segment("..."), "...");
    assert_eq!(address::query(&[]), "");
    assert_eq!(address::query(&[("a", "1"), ("b", ""), ("a", "2")]), "?a=1&a=2");
}

#[test]
fn counted_things_have_their_plural() {
    for (count, text) in [(0, "0 rows"), (1, "1 row"), (2, "2 rows"), (1_000, "1,000 rows")] {
        assert_eq!(format::counted(count, "row"), text);
    }
    assert_eq!(format::dollars(-5), "−$0.05");
}
