//! Reads a JSON body and reports every repeated name, of which a map would silently keep the last.

use std::cell::RefCell;

use domain::field_error::FieldErrorKind;
use failures::FieldProblem;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::{FieldProblems, check};

/// Reads the bytes as a JSON object. Repeated names are problems; a body that is not a JSON object
/// is a problem too and returns `None`.
pub(super) fn object(bytes: &[u8], problems: &mut FieldProblems) -> Option<Map<String, Value>> {
    let whole =
        |kind, message: String| FieldProblem { loc: vec!["body".to_owned()], msg: message, kind };
    let found = RefCell::new(JsonPosition { steps: Vec::new(), problems });
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let read = Reading(&found).deserialize(&mut reader);
    let read = read.and_then(|value| reader.end().map(|()| value));
    match read {
        Ok(Value::Object(members)) => Some(members),
        Ok(_) => {
            problems.add(whole(FieldErrorKind::WrongType, "must be a JSON object".to_owned()));
            None
        }
        Err(error) => {
            let (line, column) = (error.line(), error.column());
            let message = format!(
                "is not valid JSON, at line {line}, column {column}; send one JSON object in UTF-8"
            );
            problems.add(whole(FieldErrorKind::Malformed, message));
            None
        }
    }
}

/// Where the reader is, and the problems found so far.
struct JsonPosition<'p> {
    steps: Vec<String>,
    problems: &'p mut FieldProblems,
}

#[derive(Clone, Copy)]
struct Reading<'f, 'p>(&'f RefCell<JsonPosition<'p>>);

impl Reading<'_, '_> {
    /// Records a repeated name.
    fn note(self, name: &str) {
        let mut found = self.0.borrow_mut();
        let mut loc = vec!["body".to_owned()];
        loc.extend(found.steps.iter().cloned());
        loc.push(check::short(name));
        let msg = "is given more than once; send it once".to_owned();
        found.problems.add(FieldProblem { loc, msg, kind: FieldErrorKind::Duplicate });
    }

    fn enter(self, step: String) {
        self.0.borrow_mut().steps.push(step);
    }

    fn leave(self) {
        self.0.borrow_mut().steps.pop();
    }
}

impl<'de> DeserializeSeed<'de> for Reading<'_, '_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reading<'_, '_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Value, E> {
        Ok(Value::Bool(flag))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(Value::from(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(Value::from(number))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(Number::from_f64(number).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::String(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(Value::String(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        loop {
            self.enter(items.len().to_string());
            let item = list.next_element_seed(self)?;
            self.leave();
            let Some(item) = item else { return Ok(Value::Array(items)) };
            items.push(item);
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some(name) = object.next_key::<String>()? {
            self.enter(check::short(&name));
            let member = object.next_value_seed(self)?;
            self.leave();
            if members.contains_key(&name) {
                self.note(&name);
            } else {
                members.insert(name, member);
            }
        }
        Ok(Value::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Named = Vec<(String, FieldErrorKind)>;

    fn read(text: &str) -> (Option<Map<String, Value>>, Named) {
        let mut problems = FieldProblems::default();
        let members = object(text.as_bytes(), &mut problems);
        let named = problems.0.into_iter().map(|problem| (problem.loc.join("."), problem.kind));
        (members, named.collect())
    }

    #[test]
    fn every_repeated_name_is_reported_at_any_depth() {
        let (members, problems) = read(r#"{"a": 1, "a": 2, "b": [{"c": 1, "c": 1}], "b": 3}"#);

        assert_eq!(members.unwrap()["a"], 1);
        let duplicate = |place: &str| (place.to_owned(), FieldErrorKind::Duplicate);
        assert_eq!(problems, [duplicate("body.a"), duplicate("body.b.0.c"), duplicate("body.b")]);
    }

    #[test]
    fn a_body_that_is_not_a_json_object_is_refused() {
        for text in ["", "{", r#"{"a": 1} x"#, "{\"a\": NaN}", "{'a': 1}", "{\"a\": 1e400}"] {
            assert_eq!(
                read(text),
                (None, vec![("body".to_owned(), FieldErrorKind::Malformed)]),
                "{text}"
            );
        }
        for text in ["[]", "1", "null", "\"{}\""] {
            assert_eq!(
                read(text),
                (None, vec![("body".to_owned(), FieldErrorKind::WrongType)]),
                "{text}"
            );
        }
        let deep = "[".repeat(10_000);
        assert_eq!(read(&deep).1[0].1, FieldErrorKind::Malformed);
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::hash_map(any::<String>(), inner, 0..5)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_body_without_repetitions_is_read_as_it_was_written(value in values()) {
            let body = serde_json::json!({ "value": value });

            let (members, problems) = read(&body.to_string());

            prop_assert_eq!(members.map(Value::Object), Some(body));
            prop_assert!(problems.is_empty(), "{:?}", problems);
        }

        #[test]
        fn no_bytes_make_the_reader_panic_or_say_what_was_sent(bytes: Vec<u8>, text in "[a-z]{8}") {
            let mut problems = FieldProblems::default();
            let words = format!("{{\"a\":{text}");
            let _read = (object(&bytes, &mut problems), object(words.as_bytes(), &mut problems));
            for problem in problems.0 {
                prop_assert!(!problem.msg.contains(&text), "{}", problem.msg);
            }
        }
    }
}
