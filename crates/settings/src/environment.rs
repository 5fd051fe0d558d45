//! Environment variables over defaults and file: one for each key of the default file, named after
//! the key.
//!
//! Values stay text until a field reads them, so a secret such as `0012` or `1e5` is never parsed
//! as a number and written back differently.

use std::collections::BTreeMap;

use config::ConfigError;

use super::layers::{DEFAULT_TOML, ENVIRONMENT_PREFIX};
use super::origins::KeyOrigins;
use super::problem::ConfigProblem;

/// A key of the default file.
struct KnownKey {
    steps: Vec<String>,
    is_list: bool,
}

/// Returns the configuration that the variables set, as TOML, and the problems of variables that
/// set nothing: a variable with our prefix must name a key. An empty variable counts as unset. The
/// keys that are set join `origins`.
pub(super) fn overrides(
    variables: impl IntoIterator<Item = (String, String)>,
    file: Option<&toml::Table>,
    origins: &mut KeyOrigins,
) -> Result<(toml::Table, Vec<ConfigProblem>), ConfigError> {
    let known = known(file)?;
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
            Some(value) => {
                origins.add_variable(key.steps.join("."), &variable);
                insert(&mut table, &key.steps, value);
            }
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

/// Every key of the default file, by the name of its variable, and the same keys for the platforms
/// that only the operator's file declares.
fn known(file: Option<&toml::Table>) -> Result<BTreeMap<String, KnownKey>, ConfigError> {
    let defaults: toml::Table = DEFAULT_TOML
        .parse()
        .map_err(|error: toml::de::Error| ConfigError::Message(error.to_string()))?;
    let mut known = BTreeMap::new();
    collect(&defaults, &[], &mut known);
    let of_platforms =
        |table: &toml::Table| table.get("platforms").and_then(toml::Value::as_table).cloned();
    let built_in = of_platforms(&defaults).unwrap_or_default();
    let declared = file.and_then(of_platforms).unwrap_or_default();
    for name in built_in.keys().chain(declared.keys()) {
        // The first platform's table lists every key; the others may leave some out.
        for table in built_in.values().filter_map(toml::Value::as_table) {
            let mut more = BTreeMap::new();
            collect(table, &["platforms".to_owned(), name.clone()], &mut more);
            for (variable, key) in more {
                known.entry(variable).or_insert(key);
            }
        }
    }
    for name in declared.keys().filter(|name| !built_in.contains_key(*name)) {
        let steps = ["slots", "included", name].map(str::to_owned).to_vec();
        insert_known(&mut known, steps, false);
        insert_known(&mut known, ["platforms", name, "extends"].map(str::to_owned).to_vec(), false);
    }
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
        insert_known(known, steps, value.is_array());
    }
}

fn insert_known(known: &mut BTreeMap<String, KnownKey>, steps: Vec<String>, is_list: bool) {
    let variable = format!("{ENVIRONMENT_PREFIX}__{}", steps.join("__").to_uppercase());
    known.insert(variable, KnownKey { steps, is_list });
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

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)], file: &str) -> (toml::Table, Vec<String>) {
        let variables = variables
            .iter()
            .map(|(name, value)| (format!("{ENVIRONMENT_PREFIX}__{name}"), (*value).to_owned()));
        let (table, problems) =
            overrides(variables, Some(&file.parse().unwrap()), &mut KeyOrigins::default()).unwrap();
        (table, problems.into_iter().map(|problem| problem.key).collect())
    }

    #[test]
    fn a_platform_of_the_file_has_the_variables_of_a_built_in_one() {
        let file = "[platforms.my_own]\ncatalog = \"own.toml\"";

        let (table, problems) = read(
            &[
                ("PLATFORMS__MY_OWN__BASE_URL", "https://own.example"),
                ("PLATFORMS__MY_OWN__OAUTH__CLIENT_SECRET", "0012"),
                ("PLATFORMS__MY_OWN__SIGNING__KEY", "hush"),
                ("PLATFORMS__MY_OWN__RESPONSE_HEADERS", "Link, X-Total"),
                ("PLATFORMS__PLATFORM_BETA__PROXY", "http://proxy.example:1"),
                ("SLOTS__INCLUDED__MY_OWN", "3"),
                ("PLATFORMS__OTHER__BASE_URL", "https://other.example"),
                ("PLATFORMS__MY_OWN__BASE_URI", "x"),
            ],
            file,
        );

        let expected = "
            [platforms.my_own]
            base_url = \"https://own.example\"
            oauth = { client_secret = \"0012\" }
            signing = { key = \"hush\" }
            response_headers = [\"Link\", \"X-Total\"]
            [platforms.platform_beta]
            proxy = \"http://proxy.example:1\"
            [slots.included]
            my_own = \"3\"";
        assert_eq!(table, expected.parse().unwrap());
        let unknown = ["PLATFORMS__OTHER__BASE_URL", "PLATFORMS__MY_OWN__BASE_URI"];
        assert_eq!(problems, unknown.map(|name| format!("{ENVIRONMENT_PREFIX}__{name}")));
    }
}
