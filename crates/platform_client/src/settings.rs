//! One platform as the configuration describes it, before it is checked.

use std::fmt;
use std::path::PathBuf;

use domain::platform::Platform;
use outbound::CallTimeouts;
use zeroize::Zeroizing;

use super::signing::settings::SigningSettings;

/// One platform as configured: `platforms.<name>`.
#[derive(Debug, Clone)]
pub struct TargetSettings {
    /// Which platform it is.
    pub platform: Platform,
    /// The credentials that its accounts may have, which templates may name. Absent: they are not
    /// known, and no name is checked.
    pub credential_fields: Option<Vec<CredentialField>>,
    /// Scheme (`http` or `https`), host, port where it is not the usual one, and optionally a path.
    pub base_url: String,
    /// Path that stands before every native path; slashes at its ends are not needed.
    pub path_prefix: String,
    /// Names of headers and templates of their values. `{field}` stands for a credential of the
    /// account, `{call_id}` for the call; a header one of whose fields is absent is left out.
    pub headers: Vec<(String, String)>,
    /// A fixed header that names the version of the platform's interface: name and value.
    pub version_header: Option<(String, String)>,
    /// How requests are signed, if they are.
    pub signing: Option<SigningSettings>,
    /// Whether answers come in an envelope of `{"success": true, "response": …}`.
    pub envelope: bool,
    /// The envelope that answers come in instead.
    pub envelope_pointers: Option<EnvelopeSettings>,
    /// Whether cookies that the platform sets are kept and sent.
    pub cookies: bool,
    /// Names and templates of parameters that stand behind the query of every call.
    pub query: Vec<(String, String)>,
    /// Names of the response headers that reach callers, beside those that always do.
    pub response_headers: Vec<String>,
    /// `User-Agent` where no header template gives one.
    pub user_agent: String,
    /// The request that proves an account's credentials.
    pub verify: VerifySettings,
    /// The token endpoint, if access tokens end.
    pub oauth: Option<OauthSettings>,
    /// How long each phase of a call may take.
    pub timeouts: CallTimeouts,
    /// A PEM file of certificate authorities that are trusted besides the public ones.
    pub ca_file: Option<PathBuf>,
    /// A PEM file of the certificate that this service shows to the platform.
    pub client_certificate_file: Option<PathBuf>,
    /// A PEM file of its private key.
    pub client_key_file: Option<PathBuf>,
    /// The proxy that everything goes through, a template like those of headers; empty: none.
    pub proxy: Zeroizing<String>,
    /// Whether proxies that credentials name may be on this machine or in private networks.
    pub private_proxies: bool,
    /// Other hosts, for parts of the native paths.
    pub hosts: Vec<HostSettings>,
}

/// An envelope, by JSON pointers (RFC 6901).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EnvelopeSettings {
    /// To what is passed on.
    pub data: String,
    /// To what is there, and says something, if the answer is an error; empty: nothing does.
    pub error: String,
    /// To what is `true` if the answer is a success; empty: nothing is.
    pub success: String,
}

/// A host that serves a part of a platform's native paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostSettings {
    /// What these paths begin with.
    pub path: String,
    /// Scheme, host and optionally a path, which stands before the whole native path.
    pub base_url: String,
}

/// A credential that an account of a platform may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CredentialField {
    /// Its name.
    pub name: String,
    /// Whether it is an object, whose members are named `name.member`.
    pub has_members: bool,
}

/// The request that proves an account's credentials.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VerifySettings {
    /// The native path; `{field}` stands for a credential, percent-encoded where need be.
    pub path: String,
    /// The method; empty: GET.
    pub method: String,
    /// The body, which is JSON; empty: none.
    pub body: String,
    /// JSON pointer (RFC 6901) to the platform's account id in the answer, below the envelope if
    /// there is one.
    pub id_pointer: Option<String>,
    /// The credential that the id must equal.
    pub equals_field: Option<String>,
    /// Statuses that prove the credentials although they are refusals.
    pub accepted_statuses: Vec<u16>,
}

/// The token endpoint for accounts with a refresh token (RFC 6749, section 6).
#[derive(Clone)]
pub struct OauthSettings {
    /// Its absolute address.
    pub token_url: String,
    /// Who this service is to it.
    pub client_id: String,
    /// How this service proves that.
    pub client_secret: Zeroizing<String>,
    /// Where id and secret are written.
    pub authentication: ClientAuthentication,
}

/// How a client proves itself to a token endpoint (RFC 6749, section 2.3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClientAuthentication {
    /// In an `Authorization: Basic` header.
    #[default]
    Basic,
    /// In the form, as `client_id` and `client_secret`.
    Post,
}

impl fmt::Debug for OauthSettings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("OauthSettings")
            .field("token_url", &self.token_url)
            .field("client_id", &self.client_id)
            .field("authentication", &self.authentication)
            .finish_non_exhaustive()
    }
}

/// Settings for the tests of this folder.
#[cfg(test)]
pub(super) mod sample {
    use super::*;

    pub(crate) fn settings() -> TargetSettings {
        TargetSettings {
            platform: Platform::BETA,
            credential_fields: None,
            base_url: "http://127.0.0.1:8081/base/".to_owned(),
            path_prefix: "/api/v1/".to_owned(),
            headers: vec![
                ("Authorization".to_owned(), "{token}".to_owned()),
                ("User-Agent".to_owned(), "{user_agent}".to_owned()),
                ("X-Call".to_owned(), "{call_id}".to_owned()),
            ],
            version_header: Some(("X-Api-Version".to_owned(), "2025-06-26".to_owned())),
            signing: Some(SigningSettings {
                scheme: "hmac-sha256-v1".to_owned(),
                key: Zeroizing::new("key".to_owned()),
                client_id: "gateway".to_owned(),
                client_version: "1".to_owned(),
                ..SigningSettings::default()
            }),
            envelope: true,
            envelope_pointers: None,
            cookies: false,
            query: Vec::new(),
            response_headers: vec!["Location".to_owned()],
            user_agent: "creator-gateway".to_owned(),
            verify: VerifySettings {
                path: "account/me".to_owned(),
                id_pointer: Some("/account/id".to_owned()),
                equals_field: None,
                accepted_statuses: Vec::new(),
                ..VerifySettings::default()
            },
            oauth: None,
            timeouts: CallTimeouts::default(),
            ca_file: None,
            client_certificate_file: None,
            client_key_file: None,
            proxy: Zeroizing::default(),
            private_proxies: false,
            hosts: Vec::new(),
        }
    }
}
