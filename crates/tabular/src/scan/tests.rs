//! JSON text read, and compared with what another reader makes of it.

use proptest::prelude::*;
use serde::de::IgnoredAny;

use super::*;

fn accepts(text: &str) -> bool {
    let mut scanner = JsonScanner::new(text);
    let value = match scanner.peek() {
        Some(b'{' | b'[') => scanner.nested().map(|_| ()),
        _ => scanner.plain().map(|_| ()),
    };
    value.and_then(|()| scanner.finish()).is_ok()
}

#[test]
fn a_nested_value_ends_at_its_matching_bracket() {
    let text = r#" { "a" : [ 1 , { "b" : [ ] } ] , "c" : { } } , "#;
    let mut scanner = JsonScanner::new(text);

    let span = scanner.nested().unwrap();

    assert_eq!(span.of(text), text.trim().trim_end_matches([',', ' ']));
    assert_eq!(scanner.peek(), Some(b','));
}

#[test]
fn a_value_spans_its_written_form() {
    for value in ["{ \"a\": [] }", "[ ]", "\"a\\n\"", "-1.5e3", "true", "false", "null"] {
        let text = format!(" {value} ,");
        let mut scanner = JsonScanner::new(&text);

        assert_eq!(scanner.value().unwrap().of(&text), value);
        assert_eq!(scanner.peek(), Some(b','));
    }
}

#[test]
fn brackets_match_at_any_depth() {
    for depth in [1, 2, 63, 64, 65, 66, 127, 128, 129, 130, 1_000] {
        let opened: String =
            (0..depth).map(|at| if at % 3 == 0 { "{\"a\":" } else { "[" }).collect();
        let closed: String =
            (0..depth).rev().map(|at| if at % 3 == 0 { "}" } else { "]" }).collect();
        assert!(accepts(&format!("{opened}1{closed}")), "{depth}");

        let mut wrong = closed.into_bytes();
        for at in 0..depth {
            wrong[at] ^= b'}' ^ b']';
            let text = String::from_utf8(wrong.clone()).unwrap();
            assert!(!accepts(&format!("{opened}1{text}")), "{depth} {at}");
            wrong[at] ^= b'}' ^ b']';
        }
    }
}

#[test]
fn invalid_json_is_refused() {
    for text in [
        "",
        "[",
        "]",
        "{",
        "[1",
        "[1,]",
        "[,1]",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{a:1}",
        "[01]",
        "[1.]",
        "[.5]",
        "[1e]",
        "[+1]",
        "[--1]",
        "[-]",
        "[truth]",
        "[nul]",
        "[True]",
        "[1}",
        "{\"a\":1]",
        "[\"\n\"]",
        "[\"\\x\"]",
        "[\"\\u12g4\"]",
        "[\"\\u123\"]",
        "[\"",
        "[\"\\\"]",
        "[1 2]",
        "[1]]",
    ] {
        assert!(!accepts(text), "{text:?}");
    }
}

fn text_of(json: &str) -> String {
    JsonScanner::new(json).string().unwrap().text(json).into_owned()
}

#[test]
fn an_unpaired_surrogate_is_replaced_alone() {
    assert_eq!(text_of(r#""\ud83d\ude00""#), "😀");
    assert_eq!(text_of(r#""a\ud83d\n""#), "a\u{fffd}\n");
    assert_eq!(text_of(r#""\ud83d\u0041""#), "\u{fffd}A");
    assert_eq!(text_of(r#""\ude00\ud83d\ud83d\ude00""#), "\u{fffd}\u{fffd}😀");
}

proptest! {
    #[test]
    fn strings_read_as_in_another_reader(
        json in "\"([a\"é😀]|\\\\[\"\\\\/bfnrtu]|\\\\u0[0-9a-fA-F]{3}|\\\\ud83[cd]\\\\ude[0-9]{2})*\""
    ) {
        if let Ok(expected) = serde_json::from_str::<String>(&json) {
            prop_assert_eq!(text_of(&json), expected);
        }
    }

    #[test]
    fn it_accepts_the_same_texts_as_another_reader(
        text in "[\\[\\]{}\":,0-9eE.+\\-tfn \\\\u]{0,12}|[\\[{](\"[a\\\\\"u0\\x01é]{0,9}\"|true|null|-?1?0?[.]?[0-9]?|[:,\\[\\]{}])*[\\]}]"
    ) {
        let other = serde_json::from_str::<IgnoredAny>(&text).is_ok();

        prop_assert_eq!(accepts(&text), other, "{}", text);
    }

    #[test]
    fn the_plain_prefix_of_a_string_ends_at_the_first_special_byte(
        bytes in proptest::collection::vec(prop_oneof![any::<u8>(), Just(b'a'), Just(0x1f), Just(0x20)], 0..40)
    ) {
        let expected = bytes.iter().take_while(|byte| !matches!(byte, 0..0x20 | b'"' | b'\\')).count();

        prop_assert_eq!(plain_length(&bytes), expected);
    }
}
