//! `[platforms.*]`: the address of each platform, and how requests to it are built.

use std::path::PathBuf;

use domain::per_platform::PerPlatform;
use domain::platform::Platform;
use secrecy::SecretString;

use super::envelope::EnvelopeSection;
use super::pacing::PacingSection;
use super::problem::ConfigProblem;
use super::signing::SigningSection;

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
    /// How requests are signed. Boxed like other large parts: a configuration is moved about as a
    /// whole.
    pub signing: Box<SigningSection>,
    /// The envelope that answers come in.
    pub envelope: EnvelopeSection,
    /// Whether cookies that the platform sets are kept for each account and sent.
    #[serde(default)]
    pub cookies: bool,
    /// Parameters that stand behind the query of every call.
    #[serde(default)]
    pub query: Vec<NamedValue>,
    /// Response headers that are passed to callers, in addition to those that always are.
    pub response_headers: Vec<String>,
    /// The `User-Agent` for accounts whose headers do not set one.
    pub user_agent: String,
    /// The request of the identity check.
    pub verify_route: Box<VerifySection>,
    /// The token endpoint.
    pub oauth: Box<OauthSection>,
    /// An additional catalogue file. Empty: none.
    pub catalog: PathBuf,
    /// What that file does to the routes that are there.
    #[serde(default)]
    pub catalog_mode: CatalogMode,
    /// What happens to native paths that the catalogue of this platform does not list.
    #[serde(default)]
    pub unlisted_routes: PlatformUnlistedRoutes,
    /// A PEM file with additional certificate authorities. Empty: none.
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
    /// Whether addresses of other machines may be plain HTTP.
    #[serde(default)]
    pub allow_http: bool,
    /// Other hosts, by native path.
    #[serde(default)]
    pub hosts: Vec<HostSection>,
    /// How many requests an account may send.
    #[serde(default)]
    pub pacing: PacingSection,
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

/// What a catalogue file does to the routes of a platform.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CatalogMode {
    /// Its entries are added to the built-in ones and replace those for the same paths.
    #[default]
    Merge,
    /// Its routes are the only ones.
    Replace,
}

/// What happens to native paths that the catalogue of a platform does not list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PlatformUnlistedRoutes {
    /// What `http.unlisted_routes` says.
    #[default]
    Default,
    /// They are forwarded and logged as `unlisted`.
    Forward,
    /// They are refused with 404.
    Refuse,
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

/// The request of the identity check.
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
    /// Until the response starts, counted anew while parts of an upload leave.
    pub first_byte_ms: u64,
    /// For an upload to leave whole.
    pub upload_ms: u64,
    /// Between two bytes of a response.
    pub between_bytes_ms: u64,
    /// The same for an event stream.
    pub stream_idle_ms: u64,
}

fn default_verify_method() -> String {
    "GET".to_owned()
}

fn default_client_authentication() -> String {
    "body".to_owned()
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
        self.signing.check(&format!("{key}.signing"), problems);
        self.pacing.check(&format!("{key}.pacing"), problems);
        if !matches!(self.oauth.client_authentication.as_str(), "body" | "basic") {
            problems.push(ConfigProblem::new(
                format!("{key}.oauth.client_authentication"),
                "must be \"body\" or \"basic\"",
            ));
        }
    }
}
