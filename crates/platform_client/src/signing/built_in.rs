//! The schemes that are built in, as recipes.
//!
//! `hmac-sha256-v1`: HMAC-SHA256 with the signing key over timestamp, nonce, method and request
//! target, one a line, in lower-case hexadecimal; five `X-Client-…` headers carry what the platform
//! needs to check it.

use http::HeaderValue;
use outbound::SettingsProblem;

use super::compile;
use super::recipe::SigningRecipe;
use super::settings::{PartSettings, SigningSettings};

/// The only one so far.
const HMAC_SHA256_V1: &str = "hmac-sha256-v1";

const HEADERS: [(&str, &str); 5] = [
    ("X-Client-Id", "{client_id}"),
    ("X-Client-Timestamp", "{time}"),
    ("X-Client-Version", "{client_version}"),
    ("X-Client-Nonce", "{nonce}"),
    ("X-Client-Signature", "{signature}"),
];

/// The recipe of the scheme that the settings name; problems are added with the names of their
/// keys.
pub(super) fn recipe(
    settings: &SigningSettings,
    problems: &mut Vec<SettingsProblem>,
) -> Option<SigningRecipe> {
    let before = problems.len();
    if settings.scheme != HMAC_SHA256_V1 {
        let message = format!("unknown scheme; known: {HMAC_SHA256_V1}, recipe, external, none");
        problems.push(SettingsProblem::new("signing.scheme", message));
    }
    if settings.key.is_empty() {
        problems.push(SettingsProblem::new("signing.key", "is required to sign requests"));
    }
    check_word(&settings.client_id, "signing.client_id", problems);
    check_word(&settings.client_version, "signing.client_version", problems);
    if problems.len() > before {
        return None;
    }
    let named = |(name, template): (&str, &str)| (name.to_owned(), template.to_owned());
    let recipe = SigningSettings {
        key: settings.key.clone(),
        parts: parts(settings),
        headers: HEADERS.map(named).to_vec(),
        ..SigningSettings::default()
    };
    compile::compile(&recipe, &mut Vec::new(), problems)
}

fn parts(settings: &SigningSettings) -> Vec<PartSettings> {
    let part = |name: &str, from: &str| PartSettings {
        name: name.to_owned(),
        from: from.to_owned(),
        ..PartSettings::default()
    };
    let text =
        |name: &str, text: &str| PartSettings { text: text.to_owned(), ..part(name, "text") };
    vec![
        text("client_id", &settings.client_id),
        text("client_version", &settings.client_version),
        part("time", "time_ms"),
        PartSettings { bytes: 16, ..part("nonce", "random") },
        part("method", "method"),
        part("target", "target"),
        PartSettings {
            of: ["time", "nonce", "method", "target"].map(str::to_owned).to_vec(),
            separator: "\n".to_owned(),
            algorithm: "sha256".to_owned(),
            ..part("signature", "hmac")
        },
    ]
}

fn check_word(text: &str, key: &str, problems: &mut Vec<SettingsProblem>) {
    if text.is_empty() || HeaderValue::from_str(text).is_err() {
        problems.push(SettingsProblem::new(key, "is required, in visible ASCII"));
    }
}
