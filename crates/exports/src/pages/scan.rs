//! A light JSON scanner: finds the original text of the values at a few pointers, and nothing else.
//!
//! One pass checks the whole text; values without a pointer are skipped without being parsed. A
//! pointed-at name that appears twice in its object is an error, because parsers differ in which of
//! the two they use.

use std::borrow::Cow;

use catalog::dataset::JsonPointer;
use tabular::TabularError;
use tabular::scan::{JsonScanner, StringSpan};

/// The maximum number of pointers in one scan.
const POINTERS_MAX: usize = 4;
/// The initial capacity of a list.
const LIST_ROOM: usize = 128;

/// The values at the pointers, in their order; `None` if a name is missing or a value on the path
/// is not an object.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FoundValues<'t> {
    pub(super) values: [Option<&'t str>; POINTERS_MAX],
    /// Whether a pointed-at name appears twice.
    pub(super) is_twice: bool,
}

/// An element of a list, and what was found in it.
#[derive(Debug, Clone, Copy)]
pub(super) struct ListElement<'t> {
    /// Its offset in the surrounding text.
    pub(super) at: usize,
    /// Its original text.
    pub(super) text: &'t str,
    pub(super) found: FoundValues<'t>,
}

/// A text that contains a list.
#[derive(Debug, Default)]
pub(super) struct FoundList<'t> {
    /// The values found outside the list.
    pub(super) found: FoundValues<'t>,
    /// The list's elements; `None` if there is no list.
    pub(super) list: Option<Vec<ListElement<'t>>>,
}

/// What is wrong with a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextProblem {
    /// It is not JSON.
    NotJson,
    /// The value that should be a list is not one.
    NoList,
}

/// What is wrong with a text, and at which byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BrokenText {
    pub(super) problem: TextProblem,
    pub(super) at: usize,
}

/// Scans a whole text for at most four pointers.
pub(super) fn scan<'t>(
    text: &'t str,
    pointers: &[Option<&JsonPointer>],
) -> Result<FoundValues<'t>, BrokenText> {
    let mut look = TextWalk::new(text, JsonScanner::new(text), pointers);
    let found = look.value()?;
    look.scanner.finish()?;
    Ok(found)
}

/// The same, except that the first pointer is that of a list, whose elements are scanned for their
/// own pointers. If that pointer is empty, the whole text is the list, and nothing else is found.
pub(super) fn scan_list<'t>(
    text: &'t str,
    pointers: &[Option<&JsonPointer>],
    in_elements: &[Option<&JsonPointer>],
) -> Result<FoundList<'t>, BrokenText> {
    let mut look = TextWalk::new(text, JsonScanner::new(text), pointers);
    look.in_elements = Some(in_elements);
    let is_whole = pointers.first().is_some_and(|it| it.is_some_and(|it| it.names().is_empty()));
    let found = if is_whole {
        look.list()?;
        FoundValues::default()
    } else {
        look.value()?
    };
    look.scanner.finish()?;
    Ok(FoundList { found, list: look.list })
}

impl From<TabularError> for BrokenText {
    fn from(error: TabularError) -> Self {
        let at = if let TabularError::NotJson { at } = error { at } else { 0 };
        Self { problem: TextProblem::NotJson, at }
    }
}

/// A set of pointers, one bit for each.
#[derive(Clone, Copy, PartialEq, Eq)]
struct PointerMask(u8);

impl PointerMask {
    const NONE: Self = Self(0);

    fn all(count: usize) -> Self {
        (0..count.min(POINTERS_MAX)).fold(Self::NONE, Self::with)
    }

    const fn with(self, index: usize) -> Self {
        Self(self.0 | 1 << index)
    }

    const fn has(self, index: usize) -> bool {
        self.0 & 1 << index != 0
    }
}

/// One pass over a text.
struct TextWalk<'a, 't> {
    text: &'t str,
    scanner: JsonScanner<'t>,
    pointers: &'a [Option<&'a JsonPointer>],
    /// The pointers for the elements of the list at the first pointer.
    in_elements: Option<&'a [Option<&'a JsonPointer>]>,
    list: Option<Vec<ListElement<'t>>>,
}

impl<'a, 't> TextWalk<'a, 't> {
    fn new(
        text: &'t str,
        scanner: JsonScanner<'t>,
        pointers: &'a [Option<&'a JsonPointer>],
    ) -> Self {
        Self { text, scanner, pointers, in_elements: None, list: None }
    }

    /// Reads the next value, and scans it if it is an object.
    fn value(&mut self) -> Result<FoundValues<'t>, BrokenText> {
        let mut found = FoundValues::default();
        if self.scanner.peek() == Some(b'{') {
            self.object(PointerMask::all(self.pointers.len()), 0, &mut found)?;
        } else {
            self.scanner.value()?;
        }
        Ok(found)
    }

    /// Reads an object at which the wanted pointers have matched `depth` names. None of them has
    /// fewer names than that.
    fn object(
        &mut self,
        wanted: PointerMask,
        depth: usize,
        found: &mut FoundValues<'t>,
    ) -> Result<(), BrokenText> {
        self.scanner.expect(b'{')?;
        if self.scanner.take(b'}') {
            return Ok(());
        }
        let mut met = PointerMask::NONE;
        loop {
            let name = self.scanner.string()?;
            self.scanner.expect(b':')?;
            let matching = self.matching(name, wanted, depth);
            if matching == PointerMask::NONE {
                self.scanner.value()?;
            } else {
                found.is_twice |= met.0 & matching.0 != 0;
                met = PointerMask(met.0 | matching.0);
                self.member(matching, depth, found)?;
            }
            if !self.scanner.take(b',') {
                return Ok(self.scanner.expect(b'}')?);
            }
        }
    }

    /// Reads the value of a name that these pointers contain.
    fn member(
        &mut self,
        matching: PointerMask,
        depth: usize,
        found: &mut FoundValues<'t>,
    ) -> Result<(), BrokenText> {
        match self.ended(matching, depth) {
            Some(0) if self.in_elements.is_some() => self.list(),
            Some(index) => {
                let value = self.scanner.value()?.of(self.text);
                if let Some(place) = found.values.get_mut(index) {
                    *place = Some(value);
                }
                Ok(())
            }
            None if self.scanner.peek() == Some(b'{') => self.object(matching, depth + 1, found),
            None => Ok(self.scanner.value().map(|_| ())?),
        }
    }

    /// Reads the list into its elements.
    fn list(&mut self) -> Result<(), BrokenText> {
        let at = self.scanner.place() as usize;
        if self.scanner.peek() != Some(b'[') {
            self.scanner.value()?;
            return Err(BrokenText { problem: TextProblem::NoList, at });
        }
        let mut list = Vec::with_capacity(LIST_ROOM);
        let pointers = self.in_elements.unwrap_or_default();
        let mut element = TextWalk::new(self.text, self.scanner.clone(), pointers);
        element.scanner.expect(b'[')?;
        let mut is_open = !element.scanner.take(b']');
        while is_open {
            let from = element.scanner.place() as usize;
            let found = element.value()?;
            let text = self.text.get(from..element.scanner.place() as usize).unwrap_or_default();
            list.push(ListElement { at: from, text: text.trim_ascii_end(), found });
            is_open = element.scanner.take(b',');
            if !is_open {
                element.scanner.expect(b']')?;
            }
        }
        self.scanner = element.scanner;
        self.list = Some(list);
        Ok(())
    }

    /// The wanted pointers whose next name this is.
    fn matching(&self, name: StringSpan, wanted: PointerMask, depth: usize) -> PointerMask {
        let name = name.text(self.text);
        let next = |pointer: Option<&JsonPointer>| {
            pointer.and_then(|it| it.names().get(depth)).is_some_and(|it| *it == name)
        };
        let pointers = self.pointers.iter().enumerate();
        let matching = pointers.filter(|(index, pointer)| wanted.has(*index) && next(**pointer));
        matching.fold(PointerMask::NONE, |mask, (index, _)| mask.with(index))
    }

    /// The pointer whose last name this is.
    fn ended(&self, matching: PointerMask, depth: usize) -> Option<usize> {
        let ends =
            |pointer: Option<&JsonPointer>| pointer.is_some_and(|it| it.names().len() == depth + 1);
        let mut matched =
            self.pointers.iter().enumerate().filter(|(index, _)| matching.has(*index));
        matched.find(|(_, pointer)| ends(**pointer)).map(|(index, _)| index)
    }
}

/// The kind of a value, as far as pages need it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ValueKind {
    Null,
    Bool(bool),
    /// A number without fraction or exponent.
    Whole,
    /// Any other number.
    Number,
    Text,
    List,
    Object,
}

/// The kind of a value.
pub(super) fn kind(text: &str) -> ValueKind {
    match text.as_bytes().first() {
        Some(b'n') | None => ValueKind::Null,
        Some(b't') => ValueKind::Bool(true),
        Some(b'f') => ValueKind::Bool(false),
        Some(b'"') => ValueKind::Text,
        Some(b'[') => ValueKind::List,
        Some(b'{') => ValueKind::Object,
        Some(_) if text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') => {
            ValueKind::Whole
        }
        Some(_) => ValueKind::Number,
    }
}

/// The characters between the quotes of a string, with escapes; any other value unchanged.
pub(super) fn inner(text: &str) -> &str {
    text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text)
}

/// A string without its escapes, or a whole number as a string.
pub(super) fn plain(value: &str) -> Option<Cow<'_, str>> {
    let inner = inner(value);
    match kind(value) {
        ValueKind::Whole => Some(inner.into()),
        ValueKind::Text if !inner.contains('\\') => Some(inner.into()),
        ValueKind::Text => serde_json::from_str::<String>(value).ok().map(Into::into),
        ValueKind::Null
        | ValueKind::Bool(_)
        | ValueKind::Number
        | ValueKind::List
        | ValueKind::Object => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str, pointers: &[&str]) -> Result<Vec<Option<String>>, String> {
        let pointers: Vec<JsonPointer> =
            pointers.iter().map(|it| JsonPointer::parse(it).unwrap()).collect();
        let found = scan(text, &pointers.iter().map(Some).collect::<Vec<_>>());
        let found = found.map_err(|broken| format!("{broken:?}"))?;
        if found.is_twice {
            return Err("twice".to_owned());
        }
        let values = found.values.iter().take(pointers.len());
        Ok(values.map(|value| value.map(str::to_owned)).collect())
    }

    fn some(values: &[&str]) -> Vec<Option<String>> {
        values.iter().map(|value| Some((*value).to_owned())).collect()
    }

    #[test]
    fn values_keep_their_original_text() {
        let text =
            r#" {"x":[{"id":9}], "a": {"b": {"c":1.50}, "d":"\u0041"}, "id" : 7 , "e":null} "#;

        let found = at(text, &["/id", "/a/b/c", "/a/d", "/e"]).unwrap();

        assert_eq!(found, some(&["7", "1.50", "\"\\u0041\"", "null"]));
        assert_eq!(at(r#"{"\u0069d":1}"#, &["/id"]).unwrap(), some(&["1"]));
    }

    #[test]
    fn missing_values_are_not_found() {
        for text in [
            "{}",
            "[]",
            "null",
            "true",
            "3",
            "-3",
            "3.5",
            "\"a\"",
            r#"{"a":null}"#,
            r#"{"a":[{"b":1}]}"#,
            r#"{"a":"b"}"#,
            r#"{"b":1}"#,
        ] {
            assert_eq!(at(text, &["/a/b"]).unwrap(), [None], "{text}");
        }
    }

    #[test]
    fn duplicate_names_and_invalid_json_are_errors() {
        for text in [
            r#"{"id":1,"id":1}"#,
            r#"{"id":1,"i\u0064":2}"#,
            r#"{"a":{"id":1},"a":{}}"#,
            r#"{"id":1"#,
            r#"{"id":1}}"#,
            r#"{"id":1,}"#,
            r#"{"x":[1,],"id":1}"#,
            r#"{"x":nul,"id":1}"#,
            r#"{"x":01,"id":1}"#,
            "",
        ] {
            assert!(at(text, &["/id", "/a/id"]).is_err(), "{text}");
        }
        assert!(at(r#"{"x":1,"x":2,"id":1}"#, &["/id"]).is_ok());
    }

    #[test]
    fn nesting_uses_no_stack() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        let around = format!("{{\"x\":{deep},\"id\":1}}");

        assert_eq!(at(&around, &["/id"]).unwrap(), some(&["1"]));
        let rows = |text: &str, pointer: &str| {
            let pointer = JsonPointer::parse(pointer).unwrap();
            scan_list(text, &[Some(&pointer)], &[]).map(|found| found.list.map(|list| list.len()))
        };
        assert_eq!(rows(&format!("[{deep},{deep}]"), "").unwrap(), Some(2));
        assert_eq!(rows(&format!("{{\"a\":{{\"b\":[{deep},1]}}}}"), "/a/b").unwrap(), Some(2));
    }

    #[test]
    fn only_lists_are_split_into_elements() {
        let rows = |text: &'static str, pointer: &str| {
            let pointer = JsonPointer::parse(pointer).unwrap();
            let list = scan_list(text, &[Some(&pointer)], &[])?.list;
            Ok::<_, BrokenText>(list.map(|list| list.iter().map(|it| it.text).collect::<Vec<_>>()))
        };

        assert_eq!(rows(" [ {\"a\": 1} ,2] ", "").unwrap().unwrap(), ["{\"a\": 1}", "2"]);
        assert_eq!(rows("{\"x\":1,\"a\":[]}", "/a").unwrap(), Some(vec![]));
        assert_eq!(rows("{\"x\":[1]}", "/a").unwrap(), None);
        for other in ["{\"a\":{}}", "{\"a\":null}", "{\"a\":true}", "{\"a\":-1.5}", "{\"a\":\"a\"}"]
        {
            let refused = rows(other, "/a").unwrap_err();
            assert_eq!(refused, BrokenText { problem: TextProblem::NoList, at: 5 }, "{other}");
        }
        for other in ["{}", "null", "true", "1", "-1", "1.5", "\"a\""] {
            assert_eq!(rows(other, "").unwrap_err().problem, TextProblem::NoList, "{other}");
        }
        for (text, at) in [("[1,]", 3), ("[1] 2", 4), ("[1", 2), ("", 0)] {
            assert_eq!(
                rows(text, "").unwrap_err(),
                BrokenText { problem: TextProblem::NotJson, at }
            );
        }
    }

    #[test]
    fn each_element_of_a_list_is_scanned_separately() {
        let text =
            r#"{"l":[ {"id":1,"t":{"x":"a"}} , {"id":2,"id":3}, [{"id":4}], {} ],"m":true,"l2":0}"#;
        let parse = |pointer: &str| JsonPointer::parse(pointer).unwrap();
        let (list, more) = (parse("/l"), parse("/m"));
        let (id, x) = (parse("/id"), parse("/t/x"));

        let found =
            scan_list(text, &[Some(&list), None, Some(&more)], &[Some(&id), Some(&x)]).unwrap();

        assert_eq!(found.found.values, [None, None, Some("true"), None]);
        let elements = found.list.unwrap();
        let values: Vec<_> = elements
            .iter()
            .map(|it| (it.found.values[0], it.found.values[1], it.found.is_twice))
            .collect();
        assert_eq!(
            values,
            [
                (Some("1"), Some("\"a\""), false),
                (Some("3"), None, true),
                (None, None, false),
                (None, None, false),
            ]
        );
        assert_eq!(elements[0].text, r#"{"id":1,"t":{"x":"a"}}"#);
        assert!(scan_list(r#"{"l":[],"l":[]}"#, &[Some(&list)], &[]).unwrap().found.is_twice);
    }

    #[test]
    fn kinds_and_plain_texts_of_values() {
        for (text, expected, plainly) in [
            ("null", ValueKind::Null, None),
            ("true", ValueKind::Bool(true), None),
            ("-12", ValueKind::Whole, Some("-12")),
            ("1.0", ValueKind::Number, None),
            ("1e3", ValueKind::Number, None),
            ("\"a\\\"b\"", ValueKind::Text, Some("a\"b")),
            ("\"ab\"", ValueKind::Text, Some("ab")),
            ("[1]", ValueKind::List, None),
            ("{}", ValueKind::Object, None),
        ] {
            assert_eq!(kind(text), expected, "{text}");
            assert_eq!(plain(text).as_deref(), plainly, "{text}");
        }
    }
}
