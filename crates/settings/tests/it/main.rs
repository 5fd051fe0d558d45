//! The configuration as an operator writes it: every key with wrong values, in a file and in the
//! environment.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that meets what it does not expect must fail"
)]

mod addresses;
mod declarations;
mod environment;
mod files;
mod limits;
mod offers;
mod types;

use settings::{Config, UnreadableConfig};

/// The problems of a configuration: their keys, and what is said of them.
fn problems(toml: &str) -> Vec<(String, String)> {
    let found = match Config::from_toml(toml) {
        Ok(config) => config.all_problems(),
        Err(UnreadableConfig::Values(problems)) => problems,
        Err(other) => panic!("{toml}: {other}"),
    };
    found.into_iter().map(|problem| (problem.key, problem.message)).collect()
}

/// What is said of one key; nothing if it is right.
fn said(toml: &str, key: &str) -> Option<String> {
    problems(toml).into_iter().find(|(found, _)| found == key).map(|(_, message)| message)
}

/// Every key of the default file that is no table, with its value.
fn default_keys() -> Vec<(String, toml::Value)> {
    fn walk(table: &toml::Table, above: &str, all: &mut Vec<(String, toml::Value)>) {
        for (key, value) in table {
            let path = if above.is_empty() { key.clone() } else { format!("{above}.{key}") };
            match value {
                toml::Value::Table(inner) => walk(inner, &path, all),
                other => all.push((path, other.clone())),
            }
        }
    }
    let mut all = Vec::new();
    walk(&settings::DEFAULT_TOML.parse().unwrap(), "", &mut all);
    all
}
