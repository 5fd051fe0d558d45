//! Environment variables over defaults and file: one for each key of the default file, named after
//! the key.
//!
//! Values stay text until a field reads them, so a secret such as `0012` or `1e5` is never parsed
//! as a number and written back differently.

use std::collections::BTreeMap;

use config::ConfigError;

use super::layers::{DEFAULT_TOML, ENVIRONMENT_PREFIX};
use super::problem::ConfigProblem;

/// A key of the default file.
struct KnownKey {
    steps: Vec<String>,
    is_list: bool,
}

/// Returns the configuration that the variables set, as TOML, and the problems of variables that
/// set nothing: a variable with our prefix must name a key. An empty variable counts as unset.
pub(super) fn overrides(
    variables: impl IntoIterator<Item = (String, String)>,
) -> Result<(toml::Table, Vec<ConfigProblem>), ConfigError> {
    let known = known()?;
    let (mut table, mut problems) = (toml::Table::new(), Vec::new());
    for (variable, text) in variables {
        if !variable.starts_with(&format!("{ENVIRONMENT_PREFIX}__")) || text.is_empty() {
            continue;
        }
        let Some(key) = known.get(&variable) else {
            let message = super::problem::unknown(&variable, known.keys().map(String::as_str));
            problems.push(ConfigProblem::new(variable, message));
            continue;
        };
        let value = if key.is_list { list(&text) } else { Some(toml::Value::String(text)) };
        match value {
            Some(value) => insert(&mut table, &key.steps, value),
            // The message does not repeat the value, which may be a secret.
            None => {
                problems
                    .push(ConfigProblem::new(variable, "must be a list such as [\"a\", \"b\"]"));
            }
        }
    }
    Ok((table, problems))
}

/// The variables of this process that are valid text.
pub(super) fn variables() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

/// Every key of the default file, by the name of its variable.
fn known() -> Result<BTreeMap<String, KnownKey>, ConfigError> {
    let defaults: toml::Table = DEFAULT_TOML
        .parse()
        .map_err(|error: toml::de::Error| ConfigError::Message(error.to_string()))?;
    let mut known = BTreeMap::new();
    collect(&defaults, &[], &mut known);
    Ok(known)
}

fn collect(table: &toml::Table, above: &[String], known: &mut BTreeMap<String, KnownKey>) {
    for (key, value) in table {
        let mut steps = above.to_vec();
        steps.push(key.clone());
        if let toml::Value::Table(inner) = value {
            collect(inner, &steps, known);
            continue;
        }
        let variable = format!("{ENVIRONMENT_PREFIX}__{}", steps.join("__").to_uppercase());
        known.insert(variable, KnownKey { steps, is_list: value.is_array() });
    }
}

/// Reads `a,b`, or a TOML array for lists of anything but words.
fn list(text: &str) -> Option<toml::Value> {
    if text.trim_start().starts_with('[') {
        let parsed = format!("value = {text}").parse::<toml::Table>();
        return parsed.ok().and_then(|mut table| table.remove("value"));
    }
    let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
    Some(toml::Value::Array(words.map(|word| toml::Value::String(word.to_owned())).collect()))
}

fn insert(table: &mut toml::Table, steps: &[String], value: toml::Value) {
    let Some((key, below)) = steps.split_first() else { return };
    if below.is_empty() {
        table.insert(key.clone(), value);
        return;
    }
    let inner = table.entry(key.clone()).or_insert_with(|| toml::Table::new().into());
    if let toml::Value::Table(inner) = inner {
        insert(inner, below, value);
    }
}
