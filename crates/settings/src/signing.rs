//! `[platforms.*.signing]`: how requests to a platform are signed.

use std::path::PathBuf;
use std::time::Duration;

use platform_client::{
    ExternalSettings, PartSettings, SigningSettings, ValuesSettings, ValuesSource,
};
use secrecy::{ExposeSecret as _, SecretString};
use zeroize::Zeroizing;

use crate::platforms::NamedValue;
use crate::problem::ConfigProblem;

/// How requests are signed.
#[derive(Debug, Clone, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct SigningSection {
    /// `none`, `hmac-sha256-v1`, `recipe` or `external`.
    pub scheme: String,
    /// The signing key.
    #[serde(serialize_with = "super::writing::secret")]
    pub key: SecretString,
    /// What the platform knows this client as.
    pub client_id: String,
    /// The client's version.
    pub client_version: String,
    /// The parts of a recipe.
    #[serde(default)]
    pub parts: Vec<PartSection>,
    /// The headers of a recipe.
    #[serde(default)]
    pub headers: Vec<NamedValue>,
    /// Values that change while the service runs.
    #[serde(default)]
    pub values: ValuesSection,
    /// The process that signs.
    #[serde(default)]
    pub url: String,
    /// How long it may take.
    #[serde(default = "default_timeout_ms")]
    pub timeout_ms: u64,
    /// The credentials that it is told.
    #[serde(default)]
    pub fields: Vec<String>,
}

/// A part of a recipe.
#[derive(Debug, Clone, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct PartSection {
    /// Its name.
    pub name: String,
    /// Its source.
    pub from: String,
    /// The text of a fixed part.
    #[serde(default)]
    pub text: String,
    /// The text of a secret part, or the key of ids of devices.
    #[serde(default, serialize_with = "super::writing::secret")]
    pub secret: SecretString,
    /// A credential.
    #[serde(default)]
    pub field: String,
    /// A signing value.
    #[serde(default)]
    pub value: String,
    /// How many random bytes.
    #[serde(default)]
    pub bytes: u32,
    /// The parts that are joined.
    #[serde(default)]
    pub of: Vec<String>,
    /// What stands between them.
    #[serde(default)]
    pub separator: String,
    /// The part that is the key.
    #[serde(default)]
    pub key: String,
    /// The hash function.
    #[serde(default)]
    pub algorithm: String,
    /// How bytes are written.
    #[serde(default)]
    pub encoding: String,
    /// What no body stands for.
    #[serde(default)]
    pub empty: String,
    /// What a body on disk stands for.
    #[serde(default)]
    pub spooled: String,
}

/// Where signing values come from.
#[derive(Debug, Clone, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct ValuesSection {
    /// A file; empty: none.
    pub file: PathBuf,
    /// An address, which may hold a key; empty: none.
    #[serde(serialize_with = "super::writing::secret")]
    pub url: SecretString,
    /// How often they are read.
    pub refresh_s: u64,
}

impl Default for ValuesSection {
    fn default() -> Self {
        Self { file: PathBuf::new(), url: SecretString::default(), refresh_s: 60 }
    }
}

const fn default_timeout_ms() -> u64 {
    500
}

impl SigningSection {
    pub(super) fn check(&self, key: &str, problems: &mut Vec<ConfigProblem>) {
        let needs_key = !matches!(self.scheme.as_str(), "none" | "recipe" | "external");
        if needs_key && self.key.expose_secret().is_empty() {
            problems.push(ConfigProblem::new(
                format!("{key}.key"),
                "is required: the platform refuses unsigned requests",
            ));
        }
        let values = &self.values;
        if !values.file.as_os_str().is_empty() && !values.url.expose_secret().is_empty() {
            problems.push(ConfigProblem::new(
                format!("{key}.values.url"),
                "must be empty where values.file is given: values come from one place",
            ));
        }
        let recipe = [("parts", self.parts.is_empty()), ("headers", self.headers.is_empty())];
        let external = [("url", self.url.is_empty()), ("fields", self.fields.is_empty())];
        for (scheme, keys) in [("recipe", recipe), ("external", external)] {
            for (name, _) in keys.iter().filter(|(_, is_empty)| !is_empty) {
                if self.scheme != scheme {
                    problems.push(ConfigProblem::new(
                        format!("{key}.{name}"),
                        format!(
                            "is used with scheme = \"{scheme}\" only; set that, or take this out"
                        ),
                    ));
                }
            }
        }
    }

    /// As the client takes it; nothing where there is nothing to sign and no value to read.
    pub(super) fn settings(&self) -> Option<SigningSettings> {
        let values = self.values.settings();
        if self.scheme == "none" && values.is_none() {
            return None;
        }
        let header = |named: &NamedValue| (named.name.clone(), named.value.clone());
        Some(SigningSettings {
            scheme: self.scheme.clone(),
            key: exposed(&self.key),
            client_id: self.client_id.clone(),
            client_version: self.client_version.clone(),
            parts: self.parts.iter().map(PartSection::settings).collect(),
            headers: self.headers.iter().map(header).collect(),
            values,
            external: (self.scheme == "external").then(|| ExternalSettings {
                url: self.url.clone(),
                timeout: Duration::from_millis(self.timeout_ms),
                fields: self.fields.clone(),
            }),
        })
    }
}

impl ValuesSection {
    fn settings(&self) -> Option<ValuesSettings> {
        let source = if !self.file.as_os_str().is_empty() {
            ValuesSource::File(self.file.clone())
        } else if !self.url.expose_secret().is_empty() {
            ValuesSource::Url(exposed(&self.url))
        } else {
            return None;
        };
        Some(ValuesSettings { source, refresh: Duration::from_secs(self.refresh_s) })
    }
}

impl PartSection {
    fn settings(&self) -> PartSettings {
        PartSettings {
            name: self.name.clone(),
            from: self.from.clone(),
            text: self.text.clone(),
            secret: exposed(&self.secret),
            field: self.field.clone(),
            value: self.value.clone(),
            bytes: self.bytes,
            of: self.of.clone(),
            separator: self.separator.clone(),
            key: self.key.clone(),
            algorithm: self.algorithm.clone(),
            encoding: self.encoding.clone(),
            empty: self.empty.clone(),
            spooled: self.spooled.clone(),
        }
    }
}

fn exposed(secret: &SecretString) -> Zeroizing<String> {
    Zeroizing::new(secret.expose_secret().to_owned())
}

#[cfg(test)]
mod tests {
    use crate::Config;

    const BETA: &str = "[platforms.platform_beta]\nbase_url = \"http://127.0.0.1:1\"\n";
    const KEYED: &str = "[platforms.platform_beta.signing]\nkey = \"k\"\n";

    fn problems(signing: &str) -> Vec<String> {
        let config = Config::from_toml(&format!("{BETA}{KEYED}{signing}")).unwrap();
        config.all_problems().into_iter().map(|problem| problem.to_string()).collect()
    }

    /// The scheme that is built in, written down: docs/platforms.md shows it.
    const WRITTEN_DOWN: &str = r#"
        scheme = "recipe"
        parts = [
            { name = "time", from = "time_ms" },
            { name = "nonce", from = "random", bytes = 16 },
            { name = "method", from = "method" },
            { name = "target", from = "target" },
            { name = "signature", from = "hmac", algorithm = "sha256", separator = "\n",
              of = ["time", "nonce", "method", "target"] },
        ]
        headers = [
            { name = "X-Client-Id", value = "gateway" },
            { name = "X-Client-Timestamp", value = "{time}" },
            { name = "X-Client-Version", value = "7.1" },
            { name = "X-Client-Nonce", value = "{nonce}" },
            { name = "X-Client-Signature", value = "{signature}" },
        ]
    "#;

    fn request(signing: &str) -> http::Request<platform_client::RequestBody> {
        use platform_client::{AccountCredentials, NativeCall, SigningInput};
        let config = Config::from_toml(&format!("{BETA}{KEYED}{signing}")).unwrap();
        let catalog = crate::targets::catalogue(&config).unwrap();
        let targets = crate::targets::targets(&config.platforms, &catalog).unwrap();
        let target = targets.iter().next().unwrap().1;
        let account = target.headers_of(&AccountCredentials::default()).unwrap();
        let now = domain::time::Timestamp::from_unix_micros(1_795_234_422_123_999);
        let call = NativeCall {
            call_id: &"call_1",
            method: domain::method::Method::Post,
            path: "message/send",
            query: "a=1&b=%20x",
            caller_headers: &http::HeaderMap::new(),
            body: Vec::new().into(),
            account: &account,
            signing: SigningInput { now, nonce: [7; 16] },
        };
        target.request(&call).unwrap()
    }

    #[test]
    fn the_scheme_that_is_built_in_can_be_written_down_to_the_byte() {
        let built_in = request("client_id = \"gateway\"\nclient_version = \"7.1\"");
        let written = request(WRITTEN_DOWN);

        assert_eq!(written.uri(), built_in.uri());
        let lines = |request: &http::Request<_>| format!("{:?}", request.headers());
        assert_eq!(lines(&written), lines(&built_in));
        assert!(lines(&written).contains("x-client-signature"));
    }

    #[test]
    fn a_mistake_in_a_recipe_names_its_key_and_what_would_be_right() {
        let part = |rest: &str| {
            format!(
                "scheme = \"recipe\"\nparts = [{{ name = \"a\", {rest} }}]\nheaders = [{{ name = \"X\", value = \"{{a}}\" }}]"
            )
        };
        for (signing, expected) in [
            (part("from = \"methods\""), "signing.parts[0].from: is unknown; there are method"),
            (
                part("from = \"hash\", of = [\"b\"], algorithm = \"sha1\""),
                "signing.parts[0].of: names \"b\"",
            ),
            (part("from = \"value\""), "signing.parts[0].from: needs signing.values"),
            (
                "scheme = \"md5\"".to_owned(),
                "signing.scheme: unknown scheme; known: hmac-sha256-v1, recipe",
            ),
            ("scheme = \"external\"".to_owned(), "signing.url: must be http:// with 127.0.0.1"),
            (
                "scheme = \"external\"\nurl = \"unix:/s\"\ntimeout_ms = 0".to_owned(),
                "signing.timeout_ms: must be",
            ),
            (
                "fields = [\"token\"]".to_owned(),
                "signing.fields: is used with scheme = \"external\" only",
            ),
            (
                "values = { file = \"/nowhere\", url = \"http://x\" }".to_owned(),
                "signing.values.url: must be empty",
            ),
            (
                "scheme = \"none\"\nvalues = { file = \"/nowhere\" }".to_owned(),
                "signing.values.file: the file",
            ),
        ] {
            let found = problems(&signing);
            let expected = format!("platforms.platform_beta.{expected}");
            assert!(
                found.iter().any(|found| found.starts_with(&expected)),
                "{expected}: {found:?}"
            );
        }
    }

    #[test]
    fn a_recipe_shows_none_of_its_secrets_when_it_is_written() {
        let signing = "scheme = \"recipe\"\nvalues = { url = \"http://hush:1/?k=hush\" }\n\
                       parts = [{ name = \"a\", from = \"secret\", secret = \"hush\" }]";
        let config = Config::from_toml(&format!("{BETA}{KEYED}{signing}")).unwrap();

        let shown = format!("{}{config:?}", config.to_toml().unwrap());

        assert!(!shown.contains("hush"), "{shown}");
        assert!(shown.contains("secret = \"<hidden>\"") && shown.contains("url = \"<hidden>\""));
    }
}
