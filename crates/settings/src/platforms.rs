//! `[platforms.*]`: where each platform is, and how it is spoken to.

use std::path::PathBuf;

use domain::platform::Platform;
use secrecy::SecretString;

use super::ConfigProblem;
use super::envelope::EnvelopeSection;
use super::signing::SigningSection;

/// The four platforms.
#[derive(Debug, Clone, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct PlatformsSection {
    /// `platform_alpha`.
    pub platform_alpha: PlatformSection,
    /// `platform_beta`.
    pub platform_beta: PlatformSection,
    /// `platform_gamma`.
    pub platform_gamma: PlatformSection,
    /// `platform_delta`.
    pub platform_delta: PlatformSection,
}

/// One platform.
#[derive(Debug, Clone, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct PlatformSection {
    /// Scheme, host and optional base path; empty: not offered.
    pub base_url: String,
    /// Stands before every native path.
    pub path_prefix: String,
    /// Headers, fixed or from the account's credentials.
    pub headers: Vec<NamedValue>,
    /// The version header; empty name: none.
    pub version_header: NamedValue,
    /// How requests are signed. Boxed like other large parts: a configuration is moved about as a whole.
    pub signing: Box<SigningSection>,
    /// The envelope that answers come in.
    pub envelope: EnvelopeSection,
    /// Parameters that stand behind the query of every call.
    #[serde(default)]
    pub query: Vec<NamedValue>,
    /// Response headers that reach callers, beside those that always do.
    pub response_headers: Vec<String>,
    /// Sent when no header of the account says otherwise.
    pub user_agent: String,
    /// The request that proves credentials.
    pub verify_route: Box<VerifySection>,
    /// The token endpoint.
    pub oauth: Box<OauthSection>,
    /// An extra catalogue file; empty: none.
    pub catalog: PathBuf,
    /// A PEM file with further certificate authorities; empty: none.
    pub ca_file: PathBuf,
    /// A PEM file of the certificate that is shown to the platform; empty: none.
    #[serde(default)]
    pub client_certificate_file: PathBuf,
    /// A PEM file of its key.
    #[serde(default)]
    pub client_key_file: PathBuf,
    /// The proxy to the platform, which may hold a login; empty: none.
    #[serde(default, serialize_with = "super::writing::secret")]
    pub proxy: SecretString,
    /// Whether proxies that credentials name may be in private networks.
    #[serde(default)]
    pub private_proxies: bool,
    /// Other hosts, by native path.
    #[serde(default)]
    pub hosts: Vec<HostSection>,
    /// Times.
    pub timeouts: UpstreamTimeouts,
}

/// A host that serves native paths with this beginning.
#[derive(Debug, Clone, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct HostSection {
    /// What the paths begin with.
    pub path: String,
    /// Scheme, host and optional base path.
    pub base_url: String,
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

/// The request that proves credentials.
#[derive(Debug, Clone, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct VerifySection {
    /// The native path; `{field}` stands for a credential.
    pub path: String,
    /// The method.
    #[serde(default = "default_verify_method")]
    pub method: String,
    /// The body, which is JSON; empty: none.
    #[serde(default)]
    pub body: String,
    /// Where the platform's account id is in the answer; empty: nowhere.
    pub id_pointer: String,
    /// The credential that the id must equal; empty: none.
    pub equals_field: String,
    /// Statuses that count as proof although they are refusals.
    pub accepted_statuses: Vec<u16>,
}

/// The token endpoint of accounts with a refresh token (RFC 6749, section 6).
#[derive(Debug, Clone, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct OauthSection {
    /// Empty: none.
    pub token_url: String,
    /// Who we are.
    pub client_id: String,
    /// And how we prove it.
    #[serde(serialize_with = "super::writing::secret")]
    pub client_secret: SecretString,
    /// Where both are written: `body` or `basic`.
    #[serde(default = "default_client_authentication")]
    pub client_authentication: String,
}

/// Times in milliseconds.
#[derive(Debug, Clone, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct UpstreamTimeouts {
    /// To connect.
    pub connect_ms: u64,
    /// For the TLS handshake.
    pub tls_ms: u64,
    /// Until the answer begins.
    pub first_byte_ms: u64,
    /// Between two bytes that we want.
    pub between_bytes_ms: u64,
    /// The same for a stream of events.
    pub stream_idle_ms: u64,
}

fn default_verify_method() -> String {
    "GET".to_owned()
}

fn default_client_authentication() -> String {
    "body".to_owned()
}

impl PlatformsSection {
    /// The section of `platform`.
    pub const fn of(&self, platform: Platform) -> &PlatformSection {
        match platform {
            Platform::Alpha => &self.platform_alpha,
            Platform::Beta => &self.platform_beta,
            Platform::Gamma => &self.platform_gamma,
            Platform::Delta => &self.platform_delta,
        }
    }

    /// Adds a header to what is sent to every platform.
    pub fn add_header_everywhere(&mut self, name: &str, value: &str) {
        let sections = [
            &mut self.platform_alpha,
            &mut self.platform_beta,
            &mut self.platform_gamma,
            &mut self.platform_delta,
        ];
        for section in sections {
            section.headers.push(NamedValue { name: name.to_owned(), value: value.to_owned() });
        }
    }

    pub(super) fn check(&self, problems: &mut Vec<ConfigProblem>) {
        for platform in Platform::ALL {
            let section = self.of(*platform);
            if section.is_offered() {
                section.check(&format!("platforms.{platform}"), problems);
            }
        }
    }
}

impl PlatformSection {
    /// Whether customers can connect accounts of this platform.
    pub const fn is_offered(&self) -> bool {
        !self.base_url.is_empty()
    }

    fn check(&self, key: &str, problems: &mut Vec<ConfigProblem>) {
        self.signing.check(&format!("{key}.signing"), problems);
        if !matches!(self.oauth.client_authentication.as_str(), "body" | "basic") {
            problems.push(ConfigProblem::new(
                format!("{key}.oauth.client_authentication"),
                "must be \"body\" or \"basic\"",
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
