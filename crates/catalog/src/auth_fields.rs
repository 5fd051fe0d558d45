//! What a creator's account is connected with: the fields of `auth` for each platform, and their
//! check.

use std::collections::BTreeMap;

use domain::field_error::FieldErrorKind;
use domain::time::Timestamp;
use serde_json::{Map, Value};

use crate::FieldProblem;

/// Checked credentials as texts by field name: a member of an object is `field.member`, a list its
/// entries with spaces between, a time its whole seconds since 1970. Holds secrets: never log it.
pub type AuthValues = BTreeMap<String, String>;

/// One field of `auth`.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuthField {
    /// Its name.
    pub name: String,
    /// What it holds.
    pub kind: AuthKind,
    /// Whether an account cannot be connected without it.
    pub required: bool,
    /// Whether it must never be shown again.
    pub secret: bool,
    /// The longest value, in bytes; of lists and objects, all texts together.
    pub bytes_max: usize,
    /// What it is, in one line.
    pub description: String,
}

/// What a field of `auth` holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuthKind {
    /// A text.
    String,
    /// A point in time: RFC 3339 with a zone, or whole seconds since 1970 as a number or a text.
    Timestamp,
    /// A list of words.
    StringList,
    /// An object of texts.
    StringMap,
}

impl AuthKind {
    /// The word in catalogue files and answers.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Timestamp => "timestamp",
            Self::StringList => "string_list",
            Self::StringMap => "string_map",
        }
    }
}

/// The longest name of a field, in bytes.
const NAME_BYTES_MAX: usize = 64;
/// The longest value that a field may allow, in bytes.
const VALUE_BYTES_MAX: usize = 65_536;

impl AuthField {
    /// The field as a catalogue file declares it, or what is wrong with it.
    pub(crate) fn checked(self) -> Result<Self, String> {
        let name = &self.name;
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(is_letter) {
            return Err(format!(
                "{name:?} is no name of an auth field: it has 1 to {NAME_BYTES_MAX} letters, digits, `_` and `-`"
            ));
        }
        if self.bytes_max == 0 || self.bytes_max > VALUE_BYTES_MAX {
            return Err(format!("{name}: bytes_max is 1 to {VALUE_BYTES_MAX}"));
        }
        Ok(self)
    }
}

/// The last second of the year 9999; larger numbers are milliseconds given by mistake.
const SECONDS_MAX: i64 = 253_402_300_799;
const MEMBERS_MAX: usize = 32;
const MEMBER_NAME_BYTES_MAX: usize = 64;

/// Checks an `auth` object against a platform's fields and reports every problem at once.
pub(crate) fn check(
    fields: &[AuthField],
    auth: &Map<String, Value>,
) -> Result<AuthValues, Vec<FieldProblem>> {
    let mut checked = CheckedAuthFields::default();
    for field in fields {
        match auth.get(&field.name) {
            None | Some(Value::Null) if field.required => {
                checked.problem(
                    &[&field.name],
                    FieldErrorKind::Missing,
                    format!("{} is required", field.name),
                );
            }
            None | Some(Value::Null) => {}
            Some(value) => checked.field(field, value),
        }
    }
    for name in auth.keys().filter(|name| fields.iter().all(|field| field.name != **name)) {
        checked.problem(&[name], FieldErrorKind::UnknownField, unknown_field(fields));
    }
    if checked.problems.is_empty() { Ok(checked.values) } else { Err(checked.problems) }
}

fn unknown_field(fields: &[AuthField]) -> String {
    if fields.is_empty() {
        return "this platform needs no credentials: leave it out".to_owned();
    }
    let known: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
    format!("this platform has no such field; it has {}", known.join(", "))
}

#[derive(Default)]
struct CheckedAuthFields {
    values: AuthValues,
    problems: Vec<FieldProblem>,
}

impl CheckedAuthFields {
    fn problem(&mut self, below_auth: &[&str], kind: FieldErrorKind, message: String) {
        let mut location = vec!["body".to_owned(), "auth".to_owned()];
        location.extend(below_auth.iter().map(|name| (*name).to_owned()));
        self.problems.push(FieldProblem { location, message, kind });
    }

    fn field(&mut self, field: &AuthField, value: &Value) {
        match field.kind {
            AuthKind::String => self.string(field, value),
            AuthKind::Timestamp => self.timestamp(field, value),
            AuthKind::StringList => self.list(field, value),
            AuthKind::StringMap => self.map(field, value),
        }
    }

    fn string(&mut self, field: &AuthField, value: &Value) {
        let location = [field.name.as_str()];
        let Value::String(text) = value else {
            return self.problem(
                &location,
                FieldErrorKind::WrongType,
                "must be a string".to_owned(),
            );
        };
        if self.is_usable(&location, text) && self.is_short(field, text.len()) {
            self.values.insert(field.name.clone(), text.clone());
        }
    }

    fn timestamp(&mut self, field: &AuthField, value: &Value) {
        let seconds = match value {
            Value::Number(number) => number.as_i64().ok_or(FieldErrorKind::BadFormat),
            Value::String(text) if text.len() <= field.bytes_max => text
                .parse::<i64>()
                .ok()
                .or_else(|| Timestamp::from_rfc3339(text).map(Timestamp::unix_seconds))
                .ok_or(FieldErrorKind::BadFormat),
            Value::String(_) => Err(FieldErrorKind::TooLong),
            _ => Err(FieldErrorKind::WrongType),
        };
        let is_in_range = |known: &i64| (0..=SECONDS_MAX).contains(known);
        let seconds = seconds
            .and_then(|known| Some(known).filter(is_in_range).ok_or(FieldErrorKind::OutOfRange));
        match seconds {
            Ok(seconds) => {
                self.values.insert(field.name.clone(), seconds.to_string());
            }
            Err(kind) => self.problem(
                &[&field.name],
                kind,
                "must be a time: RFC 3339 with a zone, or whole seconds since 1970".to_owned(),
            ),
        }
    }

    fn list(&mut self, field: &AuthField, value: &Value) {
        let Value::Array(entries) = value else {
            return self.problem(
                &[&field.name],
                FieldErrorKind::WrongType,
                "must be a list of strings".to_owned(),
            );
        };
        let mut words = Vec::new();
        for (index, entry) in entries.iter().enumerate() {
            let index = index.to_string();
            let location = [field.name.as_str(), index.as_str()];
            match entry {
                Value::String(text) if text.contains(' ') => {
                    self.problem(
                        &location,
                        FieldErrorKind::BadFormat,
                        "must not have spaces".to_owned(),
                    );
                }
                Value::String(text) if self.is_usable(&location, text) => words.push(text.as_str()),
                Value::String(_) => {}
                _ => self.problem(
                    &location,
                    FieldErrorKind::WrongType,
                    "must be a string".to_owned(),
                ),
            }
        }
        let joined = words.join(" ");
        if self.is_short(field, joined.len()) {
            self.values.insert(field.name.clone(), joined);
        }
    }

    fn map(&mut self, field: &AuthField, value: &Value) {
        let Value::Object(members) = value else {
            let message = "must be an object whose values are strings".to_owned();
            return self.problem(&[&field.name], FieldErrorKind::WrongType, message);
        };
        if members.len() > MEMBERS_MAX {
            let message = format!("must have at most {MEMBERS_MAX} members");
            return self.problem(&[&field.name], FieldErrorKind::TooLong, message);
        }
        let bytes = members.iter().map(|(name, member)| name.len() + text_bytes(member)).sum();
        if !self.is_short(field, bytes) {
            return;
        }
        for (name, member) in members {
            let location = [field.name.as_str(), name.as_str()];
            if !is_member_name(name) {
                let message = "a name is 1 to 64 letters, digits, _ or -".to_owned();
                self.problem(&location, FieldErrorKind::BadFormat, message);
                continue;
            }
            match member {
                Value::String(text) if self.is_usable(&location, text) => {
                    self.values.insert(format!("{}.{name}", field.name), text.clone());
                }
                Value::String(_) => {}
                _ => self.problem(
                    &location,
                    FieldErrorKind::WrongType,
                    "must be a string".to_owned(),
                ),
            }
        }
    }

    /// Values become header lines: what could end a line or hide in one is refused.
    fn is_usable(&mut self, location: &[&str], text: &str) -> bool {
        if text.is_empty() {
            self.problem(location, FieldErrorKind::TooShort, "must not be empty".to_owned());
            return false;
        }
        if text.chars().any(char::is_control) {
            let message = "must not have control characters".to_owned();
            self.problem(location, FieldErrorKind::BadFormat, message);
            return false;
        }
        true
    }

    fn is_short(&mut self, field: &AuthField, bytes: usize) -> bool {
        if bytes <= field.bytes_max {
            return true;
        }
        let message = format!("must be at most {} bytes", field.bytes_max);
        self.problem(&[&field.name], FieldErrorKind::TooLong, message);
        false
    }
}

fn text_bytes(value: &Value) -> usize {
    value.as_str().map_or(0, str::len)
}

/// Header templates name members, so their names are plain.
fn is_member_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (1..=MEMBER_NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use domain::platform::Platform;
    use serde_json::json;

    use super::*;
    use crate::Catalog;

    fn check(platform: Platform, auth: Value) -> Result<AuthValues, Vec<(String, FieldErrorKind)>> {
        let Value::Object(auth) = auth else { panic!("not an object") };
        Catalog::built_in().unwrap().platform(platform).check_auth(&auth).map_err(|problems| {
            problems.into_iter().map(|found| (found.location.join("."), found.kind)).collect()
        })
    }

    fn gamma(auth: Value) -> Vec<(String, FieldErrorKind)> {
        check(Platform::GAMMA, auth).unwrap_err()
    }

    fn expires_at(value: &Value) -> Option<String> {
        let auth = json!({"access_token": "t", "expires_at": value});
        check(Platform::DELTA, auth).ok().and_then(|mut values| values.remove("expires_at"))
    }

    #[test]
    fn good_credentials_become_flat_texts() {
        let alpha = check(
            Platform::ALPHA,
            json!({"user_id": "7", "session_token": "s", "user_agent": null, "extra": {"bc_id": "x y"}}),
        );
        let delta = check(
            Platform::DELTA,
            json!({"access_token": "t", "expires_at": "2026-11-21T05:13:42+01:00",
                   "scopes": ["read:chat", "write:chat"]}),
        );

        let pairs = |values: AuthValues| values.into_iter().collect::<Vec<_>>();
        let text = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            pairs(alpha.unwrap()),
            [text("extra.bc_id", "x y"), text("session_token", "s"), text("user_id", "7")]
        );
        assert_eq!(
            pairs(delta.unwrap()),
            [
                text("access_token", "t"),
                text("expires_at", "1795234422"),
                text("scopes", "read:chat write:chat")
            ]
        );
    }

    #[test]
    fn every_problem_is_reported_at_once() {
        let problems = gamma(json!({"token": "a\r\nb", "resource": 7, "base_url": "http://evil"}));

        assert_eq!(
            problems,
            [
                ("body.auth.token".to_owned(), FieldErrorKind::BadFormat),
                ("body.auth.resource".to_owned(), FieldErrorKind::WrongType),
                ("body.auth.account_id".to_owned(), FieldErrorKind::Missing),
                ("body.auth.base_url".to_owned(), FieldErrorKind::UnknownField),
            ]
        );
    }

    #[test]
    fn texts_that_could_end_a_header_line_are_refused() {
        for bad in ["a\r", "a\n", "\0", "a\tb", "\u{7f}", "a\u{85}"] {
            let problems = gamma(json!({"token": bad, "resource": "r", "account_id": "a"}));
            assert_eq!(
                problems,
                [("body.auth.token".to_owned(), FieldErrorKind::BadFormat)],
                "{bad:?}"
            );
        }
        let problems = gamma(json!({"token": "", "resource": "r", "account_id": "a"}));
        assert_eq!(problems, [("body.auth.token".to_owned(), FieldErrorKind::TooShort)]);
    }

    #[test]
    fn the_longest_value_is_counted_in_bytes() {
        let auth = |token: String| json!({"token": token, "resource": "r", "account_id": "a"});

        assert!(check(Platform::GAMMA, auth("x".repeat(8192))).is_ok());
        assert_eq!(gamma(auth("x".repeat(8193)))[0].1, FieldErrorKind::TooLong);
        assert_eq!(gamma(auth("é".repeat(4097)))[0].1, FieldErrorKind::TooLong);
    }

    #[test]
    fn times_are_rfc3339_or_seconds() {
        for good in [json!(1_795_234_422), json!("1795234422"), json!("2026-11-21T04:13:42Z")] {
            assert_eq!(expires_at(&good).as_deref(), Some("1795234422"), "{good}");
        }
        for bad in [
            json!(1_795_234_422_000_i64),
            json!(-1),
            json!(1.5),
            json!(true),
            json!(""),
            json!("tomorrow"),
            json!("2026-11-21T04:13:42"),
            json!(["2026-11-21T04:13:42Z"]),
        ] {
            assert_eq!(expires_at(&bad), None, "{bad}");
        }
    }

    #[test]
    fn lists_and_objects_are_checked_entry_by_entry() {
        let scopes = |value: Value| {
            check(Platform::DELTA, json!({"access_token": "t", "scopes": value})).unwrap_err()
        };
        let extra = |value: Value| {
            let auth = json!({"user_id": "7", "session_token": "s", "extra": value});
            check(Platform::ALPHA, auth).unwrap_err()
        };
        let many: Map<String, Value> =
            (0..33).map(|index| (format!("n{index}"), json!("v"))).collect();

        assert_eq!(
            scopes(json!("read:chat")),
            [("body.auth.scopes".to_owned(), FieldErrorKind::WrongType)]
        );
        assert_eq!(
            scopes(json!(["a", "b c", 7, ""])),
            [
                ("body.auth.scopes.1".to_owned(), FieldErrorKind::BadFormat),
                ("body.auth.scopes.2".to_owned(), FieldErrorKind::WrongType),
                ("body.auth.scopes.3".to_owned(), FieldErrorKind::TooShort),
            ]
        );
        assert_eq!(
            extra(json!(["a"])),
            [("body.auth.extra".to_owned(), FieldErrorKind::WrongType)]
        );
        assert_eq!(
            extra(json!({"a b": "c"})),
            [("body.auth.extra.a b".to_owned(), FieldErrorKind::BadFormat)]
        );
        assert_eq!(
            extra(json!({"a": 7})),
            [("body.auth.extra.a".to_owned(), FieldErrorKind::WrongType)]
        );
        assert_eq!(extra(json!({"a": "\n"}))[0].1, FieldErrorKind::BadFormat);
        assert_eq!(extra(json!({"a": "x".repeat(8192)}))[0].1, FieldErrorKind::TooLong);
        assert_eq!(extra(Value::Object(many))[0].1, FieldErrorKind::TooLong);
    }

    #[test]
    fn a_list_without_entries_says_that_nothing_was_granted() {
        let values = check(Platform::DELTA, json!({"access_token": "t", "scopes": []})).unwrap();

        assert_eq!(values.get("scopes").map(String::as_str), Some(""));
    }
}
