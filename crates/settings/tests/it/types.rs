//! Values of another kind: each is refused under its key, with what it must be, and never repeated.

use std::collections::BTreeSet;

use toml::Value;

use crate::{default_keys, problems, said};

/// Values of every kind; none of them may stand in a message.
const VALUES: [(&str, &str); 6] = [
    ("whole", "987654"),
    ("number", "98765.25"),
    ("truth", "true"),
    ("text", "\"hunter2\""),
    ("list", "[[987654]]"),
    ("date", "1987-06-05"),
];

/// The kinds that a key takes, judging by its default.
fn taken(key: &str, default: &Value) -> &'static [&'static str] {
    match default {
        // An envelope is switched on or described.
        Value::Boolean(_) => &["truth"],
        Value::Integer(_) => &["whole"],
        Value::Float(_) => &["whole", "number"],
        Value::String(_) => &["text", "date"],
        Value::Array(_) => &["list"],
        other => panic!("{key}: {other}"),
    }
}

/// So many keys are wrong in one configuration: fewer than are reported at most.
const AT_ONCE: usize = 60;

/// The keys, but of only one platform: those of the others are the same.
fn keys() -> Vec<(String, Value)> {
    let is_other = |key: &str| {
        ["beta", "gamma", "delta"]
            .iter()
            .any(|name| key.starts_with(&format!("platforms.platform_{name}")))
    };
    // A platform that extends something wrong is not looked at further.
    let is_own = |key: &str| !is_other(key) && !key.ends_with(".extends");
    default_keys().into_iter().filter(|(key, _)| is_own(key)).collect()
}

/// What is said of each of these keys with this value; nothing if it is taken.
fn said_of_each(keys: &[String], value: &str) -> Vec<(String, Option<String>)> {
    let chunks = keys.chunks(AT_ONCE).flat_map(|keys| {
        let toml: Vec<String> = keys.iter().map(|key| format!("{key} = {value}\n")).collect();
        let found = problems(&toml.concat());
        let message = move |key: &String| {
            let said = found.iter().find(|(wrong, _)| wrong == key);
            (key.clone(), said.map(|(_, message)| message.clone()))
        };
        keys.iter().map(message).collect::<Vec<_>>()
    });
    chunks.collect()
}

#[test]
fn a_value_of_another_kind_is_refused_under_its_key_and_never_repeated() {
    let keys = keys();
    let mut missed = Vec::new();
    for (kind, value) in VALUES {
        let wrong = keys.iter().filter(|(key, default)| !taken(key, default).contains(&kind));
        let wrong: Vec<String> = wrong.map(|(key, _)| key.clone()).collect();
        for (key, message) in said_of_each(&wrong, value) {
            match message {
                Some(message) if message.starts_with("must ") => {
                    let repeats = message.contains("98765") || message.contains("hunter2");
                    assert!(!repeats, "{key}: {message}");
                }
                other => missed.push(format!("{key} = {value}: {other:?}")),
            }
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn each_kind_is_asked_for_in_words() {
    let example = "; config/default.toml has an example";
    for (toml, key, expected) in [
        ("credits.read = 1.5", "credits.read", "must be a whole number".to_owned()),
        ("credits.read = true", "credits.read", "must be a whole number".to_owned()),
        ("credits.read = \"1.5\"", "credits.read", "must be a whole number".to_owned()),
        ("processor.livemode = 1", "processor.livemode", format!("must be true or false{example}")),
        (
            "processor.livemode = 0.0",
            "processor.livemode",
            format!("must be true or false{example}"),
        ),
        (
            "mail.password = 1e5",
            "mail.password",
            format!("must be a text or one of the listed words{example}"),
        ),
        (
            "brand.name = true",
            "brand.name",
            format!("must be a text or one of the listed words{example}"),
        ),
        (
            "platforms.platform_alpha.pacing.reads.per_second = true",
            "platforms.platform_alpha.pacing.reads.per_second",
            format!("must be a number{example}"),
        ),
        (
            "platforms.platform_alpha.envelope = 1",
            "platforms.platform_alpha.envelope",
            format!("must be true, false or a table{example}"),
        ),
        (
            "platforms.platform_alpha.headers = [{ name = 5, value = \"a\" }]",
            "platforms.platform_alpha.headers[0].name",
            format!("must be a text or one of the listed words{example}"),
        ),
        (
            "platforms.platform_alpha.extends = [1]",
            "platforms.platform_alpha.extends",
            format!("must be a text or one of the listed words{example}"),
        ),
        (
            "packs = [{ id = \"a\", name = \"A\", credits = 1.5, price_cents = 100 }]",
            "packs[0].credits",
            "must be a whole number".to_owned(),
        ),
    ] {
        assert_eq!(said(toml, key), Some(expected), "{toml}");
    }
}

#[test]
fn what_is_written_as_text_in_the_environment_is_read_by_its_field() {
    for (toml, key) in [
        ("credits.read = \"3\"", "credits.read"),
        ("processor.livemode = \"false\"", "processor.livemode"),
        (
            "platforms.platform_alpha.pacing.reads.per_second = \"0.5\"",
            "platforms.platform_alpha.pacing",
        ),
        ("mail.password = \"1e5\"", "mail.password"),
    ] {
        assert_eq!(said(toml, key), None, "{toml}");
    }
}

#[test]
fn several_values_of_other_kinds_are_reported_together_with_what_else_is_wrong() {
    let toml = "credits.read = 1.5\ncredits.write = 0\nbilling.tax.automatic = 5\nhttp.listn = 1";

    let mut keys: Vec<String> = problems(toml).into_iter().map(|(key, _)| key).collect();

    keys.sort_unstable();
    assert_eq!(keys, ["billing.tax.automatic", "credits.read", "credits.write", "http.listn"]);
}

#[test]
fn a_table_is_no_value() {
    let keys = keys();
    let tables: BTreeSet<String> = keys
        .iter()
        .filter_map(|(key, _)| key.rsplit_once('.'))
        .map(|(table, _)| table.to_owned())
        .filter(|table| !table.starts_with("slots."))
        .collect();
    // The innermost only: a table within one that is wrong cannot be looked at.
    let is_innermost = |table: &&String| {
        let within = format!("{table}.");
        tables.iter().all(|other| !other.starts_with(&within))
    };
    let innermost: Vec<String> = tables.iter().filter(is_innermost).cloned().collect();
    assert!(innermost.len() > 30, "{innermost:?}");
    for value in ["5", "\"hunter2\"", "true"] {
        for (table, message) in said_of_each(&innermost, value) {
            let message = message.unwrap_or_else(|| panic!("{table} = {value} is taken"));
            assert!(message.starts_with("must be"), "{table}: {message}");
            assert!(!message.contains("hunter2"), "{table}: {message}");
        }
    }
}

#[test]
fn a_key_that_is_written_almost_right_is_unknown_and_the_right_one_suggested() {
    let keys = keys();
    let names = keys.iter().filter(|(key, _)| key.contains('.') && !key.starts_with("slots."));
    let misspelt: Vec<String> = names.map(|(key, _)| format!("{key}x")).collect();
    for (key, message) in said_of_each(&misspelt, "1") {
        let message = message.unwrap_or_else(|| panic!("{key} is taken"));
        assert!(message.starts_with("is unknown; did you mean `"), "{key}: {message}");
    }
}

#[test]
fn numbers_beyond_what_can_be_counted_are_refused_by_name() {
    let keys = keys();
    let numbers = keys.iter().filter(|(_, default)| matches!(default, Value::Integer(_)));
    let numbers: Vec<String> = numbers.map(|(key, _)| key.clone()).collect();
    for value in ["\"99999999999999999999999\"", "\"-99999999999999999999999\""] {
        for (key, message) in said_of_each(&numbers, value) {
            assert_eq!(message.as_deref(), Some("is negative or too large"), "{key} = {value}");
        }
    }
}
