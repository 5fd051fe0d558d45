//! Checks a value against its shape: keeps the good fields, and lists every wrong one with what to
//! send instead.
//!
//! Messages never repeat the value: it may be a secret in the wrong field.

use domain::field_error::FieldErrorKind;
use failures::FieldProblem;
use serde_json::{Map, Number, Value};

use super::formats::ValueFormat;
use super::shape::{FieldKind, Object, Text, ValueShape};
use super::{FieldProblems, numbers};

/// The most characters of a field name chosen by the caller that a message repeats.
const NAME_CHARS_MAX: usize = 64;

/// The location of a value in the request, and the problems found so far.
pub(super) struct Place<'p> {
    steps: Vec<String>,
    problems: &'p mut FieldProblems,
}

impl<'p> Place<'p> {
    /// The body or the query itself.
    pub(super) fn of(part: &str, problems: &'p mut FieldProblems) -> Self {
        Self { steps: vec![part.to_owned()], problems }
    }

    fn refuse(&mut self, kind: FieldErrorKind, msg: String) {
        self.problems.add(FieldProblem { loc: self.steps.clone(), msg, kind });
    }

    /// Runs `work` with the location one step deeper.
    fn below<T>(&mut self, step: &str, work: impl FnOnce(&mut Self) -> T) -> T {
        self.steps.push(step.to_owned());
        let done = work(self);
        self.steps.pop();
        done
    }

    fn is_query(&self) -> bool {
        self.steps.first().is_some_and(|part| part == "query")
    }
}

/// Shortens a field name so that a message may repeat it.
pub fn short(name: &str) -> String {
    match name.char_indices().nth(NAME_CHARS_MAX) {
        None => name.to_owned(),
        Some((end, _)) => format!("{}…", name.get(..end).unwrap_or_default()),
    }
}

/// The good fields of a request; the others are recorded as problems.
pub(super) fn object(
    shape: &ValueShape,
    given: Map<String, Value>,
    place: &mut Place<'_>,
) -> Map<String, Value> {
    shape.as_object().map(|object| members(object, given, place)).unwrap_or_default()
}

fn members(
    object: &Object,
    mut given: Map<String, Value>,
    place: &mut Place<'_>,
) -> Map<String, Value> {
    let mut good = Map::new();
    for field in &object.fields {
        let checked = match given.remove(&field.name) {
            Some(value) => place.below(&field.name, |place| one(&field.shape, value, place)),
            None if field.is_required => {
                let message = format!("is required: {}", described(&field.shape));
                place.below(&field.name, |place| place.refuse(FieldErrorKind::Missing, message));
                None
            }
            None => None,
        };
        good.extend(checked.map(|value| (field.name.clone(), value)));
    }
    for (name, value) in given {
        let step = short(&name);
        let checked = match &object.others {
            Some(others) => place.below(&step, |place| one(others, value, place)),
            None => {
                let message = unknown(object, place.is_query());
                place.below(&step, |place| place.refuse(FieldErrorKind::UnknownField, message));
                None
            }
        };
        good.extend(checked.map(|good_value| (name, good_value)));
    }
    good
}

/// The message for an unknown field.
fn unknown(object: &Object, is_query: bool) -> String {
    match (is_query, object.fields.is_empty()) {
        (true, true) => "this route takes no query parameters".to_owned(),
        (true, false) => {
            format!("this route has no such query parameter; it takes {}", object.names())
        }
        (false, true) => "this object takes no fields".to_owned(),
        (false, false) => format!("there is no such field; known fields are {}", object.names()),
    }
}

/// The value if it is good, with whole numbers in integer form.
fn one(shape: &ValueShape, value: Value, place: &mut Place<'_>) -> Option<Value> {
    let kind = match (&shape.kind, value) {
        (FieldKind::Any, value) => return Some(value),
        (_, Value::Null) if shape.is_nullable => return Some(Value::Null),
        (FieldKind::Flag, Value::Bool(flag)) => return Some(Value::Bool(flag)),
        (FieldKind::Integer { min, max }, Value::Number(number)) => {
            match integer(*min, *max, &number) {
                Ok(good) => return Some(good),
                Err(kind) => kind,
            }
        }
        (FieldKind::Number { min, max, format }, Value::Number(number)) => {
            match decimal(*min, *max, *format, &number) {
                Ok(good) => return Some(good),
                Err(kind) => kind,
            }
        }
        (FieldKind::Text(rules), Value::String(text)) => match problem_of_text(rules, &text) {
            None => return Some(Value::String(text)),
            Some(kind) => kind,
        },
        (FieldKind::List { items, min, max }, Value::Array(list)) => match list.len() {
            length if length < *min => FieldErrorKind::TooShort,
            length if length > *max => FieldErrorKind::TooLong,
            _ => return each(items, list, place),
        },
        (FieldKind::Object(object), Value::Object(given)) => {
            let before = place.problems.0.len();
            let good = members(object, given, place);
            return (place.problems.0.len() == before).then_some(Value::Object(good));
        }
        _ => FieldErrorKind::WrongType,
    };
    place.refuse(kind, format!("must be {}", described(shape)));
    None
}

fn each(items: &ValueShape, list: Vec<Value>, place: &mut Place<'_>) -> Option<Value> {
    let count = list.len();
    let mut good = Vec::new();
    for (index, item) in list.into_iter().enumerate() {
        good.extend(place.below(&index.to_string(), |place| one(items, item, place)));
    }
    (good.len() == count).then_some(Value::Array(good))
}

fn integer(min: i64, max: i64, number: &Number) -> Result<Value, FieldErrorKind> {
    let Some(whole) = numbers::whole(number) else {
        let is_whole = number.as_f64().is_some_and(|value| value.fract() == 0.0);
        return Err(if is_whole { FieldErrorKind::OutOfRange } else { FieldErrorKind::WrongType });
    };
    if (min..=max).contains(&whole) {
        Ok(Value::from(whole))
    } else {
        Err(FieldErrorKind::OutOfRange)
    }
}

fn decimal(
    min: f64,
    max: f64,
    format: Option<&ValueFormat>,
    number: &Number,
) -> Result<Value, FieldErrorKind> {
    let value = number.as_f64().ok_or(FieldErrorKind::WrongType)?;
    if !(min..=max).contains(&value) {
        return Err(FieldErrorKind::OutOfRange);
    }
    match format.and_then(|format| (format.problem)(&numbers::digits(number))) {
        None => Ok(numbers::normal(number)),
        Some(kind) => Err(kind),
    }
}

fn problem_of_text(rules: &Text, text: &str) -> Option<FieldErrorKind> {
    // A platform has a second name, which the contract does not list.
    let has_aliases = rules.format.is_some_and(ValueFormat::has_aliases);
    if !rules.words.is_empty() && !has_aliases {
        return (!rules.words.iter().any(|word| word == text))
            .then_some(FieldErrorKind::NotAllowed);
    }
    let length = text.chars().count();
    if length < rules.min {
        return Some(FieldErrorKind::TooShort);
    }
    if length > rules.max {
        return Some(FieldErrorKind::TooLong);
    }
    rules.format.and_then(|format| (format.problem)(text))
}

/// Describes what to send.
fn described(shape: &ValueShape) -> String {
    let words = match &shape.kind {
        FieldKind::Any => "any JSON value".to_owned(),
        FieldKind::Flag => "true or false".to_owned(),
        FieldKind::Integer { min, max } => format!("a whole number {}", span(min, max)),
        FieldKind::Number { format: Some(format), .. } => format.words().to_owned(),
        FieldKind::Number { min, max, format: None } => format!("a number {}", span(min, max)),
        FieldKind::Text(rules) => described_text(rules),
        FieldKind::List { items, min, max } => {
            format!("a list {}, each {}", sized(*min, *max, "item"), described(items))
        }
        FieldKind::Object(object) if object.fields.is_empty() => "a JSON object".to_owned(),
        FieldKind::Object(object) => format!("a JSON object with {}", object.names()),
    };
    if shape.is_nullable { format!("{words}, or null") } else { words }
}

fn described_text(rules: &Text) -> String {
    match (rules.words.as_slice(), rules.format) {
        ([], format) => {
            let words = format.map_or("a string", |format| format.words());
            let has_limits = (rules.min, rules.max) != (0, usize::MAX);
            let limits = has_limits.then(|| sized(rules.min, rules.max, "character"));
            limits.map_or_else(|| words.to_owned(), |limits| format!("{words} {limits}"))
        }
        ([only], _) => format!("\"{only}\""),
        (words, _) => format!("one of {}", words.join(", ")),
    }
}

fn span<N: std::fmt::Display>(min: N, max: N) -> String {
    format!("from {min} to {max}")
}

fn sized(min: usize, max: usize, unit: &str) -> String {
    match (min, max) {
        (_, usize::MAX) => format!("of at least {min} {unit}{}", if min == 1 { "" } else { "s" }),
        (0, _) => format!("of at most {max} {unit}s"),
        _ => format!("of {min} to {max} {unit}s"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn problems(schema: &Value, body: Value) -> Vec<(String, FieldErrorKind, String)> {
        let mut problems = FieldProblems::default();
        let Value::Object(body) = body else { panic!("not an object") };
        object(&ValueShape::of_schema(schema), body, &mut Place::of("body", &mut problems));
        problems.0.into_iter().map(|found| (found.loc.join("."), found.kind, found.msg)).collect()
    }

    fn form() -> Value {
        json!({
            "type": "object", "additionalProperties": false, "required": ["email", "count"],
            "properties": {
                "email": { "type": "string", "format": "email" },
                "count": { "type": "integer", "minimum": 1, "maximum": 9 },
                "scope": { "type": ["string", "null"], "enum": ["full", "read_only", null] },
                "names": { "type": "array", "minItems": 1, "maxItems": 3,
                           "items": { "type": "string", "minLength": 2, "maxLength": 3 } },
                "on": { "type": "boolean" },
            },
        })
    }

    #[test]
    fn every_wrong_field_is_reported_with_what_to_send_instead() {
        let body =
            json!({"count": 10, "scope": "all", "names": ["abc", 7, "x"], "on": 1, "more": 2});

        let found = problems(&form(), body);

        let told: Vec<String> =
            found.iter().map(|(place, kind, text)| format!("{place} {kind}: {text}")).collect();
        assert_eq!(
            told,
            [
                "body.count out_of_range: must be a whole number from 1 to 9",
                "body.email missing: is required: an email address such as ada@example.com, at most 254 ASCII \
                 characters",
                "body.names.1 wrong_type: must be a string of 2 to 3 characters",
                "body.names.2 too_short: must be a string of 2 to 3 characters",
                "body.on wrong_type: must be true or false",
                "body.scope not_allowed: must be one of full, read_only, or null",
                "body.more unknown_field: there is no such field; known fields are count, email, names, on, scope",
            ]
        );
    }

    #[test]
    fn good_fields_are_kept_with_whole_numbers_as_integers() {
        let body =
            json!({"count": 5.0, "email": "ada@example.com", "scope": null, "names": ["ab"]});

        let mut wrong = FieldProblems::default();
        let Value::Object(given) = body else { panic!("not an object") };
        let shape = ValueShape::of_schema(&form());
        let good = object(&shape, given, &mut Place::of("body", &mut wrong));

        assert!(wrong.finish().is_ok());
        let expected =
            json!({"count": 5, "email": "ada@example.com", "scope": null, "names": ["ab"]});
        assert_eq!(Value::Object(good), expected);
    }

    #[test]
    fn a_body_of_junk_gets_a_short_response_with_fifty_problems() {
        let body: Map<String, Value> =
            (0..5_000).map(|index| (format!("{index}{}", "x".repeat(500)), json!(1))).collect();

        let found = problems(&form(), Value::Object(body));

        assert_eq!(found.len(), 50);
        assert!(found.iter().all(|(place, ..)| place.len() < 80), "{found:?}");
    }

    fn values() -> impl Strategy<Value = Value> {
        // What may be a secret in the wrong field.
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            "hush[a-z]{0,300}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 20, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::hash_map("[a-z]{1,6}", inner, 0..5)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn no_message_repeats_a_value_and_each_names_a_field_of_the_body(
            email in prop::option::of(values()), count in prop::option::of(values()),
            scope in prop::option::of(values()), names in prop::option::of(values()),
        ) {
            let given = [("email", email), ("count", count), ("scope", scope), ("names", names)];
            let body: Map<String, Value> = given
                .into_iter()
                .filter_map(|(name, value)| Some((name.to_owned(), value?)))
                .collect();

            for (place, _, message) in problems(&form(), Value::Object(body)) {
                prop_assert!(!message.contains("hush"), "{}: {}", place, message);
                prop_assert!(place.starts_with("body."), "{}", place);
                prop_assert!(message.starts_with("must be ") || message.starts_with("is required: "), "{}", message);
            }
        }

        /// What passes is what the type is read from, so it must keep to the contract.
        #[test]
        fn what_is_kept_keeps_to_the_contract(count in values(), names in values()) {
            let Value::Object(body) = json!({"email": "ada@example.com", "count": count, "names": names}) else {
                return Err(TestCaseError::fail("not an object"));
            };
            let mut wrong = FieldProblems::default();

            let good = object(&ValueShape::of_schema(&form()), body, &mut Place::of("body", &mut wrong));

            if let Some(kept) = good.get("count") {
                prop_assert!(kept.as_i64().is_some_and(|whole| (1..=9).contains(&whole)), "{}", kept);
            }
            if let Some(kept) = good.get("names") {
                let kept = kept.as_array().unwrap();
                let lengths = kept.iter().map(|name| name.as_str().unwrap().chars().count());
                prop_assert!((1..=3).contains(&kept.len()));
                prop_assert!(lengths.into_iter().all(|length| (2..=3).contains(&length)));
            }
            prop_assert_eq!(wrong.finish().is_ok(), good.len() == 3);
        }
    }

    #[test]
    fn a_name_is_shortened_between_characters() {
        assert_eq!(short(&"é".repeat(64)), "é".repeat(64));
        assert_eq!(short(&"é".repeat(65)), format!("{}…", "é".repeat(64)));
        assert_eq!(short(""), "");
    }
}
