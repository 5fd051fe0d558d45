//! What is checked of the credentials of an operator's own platform.

use catalog::{AuthValues, FieldProblem};
use domain::field_error::FieldErrorKind::{
    self, BadFormat, Missing, OutOfRange, TooLong, TooShort, UnknownField, WrongType,
};
use serde_json::{Map, Value, json};

use crate::platform_file::read;

const FIELDS: &str = r#"
    auth_fields = [
        { name = "token", kind = "string", required = true, secret = true, bytes_max = 8, description = "" },
        { name = "until", kind = "timestamp", required = false, secret = false, bytes_max = 30, description = "" },
        { name = "scopes", kind = "string_list", required = false, secret = false, bytes_max = 9, description = "" },
        { name = "extra", kind = "string_map", required = false, secret = true, bytes_max = 100, description = "" },
    ]
"#;

fn check(fields: &str, auth: Value) -> Result<AuthValues, Vec<FieldProblem>> {
    let Value::Object(auth) = auth else { panic!("not an object: {auth}") };
    read(fields).check_auth(&auth)
}

/// Checks a good token beside another field.
fn with(field: &str, value: Value) -> Result<AuthValues, Vec<FieldProblem>> {
    let mut auth = json!({"token": "s3cr3t"});
    auth[field] = value;
    check(FIELDS, auth)
}

#[test]
fn a_problem_says_where_it_is_and_what_is_right_and_never_what_was_sent() {
    let time = "must be a time: RFC 3339 with a zone, or whole seconds since 1970";
    let known = "this platform has no such field; it has token, until, scopes, extra";
    let cases: [(Value, &str, FieldErrorKind, &str); 13] = [
        (json!({}), "token", Missing, "token is required"),
        (json!({"token": null}), "token", Missing, "token is required"),
        (json!({"token": ["s3cr3t"]}), "token", WrongType, "must be a string"),
        (json!({"token": ""}), "token", TooShort, "must not be empty"),
        (json!({"token": "s3cr3t\n"}), "token", BadFormat, "must not have control characters"),
        (json!({"token": "s3cr3t_long"}), "token", TooLong, "must be at most 8 bytes"),
        (json!({"token": "t", "until": "s3cr3t"}), "until", BadFormat, time),
        (json!({"token": "t", "until": "s3cr3t".repeat(9)}), "until", TooLong, time),
        (
            json!({"token": "t", "scopes": "s3cr3t"}),
            "scopes",
            WrongType,
            "must be a list of strings",
        ),
        (
            json!({"token": "t", "scopes": ["s3cr3t x"]}),
            "scopes.0",
            BadFormat,
            "must not have spaces",
        ),
        (
            json!({"token": "t", "extra": "s3cr3t"}),
            "extra",
            WrongType,
            "must be an object whose values are strings",
        ),
        (
            json!({"token": "t", "extra": {"a": {"b": "s3cr3t"}}}),
            "extra.a",
            WrongType,
            "must be a string",
        ),
        (json!({"token": "t", "Token": "s3cr3t"}), "Token", UnknownField, known),
    ];
    for (auth, place, kind, message) in cases {
        let problems = check(FIELDS, auth.clone()).unwrap_err();

        let told: Vec<_> = problems
            .iter()
            .map(|one| (one.location.join("."), one.kind, one.message.as_str()))
            .collect();
        assert_eq!(told, [(format!("body.auth.{place}"), kind, message)], "{auth}");
        assert!(!format!("{problems:?}").contains("s3cr3t"), "{problems:?}");
    }
}

#[test]
fn every_wrong_field_is_told_at_once_in_the_order_of_the_catalogue() {
    let auth =
        json!({"zzz": 1, "until": true, "scopes": [1, "a", ""], "extra": {"": "x", "b": "\t"}});

    let problems = check(FIELDS, auth).unwrap_err();

    let places: Vec<(String, FieldErrorKind)> =
        problems.into_iter().map(|one| (one.location[2..].join("."), one.kind)).collect();
    let expected = [
        ("token", Missing),
        ("until", WrongType),
        ("scopes.0", WrongType),
        ("scopes.2", TooShort),
        ("extra.", BadFormat),
        ("extra.b", BadFormat),
        ("zzz", UnknownField),
    ];
    assert_eq!(places, expected.map(|(place, kind)| (place.to_owned(), kind)));
}

#[test]
fn a_platform_without_credentials_asks_for_none_and_says_so() {
    assert_eq!(check("", json!({})), Ok(AuthValues::new()));

    let problems = check("", json!({"token": "t"})).unwrap_err();

    assert_eq!(problems[0].location, ["body", "auth", "token"]);
    assert_eq!(problems[0].message, "this platform needs no credentials: leave it out");
}

#[test]
fn values_are_measured_in_bytes_at_their_very_limit() {
    assert!(check(FIELDS, json!({"token": "éééé"})).is_ok());
    assert_eq!(check(FIELDS, json!({"token": "ééééé"})).unwrap_err()[0].kind, TooLong);
    assert_eq!(with("scopes", json!(["abcd", "efgh"])).unwrap()["scopes"], "abcd efgh");
    assert_eq!(with("scopes", json!(["abcd", "efghi"])).unwrap_err()[0].kind, TooLong);
    assert!(with("extra", json!({"name": "x".repeat(96)})).is_ok());
    assert_eq!(with("extra", json!({"name": "x".repeat(97)})).unwrap_err()[0].kind, TooLong);
}

#[test]
fn an_object_has_at_most_32_members_with_plain_names() {
    let members = |count: usize| -> Map<String, Value> {
        (0..count).map(|at| (format!("{at}"), json!("v"))).collect()
    };
    assert_eq!(with("extra", Value::Object(members(32))).unwrap().len(), 33);
    let too_many = with("extra", Value::Object(members(33))).unwrap_err();
    assert_eq!(too_many[0].message, "must have at most 32 members");
    for (name, is_good) in [
        ("x-bc_ID9", true),
        (&"n".repeat(64), true),
        (&"n".repeat(65), false),
        ("", false),
        ("a.b", false),
        ("a b", false),
        ("é", false),
    ] {
        let checked = with("extra", json!({ name: "v" }));

        let message = checked.err().map(|mut problems| problems.remove(0).message);
        let expected = "a name is 1 to 64 letters, digits, _ or -".to_owned();
        assert_eq!(message, (!is_good).then_some(expected), "{name}");
    }
}

#[test]
fn times_are_kept_as_seconds_up_to_the_end_of_the_year_9999() {
    for (given, kept) in [
        (json!(0), "0"),
        (json!("1970-01-01T00:00:00Z"), "0"),
        (json!("1970-01-01T01:00:00+01:00"), "0"),
        (json!(253_402_300_799_i64), "253402300799"),
        (json!("9999-12-30T00:00:00Z"), "253402128000"),
    ] {
        assert_eq!(with("until", given.clone()).unwrap()["until"], kept, "{given}");
    }
    for (given, kind) in [
        (json!(253_402_300_800_i64), OutOfRange),
        (json!("-1"), OutOfRange),
        (json!("1969-12-31T23:59:59Z"), OutOfRange),
        (json!(u64::MAX), BadFormat),
        (json!(1.5), BadFormat),
        (json!("2026-02-30T00:00:00Z"), BadFormat),
        (json!({}), WrongType),
    ] {
        assert_eq!(with("until", given.clone()).unwrap_err()[0].kind, kind, "{given}");
    }
}

#[test]
fn what_is_null_is_as_good_as_left_out() {
    let auth = json!({"token": "t", "until": null, "scopes": null, "extra": null});

    let values = check(FIELDS, auth).unwrap();

    assert_eq!(values.into_iter().collect::<Vec<_>>(), [("token".to_owned(), "t".to_owned())]);
}
