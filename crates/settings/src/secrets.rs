//! `[secrets]`: the master keys that wrap every customer's data key.

use std::path::PathBuf;

use secrecy::{ExposeSecret, SecretString};

use super::problem::ConfigProblem;
use super::sections::DatabaseSection;

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
            if let Err(message) = runtime::sealing::MasterKey::parse(key.expose_secret()) {
                problems.push(ConfigProblem::new(format!("secrets.master_keys[{index}]"), message));
            }
        }
    }
}
