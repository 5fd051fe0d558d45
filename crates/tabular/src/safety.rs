//! Texts that a spreadsheet would execute as formulas, and characters that no data file should
//! contain.
//!
//! * A text cell that starts like a formula, or with an apostrophe, is prefixed with an apostrophe.
//!   Removing the first apostrophe of every cell that starts with one restores the texts. Numbers
//!   never pass through here: `-5` stays a number, the text `"-5"` becomes `'-5`.
//! * Control characters other than tab and line breaks are replaced with U+FFFD, one for one: NUL
//!   ends a cell early in many readers, and a workbook cannot contain any of them. They are
//!   replaced and not removed, so that the text after one never moves to the front.

use std::borrow::Cow;

/// How formulas start, in plain and in full-width form, and the characters that some programs skip
/// before one.
const FORMULA_LEADS: [char; 11] = ['=', '+', '-', '@', '\t', '\r', '\n', '＝', '＋', '－', '＠'];

/// The apostrophe by which spreadsheets recognize a cell as text.
pub const TEXT_MARK: char = '\'';

/// Whether a spreadsheet may take a text for a formula. A leading byte order mark does not hide
/// one.
pub fn is_formula_like(text: &str) -> bool {
    // Most texts start with a letter or a digit and need no further check.
    if text.as_bytes().first().is_none_or(u8::is_ascii_alphanumeric) {
        return false;
    }
    text.trim_start_matches('\u{feff}').starts_with(FORMULA_LEADS)
}

/// The text as a cell of a text file: without control characters, and marked if it is like a
/// formula or starts with the mark itself. No two texts become the same cell, except if control
/// characters were replaced.
pub fn text_cell(text: &str) -> Cow<'_, str> {
    let clean = without_controls(text);
    let is_marked = clean.starts_with(TEXT_MARK) || is_formula_like(&clean);
    if is_marked { Cow::Owned(format!("{TEXT_MARK}{clean}")) } else { clean }
}

/// The text with control characters replaced, except tab, line feed and carriage return.
pub fn without_controls(text: &str) -> Cow<'_, str> {
    // All of them are single bytes that occur in no other character.
    if any_byte(text, |byte| is_unwanted(char::from(byte))) {
        let replaced = |character| if is_unwanted(character) { '\u{fffd}' } else { character };
        Cow::Owned(text.chars().map(replaced).collect())
    } else {
        Cow::Borrowed(text)
    }
}

/// Whether a byte of the text matches. Tests sixteen at a time, which processors have instructions
/// for.
pub(crate) fn any_byte(text: &str, is_meant: impl Fn(u8) -> bool) -> bool {
    let any = |bytes: &[u8]| bytes.iter().fold(false, |found, byte| found | is_meant(*byte));
    let (blocks, rest) = text.as_bytes().as_chunks::<16>();
    blocks.iter().any(|block| any(block)) || any(rest)
}

const fn is_unwanted(character: char) -> bool {
    matches!(character, '\0'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{7f}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn texts_that_start_like_a_formula_are_marked() {
        for text in [
            "=HYPERLINK(\"http://x\")",
            "+1",
            "-1+1",
            "-5",
            "@SUM(A1)",
            "\t=1",
            "\r=1",
            "\n=1",
            "＝1",
            "＋1",
            "－1",
            "＠x",
            "\u{feff}=1",
            "=",
            "'",
            "'=1",
            "''",
            "'tis",
        ] {
            assert_eq!(text_cell(text), format!("'{text}"), "{text:?}");
        }
    }

    #[test]
    fn other_texts_are_unchanged() {
        for text in ["", "a=1", " =1", "a'", "\"=1\"", "5", "é", "a\tb\r\nc", "\u{feff}", "😀"] {
            assert!(matches!(text_cell(text), Cow::Borrowed(same) if same == text), "{text:?}");
        }
    }

    #[test]
    fn control_characters_are_replaced_one_for_one() {
        assert_eq!(text_cell("a\0b\u{1b}\u{7f}"), "a\u{fffd}b\u{fffd}\u{fffd}");
        assert_eq!(text_cell("\0=1"), "\u{fffd}=1");
        assert_eq!(without_controls("\t\r\n"), "\t\r\n");
    }

    proptest! {
        #[test]
        fn no_cell_starts_like_a_formula_and_each_text_can_be_restored(
            text in "[\\x00-\\x20=+@'a\\-＝\u{feff}]{0,8}"
        ) {
            let cell = text_cell(&text);
            let clean = without_controls(&text);

            prop_assert!(!is_formula_like(&cell));
            prop_assert!(cell.chars().all(|character| !is_unwanted(character)));
            prop_assert_eq!(cell.strip_prefix(TEXT_MARK).unwrap_or(&cell), clean.as_ref());
        }
    }
}
