//! A reader of JSON text that finds where values start and end, checks them, and copies nothing.
//!
//! It accepts exactly the JSON of RFC 8259, with nesting of any depth and without recursion.

use std::borrow::Cow;

use crate::TabularError;

/// Reads one JSON text from start to end.
#[derive(Debug, Clone)]
pub struct JsonScanner<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// A range of the text, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextSpan {
    /// Its first byte.
    pub start: u32,
    /// The byte after its last.
    pub end: u32,
}

/// A string between its quotes, and whether it contains escapes.
#[derive(Debug, Clone, Copy)]
pub struct StringSpan {
    /// Without the quotes.
    pub span: TextSpan,
    /// Whether its text differs from its written form.
    pub escaped: bool,
}

/// The closing bracket of each open value, the innermost last: a bit each, of which the last 64 are
/// at hand.
#[derive(Debug, Default)]
struct OpenValues {
    depth: usize,
    last: u64,
    before: Vec<u64>,
}

impl OpenValues {
    fn push(&mut self, close: u8) {
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.before.push(self.last);
        }
        self.last = self.last << 1 | u64::from(close == b'}');
        self.depth += 1;
    }

    fn pop(&mut self) {
        self.depth = self.depth.saturating_sub(1);
        self.last >>= 1;
        if self.depth.is_multiple_of(64) {
            self.last = self.before.pop().unwrap_or_default();
        }
    }

    const fn last(&self) -> Option<u8> {
        match (self.depth, self.last & 1) {
            (0, _) => None,
            (_, 0) => Some(b']'),
            _ => Some(b'}'),
        }
    }
}

impl TextSpan {
    /// The range of the text that it was found in.
    pub fn of(self, text: &str) -> &str {
        text.get(self.start as usize..self.end as usize).unwrap_or_default()
    }
}

impl StringSpan {
    /// The string's text. An unpaired surrogate, which JSON allows and text cannot hold, becomes
    /// U+FFFD.
    pub fn text(self, json: &str) -> Cow<'_, str> {
        let written = self.span.of(json);
        if self.escaped { Cow::Owned(unescaped(written)) } else { Cow::Borrowed(written) }
    }
}

impl<'a> JsonScanner<'a> {
    /// Starts before the first token. Texts are shorter than 4 GiB, so offsets fit 32 bits.
    pub fn new(text: &'a str) -> Self {
        let mut scanner = Self { bytes: text.as_bytes(), at: 0 };
        scanner.skip_space();
        scanner
    }

    /// The first byte of the next token.
    pub fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// The offset of the next token.
    pub fn place(&self) -> u32 {
        u32::try_from(self.at).unwrap_or(u32::MAX)
    }

    /// The error of a text that is not JSON at this point.
    pub const fn error(&self) -> TabularError {
        TabularError::NotJson { at: self.at }
    }

    /// Consumes the next token if it is this one, and the space after it.
    pub fn take(&mut self, token: u8) -> bool {
        if self.peek() != Some(token) {
            return false;
        }
        self.at += 1;
        self.skip_space();
        true
    }

    /// Consumes the next token, which must be this one.
    pub fn expect(&mut self, token: u8) -> Result<(), TabularError> {
        if self.take(token) { Ok(()) } else { Err(self.error()) }
    }

    /// Checks that the text ends here.
    pub fn finish(&self) -> Result<(), TabularError> {
        if self.at == self.bytes.len() { Ok(()) } else { Err(self.error()) }
    }

    /// Consumes a string.
    pub fn string(&mut self) -> Result<StringSpan, TabularError> {
        if self.peek() != Some(b'"') {
            return Err(self.error());
        }
        self.at += 1;
        let start = self.place();
        let mut escaped = false;
        loop {
            self.at += plain_length(self.bytes.get(self.at..).unwrap_or_default());
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => {
                    escaped = true;
                    self.escape()?;
                }
                _ => return Err(self.error()),
            }
        }
        let span = TextSpan { start, end: self.place() };
        self.at += 1;
        self.skip_space();
        Ok(StringSpan { span, escaped })
    }

    /// Consumes a number.
    pub fn number(&mut self) -> Result<TextSpan, TabularError> {
        let start = self.place();
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        let span = TextSpan { start, end: self.place() };
        self.skip_space();
        Ok(span)
    }

    /// Consumes `true`, `false` or `null`.
    pub fn word(&mut self, word: &[u8]) -> Result<(), TabularError> {
        if !self.bytes.get(self.at..).is_some_and(|rest| rest.starts_with(word)) {
            return Err(self.error());
        }
        self.at += word.len();
        self.skip_space();
        Ok(())
    }

    /// Consumes the next value, of any type.
    pub fn value(&mut self) -> Result<TextSpan, TabularError> {
        if matches!(self.peek(), Some(b'{' | b'[')) { self.nested() } else { self.plain() }
    }

    /// Consumes an array or an object with everything inside.
    pub fn nested(&mut self) -> Result<TextSpan, TabularError> {
        let start = self.place();
        let mut open = OpenValues::default();
        loop {
            self.open_values(&mut open)?;
            let end = self.close_values(&mut open)?;
            if open.depth == 0 {
                return Ok(TextSpan { start, end });
            }
        }
    }

    /// Consumes the starts of values until one is complete: a scalar, or an empty array or object.
    fn open_values(&mut self, open: &mut OpenValues) -> Result<(), TabularError> {
        loop {
            let close = match self.peek() {
                Some(b'{') => b'}',
                Some(b'[') => b']',
                _ => return self.plain().map(|_| ()),
            };
            open.push(close);
            self.at += 1;
            self.skip_space();
            if self.peek() == Some(close) {
                return Ok(());
            }
            if close == b'}' {
                self.member_name()?;
            }
        }
    }

    /// Consumes the ends of values up to the next member of one that stays open. Returns where the
    /// last one ended.
    fn close_values(&mut self, open: &mut OpenValues) -> Result<u32, TabularError> {
        loop {
            let Some(close) = open.last() else { return Err(self.error()) };
            if self.peek() == Some(close) {
                open.pop();
                self.at += 1;
                let end = self.place();
                self.skip_space();
                if open.depth == 0 {
                    return Ok(end);
                }
                continue;
            }
            self.expect(b',')?;
            if close == b'}' {
                self.member_name()?;
            }
            return Ok(self.place());
        }
    }

    fn member_name(&mut self) -> Result<(), TabularError> {
        self.string()?;
        self.expect(b':')
    }

    fn plain(&mut self) -> Result<TextSpan, TabularError> {
        let word = match self.peek() {
            Some(b'"') => {
                let TextSpan { start, end } = self.string()?.span;
                return Ok(TextSpan { start: start - 1, end: end + 1 });
            }
            Some(b't') => "true",
            Some(b'f') => "false",
            Some(b'n') => "null",
            _ => return self.number(),
        };
        let start = self.place();
        self.word(word.as_bytes())?;
        Ok(TextSpan { start, end: start + if word == "false" { 5 } else { 4 } })
    }

    fn escape(&mut self) -> Result<(), TabularError> {
        self.at += 1;
        match self.peek() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 1,
            Some(b'u') => {
                self.at += 1;
                for _ in 0..4 {
                    if !self.peek().is_some_and(|byte| byte.is_ascii_hexdigit()) {
                        return Err(self.error());
                    }
                    self.at += 1;
                }
            }
            _ => return Err(self.error()),
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), TabularError> {
        let before = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at == before { Err(self.error()) } else { Ok(()) }
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }
}

/// The text of a string whose escapes are known to be valid.
fn unescaped(written: &str) -> String {
    let mut text = String::with_capacity(written.len());
    let mut rest = written;
    while let Some((plain, escape)) = rest.split_once('\\') {
        text.push_str(plain);
        let mut characters = escape.chars();
        match characters.next() {
            Some('u') => {
                let (character, after) = unicode_escape(escape.get(1..).unwrap_or_default());
                text.push(character);
                rest = after;
                continue;
            }
            Some('b') => text.push('\u{8}'),
            Some('f') => text.push('\u{c}'),
            Some('n') => text.push('\n'),
            Some('r') => text.push('\r'),
            Some('t') => text.push('\t'),
            Some(same) => text.push(same),
            None => {}
        }
        rest = characters.as_str();
    }
    text.push_str(rest);
    text
}

/// The character of a `\u` escape, with a second escape if it is a pair, and the rest of the text.
fn unicode_escape(digits: &str) -> (char, &str) {
    let (first, rest) = hexadecimal(digits);
    if let Some(character) = char::from_u32(first) {
        return (character, rest);
    }
    if first < 0xdc00
        && let Some(second) = rest.strip_prefix("\\u")
    {
        let (second, after) = hexadecimal(second);
        if (0xdc00..0xe000).contains(&second) {
            let scalar = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
            return (char::from_u32(scalar).unwrap_or(char::REPLACEMENT_CHARACTER), after);
        }
    }
    (char::REPLACEMENT_CHARACTER, rest)
}

fn hexadecimal(digits: &str) -> (u32, &str) {
    let (number, rest) = digits.split_at_checked(4).unwrap_or((digits, ""));
    (u32::from_str_radix(number, 16).unwrap_or(0xfffd), rest)
}

/// The number of leading bytes that need no escaping or checking in a string. Tests eight at a
/// time.
fn plain_length(bytes: &[u8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let mut length = 0;
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let word = u64::from_le_bytes(*word);
        let quote = word ^ (ONES * 0x22);
        let backslash = word ^ (ONES * 0x5c);
        // A byte's high bit is set if it is zero, or, for the last, below 0x20. A borrow may set
        // more bits above the lowest such byte, which does no harm.
        let found = (quote.wrapping_sub(ONES) & !quote)
            | (backslash.wrapping_sub(ONES) & !backslash)
            | (word.wrapping_sub(ONES * 0x20) & !word);
        let found = found & HIGH;
        if found != 0 {
            return length + found.trailing_zeros() as usize / 8;
        }
        length += 8;
    }
    length + rest.iter().take_while(|byte| !matches!(byte, 0..0x20 | b'"' | b'\\')).count()
}

#[cfg(test)]
mod tests {
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
}
