//! `[secrets]`: the master keys that wrap every customer's data key.

use std::path::PathBuf;

use secrecy::{ExposeSecret, SecretString};

use super::problem::ConfigProblem;
use super::sections::DatabaseSection;

/// What is wrong with the key of examples.
const EXAMPLE_KEY: &str =
    "is the key of examples, which everybody knows; make one with `openssl rand -base64 32`";

/// Master keys, and the key file of the embedded default.
#[derive(Debug, Clone, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct SecretsSection {
    /// Each as `ID:BASE64`, the current one first.
    #[serde(serialize_with = "super::writing::secrets")]
    pub master_keys: Vec<SecretString>,
    /// The key file of the embedded default.
    pub key_file: PathBuf,
}

impl SecretsSection {
    pub(super) fn check(&self, database: &DatabaseSection, problems: &mut Vec<ConfigProblem>) {
        if self.master_keys.is_empty() && database.is_server() {
            problems.push(ConfigProblem::new(
                "secrets.master_keys",
                "is required with PostgreSQL: every node needs the same keys; \
                 make one with `openssl rand -base64 32` and write it as 1:BASE64",
            ));
        }
        for (index, key) in self.master_keys.iter().enumerate() {
            let problem = match runtime::sealing::MasterKey::parse(key.expose_secret()) {
                Err(message) => Some(message),
                Ok(_) => is_example(key).then(|| EXAMPLE_KEY.to_owned()),
            };
            if let Some(message) = problem {
                problems.push(ConfigProblem::new(format!("secrets.master_keys[{index}]"), message));
            }
        }
    }
}

/// Whether all bits of a key are zero, as in examples.
fn is_example(key: &SecretString) -> bool {
    let encoded = key.expose_secret().split_once(':').map_or("", |(_, encoded)| encoded).trim();
    encoded.trim_end_matches('=').bytes().all(|digit| digit == b'A')
}

#[cfg(test)]
mod tests {
    use crate::Config;

    #[test]
    fn the_key_of_examples_is_refused() {
        let example = format!("1:{}=", "A".repeat(43));
        let own = "1:MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
        let config = format!("[secrets]\nmaster_keys = [\"{own}\", \"{example}\"]");

        let problems = Config::from_toml(&config).unwrap().problems();

        let said: Vec<_> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].starts_with("secrets.master_keys[1]: is the key of examples"), "{said:?}");
    }
}
