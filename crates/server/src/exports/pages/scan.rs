//! A light look into JSON: the values at a few pointers, as they are written, and nothing else.
//!
//! Whatever is not pointed at is skipped without being taken apart. A pointed-at name that stands twice in its object
//! is an error, for readers differ in which of the two they believe.

use std::fmt;

use catalog::dataset::Pointer;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// At most so many pointers are looked for at once.
const POINTERS_MAX: usize = 4;

/// The values at the pointers, in their order; nothing where a name is missing or something on the way is no object.
#[derive(Debug, Default)]
pub(super) struct Found<'de> {
    pub(super) values: [Option<&'de RawValue>; POINTERS_MAX],
    /// The elements of the list at the first pointer, where one was asked for.
    pub(super) list: Option<Vec<&'de RawValue>>,
}

/// What is told of a list that is none.
pub(super) const NO_LIST: &str = "its rows are not a list";

/// Looks into a whole text for at most four pointers. Fails if the text is not JSON.
pub(super) fn scan<'de>(
    text: &'de str,
    pointers: &[Option<&Pointer>],
) -> Result<Found<'de>, serde_json::Error> {
    look(text, pointers, First::Value)
}

/// The same, but at the first pointer is a list whose elements are wanted; empty, it is the whole text.
pub(super) fn scan_list<'de>(
    text: &'de str,
    pointers: &[Option<&Pointer>],
) -> Result<Found<'de>, serde_json::Error> {
    let is_whole = pointers.first().is_some_and(|it| it.is_some_and(|it| it.names().is_empty()));
    if is_whole {
        let mut reader = serde_json::Deserializer::from_str(text);
        let list = Elements.deserialize(&mut reader)?;
        reader.end()?;
        return Ok(Found { list: Some(list), ..Found::default() });
    }
    look(text, pointers, First::List)
}

fn look<'de>(
    text: &'de str,
    pointers: &[Option<&Pointer>],
    first: First,
) -> Result<Found<'de>, serde_json::Error> {
    let mut found = Found::default();
    let mut reader = serde_json::Deserializer::from_str(text);
    let wanted = Mask::all(pointers.len());
    Look { pointers, wanted, depth: 0, first, found: &mut found }.deserialize(&mut reader)?;
    reader.end()?;
    Ok(found)
}

/// What is wanted at the first pointer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum First {
    Value,
    List,
}

/// Reads a list into its elements, as they are written.
struct Elements;

impl<'de> DeserializeSeed<'de> for Elements {
    type Value = Vec<&'de RawValue>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Elements {
    type Value = Vec<&'de RawValue>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut elements = Vec::with_capacity(128);
        while let Some(element) = list.next_element::<&RawValue>()? {
            elements.push(element);
        }
        Ok(elements)
    }

    fn visit_map<A: MapAccess<'de>>(self, _: A) -> Result<Self::Value, A::Error> {
        Err(A::Error::custom(NO_LIST))
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Self::Value, E> {
        Err(E::custom(NO_LIST))
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Self::Value, E> {
        Err(E::custom(NO_LIST))
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Self::Value, E> {
        Err(E::custom(NO_LIST))
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Self::Value, E> {
        Err(E::custom(NO_LIST))
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<Self::Value, E> {
        Err(E::custom(NO_LIST))
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Err(E::custom(NO_LIST))
    }
}

/// Which pointers are meant, one bit for each.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Mask(u8);

impl Mask {
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

/// Reads one value in which the wanted pointers have come `depth` names far.
struct Look<'a, 'de> {
    pointers: &'a [Option<&'a Pointer>],
    wanted: Mask,
    depth: usize,
    first: First,
    found: &'a mut Found<'de>,
}

impl<'de> DeserializeSeed<'de> for Look<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Look<'_, 'de> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut met = Mask::NONE;
        let name = || Name { pointers: self.pointers, wanted: self.wanted, depth: self.depth };
        while let Some(matching) = map.next_key_seed(name())? {
            if matching == Mask::NONE {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            if met.0 & matching.0 != 0 {
                return Err(A::Error::custom("a name is given twice"));
            }
            met = Mask(met.0 | matching.0);
            match ended(self.pointers, matching, self.depth) {
                Some(0) if self.first == First::List => {
                    self.found.list = Some(map.next_value_seed(Elements)?);
                }
                Some(index) => {
                    let value = map.next_value::<&RawValue>()?;
                    if let Some(place) = self.found.values.get_mut(index) {
                        *place = Some(value);
                    }
                }
                None => map.next_value_seed(Look {
                    pointers: self.pointers,
                    wanted: matching,
                    depth: self.depth + 1,
                    first: self.first,
                    found: &mut *self.found,
                })?,
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

/// The pointer whose last name this is.
fn ended(pointers: &[Option<&Pointer>], matching: Mask, depth: usize) -> Option<usize> {
    let ends = |pointer: Option<&Pointer>| pointer.is_some_and(|it| it.names().len() == depth + 1);
    let mut matched = pointers.iter().enumerate().filter(|(index, _)| matching.has(*index));
    matched.find(|(_, pointer)| ends(**pointer)).map(|(index, _)| index)
}

/// Reads a name: which of the wanted pointers have it next.
struct Name<'a> {
    pointers: &'a [Option<&'a Pointer>],
    wanted: Mask,
    depth: usize,
}

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = Mask;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Mask, D::Error> {
        from.deserialize_str(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = Mask;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Mask, E> {
        let next = |pointer: Option<&Pointer>| {
            pointer.and_then(|it| it.names().get(self.depth)).is_some_and(|it| it == name)
        };
        let wanted = self.pointers.iter().enumerate();
        let matching = wanted.filter(|(index, pointer)| self.wanted.has(*index) && next(**pointer));
        Ok(matching.fold(Mask::NONE, |mask, (index, _)| mask.with(index)))
    }
}

/// What a value is, as far as pages need to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Null,
    Bool(bool),
    /// A number without fraction and exponent.
    Whole,
    /// Any other number.
    Number,
    Text,
    List,
    Object,
}

/// The kind of a value.
pub(super) fn kind(value: &RawValue) -> Kind {
    let text = value.get();
    match text.as_bytes().first() {
        Some(b'n') | None => Kind::Null,
        Some(b't') => Kind::Bool(true),
        Some(b'f') => Kind::Bool(false),
        Some(b'"') => Kind::Text,
        Some(b'[') => Kind::List,
        Some(b'{') => Kind::Object,
        Some(_) if text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') => Kind::Whole,
        Some(_) => Kind::Number,
    }
}

/// The characters between the quotes of a text, escapes kept; of anything else all of it.
pub(super) fn inner(value: &RawValue) -> &str {
    let text = value.get();
    text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text)
}

/// A text without its escapes, or a whole number as text.
pub(super) fn plain(value: &RawValue) -> Option<std::borrow::Cow<'_, str>> {
    let inner = inner(value);
    match kind(value) {
        Kind::Whole => Some(inner.into()),
        Kind::Text if !inner.contains('\\') => Some(inner.into()),
        Kind::Text => serde_json::from_str::<String>(value.get()).ok().map(Into::into),
        Kind::Null | Kind::Bool(_) | Kind::Number | Kind::List | Kind::Object => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str, pointers: &[&str]) -> Result<Vec<Option<String>>, String> {
        let pointers: Vec<Pointer> =
            pointers.iter().map(|it| Pointer::parse(it).unwrap()).collect();
        let found = scan(text, &pointers.iter().map(Some).collect::<Vec<_>>());
        let found = found.map_err(|error| error.to_string())?;
        let values = found.values.iter().take(pointers.len());
        Ok(values.map(|value| value.map(|value| value.get().to_owned())).collect())
    }

    fn some(values: &[&str]) -> Vec<Option<String>> {
        values.iter().map(|value| Some((*value).to_owned())).collect()
    }

    #[test]
    fn values_are_found_as_they_are_written() {
        let text =
            r#" {"x":[{"id":9}], "a": {"b": {"c":1.50}, "d":"\u0041"}, "id" : 7 , "e":null} "#;

        let found = at(text, &["/id", "/a/b/c", "/a/d", "/e"]).unwrap();

        assert_eq!(found, some(&["7", "1.50", "\"\\u0041\"", "null"]));
        assert_eq!(at(r#"{"\u0069d":1}"#, &["/id"]).unwrap(), some(&["1"]));
    }

    #[test]
    fn what_is_not_there_is_not_found() {
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
    fn a_pointed_at_name_that_stands_twice_and_broken_json_are_errors() {
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
    fn nesting_takes_no_stack() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        let around = format!("{{\"x\":{deep},\"id\":1}}");

        assert_eq!(at(&around, &["/id"]).unwrap(), some(&["1"]));
        let rows = |text: &str, pointer: &str| {
            let pointer = Pointer::parse(pointer).unwrap();
            scan_list(text, &[Some(&pointer)]).map(|found| found.list.map(|list| list.len()))
        };
        assert_eq!(rows(&format!("[{deep},{deep}]"), "").unwrap(), Some(2));
        assert_eq!(rows(&format!("{{\"a\":{{\"b\":[{deep},1]}}}}"), "/a/b").unwrap(), Some(2));
    }

    #[test]
    fn a_list_is_taken_apart_and_nothing_else_is_one() {
        let rows = |text: &str, pointer: &str| {
            let pointer = Pointer::parse(pointer).unwrap();
            let found = scan_list(text, &[Some(&pointer)]).map_err(|error| error.to_string())?;
            Ok::<_, String>(
                found
                    .list
                    .map(|list| list.iter().map(|it| it.get().to_owned()).collect::<Vec<_>>()),
            )
        };

        assert_eq!(rows(" [ {\"a\": 1} ,2] ", "").unwrap().unwrap(), ["{\"a\": 1}", "2"]);
        assert_eq!(rows("{\"x\":1,\"a\":[]}", "/a").unwrap(), Some(vec![]));
        assert_eq!(rows("{\"x\":[1]}", "/a").unwrap(), None);
        for other in ["{}", "null", "true", "1", "-1", "1.5", "\"a\""] {
            let refused = rows(&format!("{{\"a\":{other}}}"), "/a").unwrap_err();
            assert!(refused.starts_with(NO_LIST), "{refused}");
            assert!(rows(other, "").unwrap_err().starts_with(NO_LIST), "{other}");
        }
        assert!(rows("[1,]", "").is_err() && rows("[1] 2", "").is_err());
    }

    #[test]
    fn kinds_and_texts_of_values_are_told() {
        let value = |text: &str| RawValue::from_string(text.to_owned()).unwrap();
        for (text, expected, plainly) in [
            ("null", Kind::Null, None),
            ("true", Kind::Bool(true), None),
            ("-12", Kind::Whole, Some("-12")),
            ("1.0", Kind::Number, None),
            ("1e3", Kind::Number, None),
            ("\"a\\\"b\"", Kind::Text, Some("a\"b")),
            ("\"ab\"", Kind::Text, Some("ab")),
            ("[1]", Kind::List, None),
            ("{}", Kind::Object, None),
        ] {
            assert_eq!(kind(&value(text)), expected, "{text}");
            assert_eq!(plain(&value(text)).as_deref(), plainly, "{text}");
        }
    }
}
