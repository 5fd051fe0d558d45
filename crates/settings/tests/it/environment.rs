//! Environment variables over a file: every key has one, and a problem says which one it was.

use std::path::Path;

use secrecy::ExposeSecret as _;
use settings::{Config, ENVIRONMENT_PREFIX, UnreadableConfig};

use crate::default_keys;

fn variable(key: &str) -> String {
    format!("{ENVIRONMENT_PREFIX}__{}", key.replace('.', "__").to_uppercase())
}

fn load(file: Option<&Path>, variables: &[(String, &str)]) -> Result<Config, UnreadableConfig> {
    let owned = variables.iter().map(|(name, value)| (name.clone(), (*value).to_owned()));
    Config::load_with(file, owned.collect::<Vec<_>>())
}

/// The problems with where each was set, as an operator reads them.
fn shown(file: Option<&Path>, variables: &[(String, &str)]) -> Vec<String> {
    let problems = match load(file, variables) {
        Ok(config) => config.all_problems(),
        Err(UnreadableConfig::Values(problems)) => problems,
        Err(other) => panic!("{other}"),
    };
    problems.iter().map(ToString::to_string).collect()
}

#[test]
fn every_key_of_the_default_file_has_a_variable() {
    for (key, value) in default_keys() {
        let name = variable(&key);
        // What is in the file already, written as an operator would.
        let text = match &value {
            toml::Value::String(text) if text.is_empty() => continue,
            toml::Value::String(text) => text.clone(),
            other => other.to_string(),
        };

        let config =
            load(None, &[(name.clone(), &text)]).unwrap_or_else(|error| panic!("{name}: {error}"));

        let (read, usual) =
            (config.to_toml().unwrap(), Config::from_toml("").unwrap().to_toml().unwrap());
        assert_eq!(read, usual, "{name}={text}");
    }
}

#[test]
fn a_value_that_a_variable_sets_is_refused_with_the_name_of_the_variable() {
    for (key, value, message) in [
        ("credits.read", "0", "must be 1 to 1,000,000"),
        ("credits.read", "one", "must be a whole number"),
        ("credits.read", "1.5", "must be a whole number"),
        (
            "processor.livemode",
            "perhaps",
            "must be true or false; config/default.toml has an example",
        ),
        ("http.listen", "8080", "must be an address with a port, such as 127.0.0.1:8080"),
        (
            "log.format",
            "xml",
            "is \"xml\", which is not one of the words listed in config/default.toml",
        ),
        (
            "admin.token",
            "a b",
            "must be empty or visible ASCII without spaces: it is sent in a header",
        ),
        ("http.timeouts.head_ms", "0", "must be 1 to 86,400,000"),
    ] {
        let name = variable(key);

        let shown = shown(None, &[(name.clone(), value)]);

        assert_eq!(shown, [format!("{key} ({name}): {message}")], "{value}");
    }
}

#[test]
fn a_variable_that_names_no_key_is_refused_and_one_of_others_is_not_looked_at() {
    let unknown = |name: &str| shown(None, &[(name.to_owned(), "x")]);

    assert_eq!(
        unknown("CREATOR_GATEWAY__HTTP__LISTN"),
        ["CREATOR_GATEWAY__HTTP__LISTN: is unknown; did you mean `CREATOR_GATEWAY__HTTP__LISTEN`?"]
    );
    assert_eq!(unknown("CREATOR_GATEWAY__HTTP").len(), 1);
    assert_eq!(unknown("CREATOR_GATEWAY__HTTP__LISTEN__PORT").len(), 1);
    assert_eq!(unknown("CREATOR_GATEWAY__http__listen").len(), 1);
    for other in ["CREATOR_GATEWAY_FAIL_POINT", "CREATOR_GATEWAY", "PATH", "creator_gateway__x", ""]
    {
        assert_eq!(unknown(other), [""; 0], "{other}");
    }
}

#[test]
fn an_empty_variable_counts_as_not_set() {
    let config =
        load(None, &[(variable("http.listen"), ""), (variable("nobody.knows"), "")]).unwrap();

    assert_eq!(config.http.listen.to_string(), "127.0.0.1:8080");
}

#[test]
fn lists_are_written_with_commas_or_as_in_the_file() {
    let hosts = |text: &str| {
        load(None, &[(variable("http.allowed_hosts"), text)]).unwrap().http.allowed_hosts
    };

    assert_eq!(hosts("a.example"), ["a.example"]);
    assert_eq!(hosts(" a.example , b.example,, "), ["a.example", "b.example"]);
    assert_eq!(hosts(" [\"a.example\", \"b.example\"] "), ["a.example", "b.example"]);
    assert_eq!(hosts(","), [""; 0]);
    let packs = "[{ id = \"a\", name = \"A\", credits = 5, price_cents = 100 }]";
    assert_eq!(load(None, &[(variable("packs"), packs)]).unwrap().packs[0].credits, 5);
    let name = variable("secrets.master_keys");
    for broken in ["[\"hunter2\"", "[hunter2]"] {
        let shown = shown(None, &[(name.clone(), broken)]);

        assert_eq!(shown, [format!("{name}: must be a list such as [\"a\", \"b\"]")], "{broken}");
    }
}

#[test]
fn a_secret_that_looks_like_a_number_stays_as_it_is() {
    for text in ["0012", "1e5", "+7", "0x10", "true", "1_000", "\"quoted\"", "a,b", "[x]"] {
        let config = load(None, &[(variable("mail.password"), text)]).unwrap();

        assert_eq!(config.mail.password.expose_secret(), text);
    }
}

#[test]
fn a_variable_wins_over_the_file_and_the_problem_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gateway.toml");
    std::fs::write(&path, "[credits]\nread = 0\n\nwrite = 0\n").unwrap();
    let name = variable("credits.read");

    let right = shown(Some(&path), &[(name.clone(), "3")]);
    let wrong = shown(Some(&path), &[(name.clone(), "-1")]);

    let range = "must be 1 to 1,000,000";
    assert_eq!(right, [format!("credits.write (line 4): {range}")]);
    let expected =
        [format!("credits.read ({name}): {range}"), format!("credits.write (line 4): {range}")];
    assert_eq!(wrong, expected);
}
