//! A reader of JSON text that finds where values start and end, checks them, and copies nothing.
//!
//! It accepts exactly the JSON of RFC 8259, with nesting of any depth and without recursion.

mod open_values;
mod strings;

use std::borrow::Cow;

use crate::TabularError;

use open_values::OpenValues;
use strings::{plain_length, unescaped};

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

#[cfg(test)]
mod tests;
