//! Local checks of a JSON body, made before a call costs anything.
//!
//! The rules are data of the catalogue; this file says what each kind means. A rule only refuses
//! what the platform is known to refuse: what it cannot judge is left to the platform.

use domain::field_error::FieldErrorKind;
use serde_json::Value;

use crate::FieldProblem;

/// A rule for the body of a route. In a catalogue file its `kind` is the variant's name in snake
/// case.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum BodyRule {
    /// The field must not be sent, at any depth.
    AbsentAnywhere {
        /// Its name.
        field: String,
    },
    /// A number at the top of the body must not be below the minimum. Other types and a missing
    /// field pass.
    AtLeast {
        /// The field's name.
        field: String,
        /// The least value.
        minimum: i64,
        /// The unit of the value, for the message.
        unit: String,
    },
    /// A number at the top of the body must be a whole number: zero, or at least the minimum. A
    /// missing field passes.
    ZeroOrAtLeast {
        /// The field's name.
        field: String,
        /// The least value above zero.
        minimum: i64,
        /// The unit of the value, for the message.
        unit: String,
    },
    /// An element of a list whose bitmask has the flag must carry another field, not empty. What
    /// lies in something else than an object, such as a text, is the platform's to judge.
    FlagRequires {
        /// The list's name, at the top of the body.
        list: String,
        /// The bitmask's name in an element.
        field: String,
        /// The bit.
        flag: u64,
        /// What the element must carry then, as a dotted path.
        requires: String,
    },
}

/// Checks one rule.
pub(crate) fn check(rule: &BodyRule, body: &Value) -> Result<(), FieldProblem> {
    match rule {
        BodyRule::AbsentAnywhere { field } => absent_anywhere(field, body),
        BodyRule::AtLeast { field, minimum, unit } => at_least(field, (*minimum, unit), body),
        BodyRule::ZeroOrAtLeast { field, minimum, unit } => {
            zero_or_at_least(field, (*minimum, unit), body)
        }
        BodyRule::FlagRequires { list, field, flag, requires } => {
            let Some(Value::Array(elements)) = body.get(list) else { return Ok(()) };
            elements.iter().enumerate().try_for_each(|(index, element)| {
                if has_flag(element.get(field), *flag) && !carries(element, requires) {
                    return Err(missing_for_flag(list, index, requires, (field, *flag)));
                }
                Ok(())
            })
        }
    }
}

/// An object or list of a body, and how it is reached.
struct BodyNode<'a> {
    value: &'a Value,
    /// The place it lies in and its name there; nothing for the body itself.
    parent: Option<(usize, MemberName<'a>)>,
}

#[derive(Clone, Copy)]
enum MemberName<'a> {
    Member(&'a str),
    Index(usize),
}

/// Walks the body without recursion and writes the way to a place only when it is needed, so that
/// neither depth nor breadth makes a small body expensive.
fn absent_anywhere(field: &str, body: &Value) -> Result<(), FieldProblem> {
    let mut places = vec![BodyNode { value: body, parent: None }];
    let mut next = 0;
    while let Some(value) = places.get(next).map(|place| place.value) {
        match value {
            Value::Object(members) => {
                if members.contains_key(field) {
                    return Err(FieldProblem {
                        location: location(&places, next, field),
                        message: format!("{field} is read-only: leave it out"),
                        kind: FieldErrorKind::NotAllowed,
                    });
                }
                let nested = members.iter().filter(|(_, member)| is_nested(member));
                places.extend(nested.map(|(name, member)| BodyNode {
                    value: member,
                    parent: Some((next, MemberName::Member(name))),
                }));
            }
            Value::Array(elements) => {
                let nested = elements.iter().enumerate().filter(|(_, element)| is_nested(element));
                places.extend(nested.map(|(index, element)| BodyNode {
                    value: element,
                    parent: Some((next, MemberName::Index(index))),
                }));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
        next += 1;
    }
    Ok(())
}

/// The way from the body to a field of a place.
fn location(places: &[BodyNode<'_>], place: usize, field: &str) -> Vec<String> {
    let mut inside_out = vec![field.to_owned()];
    let mut parent = places.get(place).and_then(|found| found.parent);
    while let Some((above, name)) = parent {
        inside_out.push(match name {
            MemberName::Member(member) => member.to_owned(),
            MemberName::Index(index) => index.to_string(),
        });
        parent = places.get(above).and_then(|found| found.parent);
    }
    inside_out.push("body".to_owned());
    inside_out.reverse();
    inside_out
}

const fn is_nested(value: &Value) -> bool {
    matches!(value, Value::Object(_) | Value::Array(_))
}

fn at_least(field: &str, least: (i64, &str), body: &Value) -> Result<(), FieldProblem> {
    let (minimum, unit) = least;
    match body.get(field).and_then(number) {
        Some(value) if is_below(value, minimum) => Err(FieldProblem {
            location: vec!["body".to_owned(), field.to_owned()],
            message: format!("{field} must be at least {minimum} {unit}"),
            kind: FieldErrorKind::OutOfRange,
        }),
        _ => Ok(()),
    }
}

fn zero_or_at_least(field: &str, least: (i64, &str), body: &Value) -> Result<(), FieldProblem> {
    let (minimum, unit) = least;
    let given = match body.get(field) {
        None | Some(Value::Null) => return Ok(()),
        Some(Value::Number(number)) => {
            number.as_i64().or_else(|| i64::try_from(whole(number.as_f64()?)?).ok())
        }
        Some(Value::String(text)) => text.trim().parse::<i64>().ok(),
        Some(Value::Bool(_) | Value::Array(_) | Value::Object(_)) => None,
    };
    if given.is_some_and(|value| value == 0 || value >= minimum) {
        return Ok(());
    }
    Err(FieldProblem {
        location: vec!["body".to_owned(), field.to_owned()],
        message: format!("{field} must be 0, or a whole number of at least {minimum} {unit}"),
        kind: FieldErrorKind::OutOfRange,
    })
}

/// A JSON number, or a text that is one: platforms take both.
fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

#[expect(clippy::cast_precision_loss, reason = "minimums are prices, far below 2^52")]
fn is_below(value: f64, minimum: i64) -> bool {
    value < minimum as f64
}

fn has_flag(flags: Option<&Value>, flag: u64) -> bool {
    let bits = match flags {
        Some(Value::Number(number)) => number.as_u64().or_else(|| whole(number.as_f64()?)),
        Some(Value::String(text)) => text.trim().parse().ok(),
        _ => None,
    };
    bits.is_some_and(|bits| bits & flag != 0)
}

/// A whole number that was written with a fraction of zero, such as `4.0`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the range is checked before"
)]
fn whole(value: f64) -> Option<u64> {
    let fits = value.fract() == 0.0 && (0.0..=9_007_199_254_740_992.0).contains(&value);
    fits.then_some(value as u64)
}

/// Whether an element has something at a dotted path, or may have: a text may be the object in
/// another form.
fn carries(element: &Value, path: &str) -> bool {
    let mut value = Some(element);
    for name in path.split('.') {
        value = match value {
            Some(Value::Object(members)) => members.get(name),
            other => return other.is_some_and(is_something),
        };
    }
    value.is_some_and(is_something)
}

fn is_something(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::String(text) => !text.trim().is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => true,
    }
}

fn missing_for_flag(list: &str, index: usize, path: &str, flag: (&str, u64)) -> FieldProblem {
    let mut location = vec!["body".to_owned(), list.to_owned(), index.to_string()];
    location.extend(path.split('.').map(str::to_owned));
    let (field, bit) = flag;
    FieldProblem {
        location,
        message: format!("{path} is required where {field} has {bit} set"),
        kind: FieldErrorKind::Missing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn tier() -> BodyRule {
        BodyRule::AbsentAnywhere { field: "amount_netto".to_owned() }
    }

    fn promotion() -> BodyRule {
        BodyRule::AtLeast { field: "price".to_owned(), minimum: 3000, unit: "mills".to_owned() }
    }

    fn upload() -> BodyRule {
        BodyRule::ZeroOrAtLeast {
            field: "price".to_owned(),
            minimum: 300,
            unit: "minor units".to_owned(),
        }
    }

    fn permissions() -> BodyRule {
        BodyRule::FlagRequires {
            list: "permissionFlags".to_owned(),
            field: "flags".to_owned(),
            flag: 4,
            requires: "metadata.subscriptionTierId".to_owned(),
        }
    }

    #[test]
    fn a_forbidden_field_is_found_at_any_depth() {
        let body = json!({"price": 5, "initial_payment_options": [
            {"amount": 1}, {"deeper": {"amount_netto": 4}}
        ]});

        let problem = check(&tier(), &body).unwrap_err();

        let expected = ["body", "initial_payment_options", "1", "deeper", "amount_netto"];
        assert_eq!(problem.location, expected);
        assert!(check(&tier(), &json!({"amount_netto": null})).is_err());
        assert!(check(&tier(), &json!([[{"amount_netto": 1}]])).is_err());
        assert!(check(&tier(), &json!({"amount": 1, "note": "amount_netto"})).is_ok());
    }

    #[test]
    fn a_body_of_great_depth_does_not_exhaust_the_stack() {
        let mut body = json!({"amount_netto": 1});
        for _ in 0..2_000 {
            body = Value::Object(std::iter::once(("inner".to_owned(), body)).collect());
        }

        let problem = check(&tier(), &body).unwrap_err();

        assert_eq!(problem.location.len(), 2_002);
    }

    #[test]
    fn a_price_below_the_minimum_is_refused() {
        for low in [json!(2999), json!(0), json!(-1), json!(2999.999), json!("100"), json!(-1e300)]
        {
            let problem = check(&promotion(), &json!({ "price": low })).unwrap_err();
            assert_eq!(problem.location, ["body", "price"]);
            assert_eq!(problem.message, "price must be at least 3000 mills");
        }
        for other in [json!(3000), json!("3000"), json!(1e300), json!(null), json!("free")] {
            assert!(check(&promotion(), &json!({ "price": other })).is_ok(), "{other}");
        }
        assert!(check(&promotion(), &json!({})).is_ok());
        assert!(check(&promotion(), &json!([1])).is_ok());
    }

    #[test]
    fn an_upload_price_is_zero_or_at_least_the_minimum() {
        for bad in [json!(1), json!(299), json!(-300), json!("299"), json!("three"), json!(300.5)] {
            assert!(check(&upload(), &json!({ "price": bad })).is_err(), "{bad}");
        }
        for good in [json!(0), json!("0"), json!(300), json!("300"), json!(100_000), json!(null)] {
            assert!(check(&upload(), &json!({ "price": good })).is_ok(), "{good}");
        }
        assert!(check(&upload(), &json!({})).is_ok());
    }

    #[test]
    fn a_flag_needs_the_field_it_speaks_of() {
        for flags in [json!(4), json!(6), json!(7), json!("4"), json!(4.0)] {
            let body = json!({"permissionFlags": [{"flags": 1}, {"type": 0, "flags": flags}]});
            let problem = check(&permissions(), &body).unwrap_err();
            assert_eq!(
                problem.location,
                ["body", "permissionFlags", "1", "metadata", "subscriptionTierId"]
            );
        }
        for metadata in [json!({}), json!(null), json!({"subscriptionTierId": ""}), json!(" ")] {
            let body = json!({"permissionFlags": [{"flags": 4, "metadata": metadata}]});
            assert!(check(&permissions(), &body).is_err(), "{body}");
        }
    }

    #[test]
    fn a_flag_with_its_field_and_other_flags_pass() {
        for body in [
            json!({"permissionFlags": [{"flags": 4, "metadata": {"subscriptionTierId": "9"}}]}),
            json!({"permissionFlags": [{"flags": 4, "metadata": {"subscriptionTierId": 9}}]}),
            json!({"permissionFlags": [{"flags": 2}, {"flags": 8}, {"flags": -4}, {}, 4]}),
            json!({"permissionFlags": [{"flags": 4, "metadata": "{\"subscriptionTierId\":\"9\"}"}]}),
            json!({"permissionFlags": [{"flags": 4, "metadata": ["9"]}, 4]}),
            json!({"permissionFlags": 4}),
            json!({}),
        ] {
            assert!(check(&permissions(), &body).is_ok(), "{body}");
        }
    }
}
