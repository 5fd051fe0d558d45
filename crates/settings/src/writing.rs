//! How fields are written when the configuration in force is printed. Secrets are hidden: a field
//! that holds one must say how it is written, or the configuration does not compile.

use secrecy::{ExposeSecret as _, SecretString};
use serde::Serializer;
use serde::ser::SerializeSeq as _;

/// The text that replaces a secret.
const HIDDEN: &str = "<hidden>";

/// Writes whether there is a secret.
pub(super) fn secret<S: Serializer>(secret: &SecretString, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(shown(secret))
}

/// Writes the number of secrets.
pub(super) fn secrets<S: Serializer>(secrets: &[SecretString], to: S) -> Result<S::Ok, S::Error> {
    let mut list = to.serialize_seq(Some(secrets.len()))?;
    for secret in secrets {
        list.serialize_element(shown(secret))?;
    }
    list.end()
}

/// Writes an optional address.
#[expect(clippy::ref_option, reason = "serde calls it with the field as it is")]
pub(super) fn optional_address<S: Serializer>(
    address: &Option<std::net::SocketAddr>,
    to: S,
) -> Result<S::Ok, S::Error> {
    match address {
        Some(address) => to.collect_str(address),
        None => to.serialize_str(""),
    }
}

/// Writes the URL of a database. One that names a file holds no secret and can be used again.
pub(super) fn database_url<S: Serializer>(url: &SecretString, to: S) -> Result<S::Ok, S::Error> {
    let text = url.expose_secret();
    to.serialize_str(if text.starts_with("sqlite:") { text } else { shown(url) })
}

fn shown(secret: &SecretString) -> &'static str {
    if secret.expose_secret().is_empty() { "" } else { HIDDEN }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use crate::Config;

    #[test]
    fn written_configuration_reads_back_the_same() {
        let changed = "
            [http]
            trusted_proxies = [\"10.0.0.0/8\"]
            [admin]
            probe_listen = \"127.0.0.1:9091\"
            [platforms.platform_beta]
            base_url = \"https://beta.example.com\"
            [[packs]]
            id = \"one\"
            name = \"\\\"quoted\\\"\\nlines\"
            credits = 1
            price_cents = 50";
        for toml in ["", changed] {
            let written = Config::from_toml(toml).unwrap().to_toml().unwrap();
            let read = Config::from_toml(&written).unwrap();

            assert_eq!(read.to_toml().unwrap(), written);
            assert!(written.contains("\nlisten = \"127.0.0.1:8080\"\n"), "{written}");
            assert!(written.contains("\nurl = \"sqlite:"), "{written}");
        }
    }

    #[test]
    fn every_secret_is_written_as_hidden() {
        let mut toml = String::new();
        for (section, key) in [
            ("admin", "token"),
            ("database", "url"),
            ("mail", "password"),
            ("processor", "secret_key"),
            ("storage", "secret_access_key"),
            ("platforms.platform_beta.signing", "key"),
            ("platforms.platform_delta.oauth", "client_secret"),
        ] {
            writeln!(toml, "[{section}]\n{key} = \"hunter2\"").unwrap();
        }
        toml += "[secrets]\nmaster_keys = [\"hunter2\", \"hunter2\"]\n";

        let written = Config::from_toml(&toml).unwrap().to_toml().unwrap();

        assert!(!written.contains("hunter2"), "{written}");
        assert_eq!(written.matches("\"<hidden>\"").count(), 9, "{written}");
    }
}
