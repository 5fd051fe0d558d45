//! `[platforms.*]`: the address of each platform, and how requests to it are built.

use std::path::PathBuf;

use domain::per_platform::PerPlatform;
use domain::platform::Platform;
use secrecy::{ExposeSecret, SecretString};

use super::ConfigProblem;

/// The declared platforms.
#[derive(Debug, Clone, Default, serde::Deserialize, serde::Serialize)]
#[serde(transparent)]
pub struct PlatformsSection(PerPlatform<PlatformSection>);

/// One platform.
#[derive(Debug, Clone, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct PlatformSection {
    /// The built-in platform whose settings and catalogue it starts from; empty: none, or itself.
    #[serde(default)]
    pub extends: String,
    /// Scheme, host and optional base path; empty: not offered.
    pub base_url: String,
    /// The prefix of every native path.
    pub path_prefix: String,
    /// Headers, fixed or filled from the account's credentials.
    pub headers: Vec<NamedValue>,
    /// The version header. Empty name: none.
    pub version_header: NamedValue,
    /// How requests are signed.
    pub signing: SigningSection,
    /// Whether responses have an envelope.
    pub envelope: bool,
    /// Response headers that are passed to callers, in addition to those that always are.
    pub response_headers: Vec<String>,
    /// The `User-Agent` for accounts whose headers do not set one.
    pub user_agent: String,
    /// The request of the identity check.
    pub verify_route: VerifySection,
    /// The token endpoint.
    pub oauth: OauthSection,
    /// An additional catalogue file. Empty: none.
    pub catalog: PathBuf,
    /// A PEM file with additional certificate authorities. Empty: none.
    pub ca_file: PathBuf,
    /// Times.
    pub timeouts: UpstreamTimeouts,
}

/// A header and its value, or the template of one.
#[derive(Debug, Clone, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct NamedValue {
    /// The header's name.
    pub name: String,
    /// Its value; `{field}` stands for a credential.
    pub value: String,
}

/// How requests are signed.
#[derive(Debug, Clone, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct SigningSection {
    /// `none`, or the name of a scheme.
    pub scheme: String,
    /// The signing key.
    #[serde(serialize_with = "super::writing::secret")]
    pub key: SecretString,
    /// The platform's id for this client.
    pub client_id: String,
    /// The client's version.
    pub client_version: String,
}

/// The request of the identity check.
#[derive(Debug, Clone, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct VerifySection {
    /// The native path; `{field}` stands for a credential.
    pub path: String,
    /// The JSON pointer to the platform's account id in the response. Empty: none.
    pub id_pointer: String,
    /// The credential that the id must equal. Empty: none.
    pub equals_field: String,
    /// Refusal statuses that count as proof.
    pub accepted_statuses: Vec<u16>,
}

/// The token endpoint of accounts with a refresh token (RFC 6749, section 6).
#[derive(Debug, Clone, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct OauthSection {
    /// Its URL. Empty: none.
    pub token_url: String,
    /// Our client id.
    pub client_id: String,
    /// Our client secret.
    #[serde(serialize_with = "super::writing::secret")]
    pub client_secret: SecretString,
}

/// Times in milliseconds.
#[derive(Debug, Clone, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct UpstreamTimeouts {
    /// To connect.
    pub connect_ms: u64,
    /// For the TLS handshake.
    pub tls_ms: u64,
    /// Until the response starts.
    pub first_byte_ms: u64,
    /// Between two bytes of a response.
    pub between_bytes_ms: u64,
    /// The same for an event stream.
    pub stream_idle_ms: u64,
}

impl PlatformsSection {
    /// The section of `platform`, if it is declared.
    pub fn get(&self, platform: Platform) -> Option<&PlatformSection> {
        self.0.get(platform)
    }

    /// The section of `platform`, to be changed.
    pub fn get_mut(&mut self, platform: Platform) -> Option<&mut PlatformSection> {
        self.0.get_mut(platform)
    }

    /// Each declared platform with its section.
    pub fn iter(&self) -> impl Iterator<Item = (Platform, &PlatformSection)> {
        self.0.iter()
    }

    /// Each platform that customers can connect accounts of.
    pub fn offered(&self) -> impl Iterator<Item = (Platform, &PlatformSection)> {
        self.0.iter().filter(|(_, section)| section.is_offered())
    }

    /// Adds a header to the requests to every platform.
    pub fn add_header_everywhere(&mut self, name: &str, value: &str) {
        for section in self.0.values_mut() {
            section.headers.push(NamedValue { name: name.to_owned(), value: value.to_owned() });
        }
    }

    pub(super) fn check(&self, problems: &mut Vec<ConfigProblem>) {
        for (platform, section) in self.offered() {
            section.check(&format!("platforms.{platform}"), problems);
        }
    }
}

impl PlatformSection {
    /// Whether customers can connect accounts of this platform.
    pub const fn is_offered(&self) -> bool {
        !self.base_url.is_empty()
    }

    fn check(&self, key: &str, problems: &mut Vec<ConfigProblem>) {
        if self.verify_route.path.is_empty() {
            problems.push(ConfigProblem::new(
                format!("{key}.verify_route.path"),
                "must be given: the request that proves an account's credentials",
            ));
        }
        if self.signing.scheme != "none" && self.signing.key.expose_secret().is_empty() {
            problems.push(ConfigProblem::new(
                format!("{key}.signing.key"),
                "is required: the platform refuses unsigned requests",
            ));
        }
        let times = [
            ("connect_ms", self.timeouts.connect_ms),
            ("tls_ms", self.timeouts.tls_ms),
            ("first_byte_ms", self.timeouts.first_byte_ms),
            ("between_bytes_ms", self.timeouts.between_bytes_ms),
            ("stream_idle_ms", self.timeouts.stream_idle_ms),
        ];
        for (name, value) in times {
            if value == 0 {
                problems.push(ConfigProblem::new(
                    format!("{key}.timeouts.{name}"),
                    "must be above zero",
                ));
            }
        }
    }
}
