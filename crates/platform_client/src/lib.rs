//! Calls to the platforms: build, sign, send, stream.
//!
//! A [`PlatformTarget`] is one platform as configured, a [`NativeCall`] is turned into a request by
//! it, and an [`PlatformClient`] sends that over the connections of one core. The native path and
//! query go out byte for byte as they came in; nothing on this way decodes or normalises them.
//!
//! Connections are those of `outbound`. Nothing here decides what a call costs.

pub mod breaker;
pub mod envelope;
pub mod headers;
pub mod oauth;
pub mod path;
pub mod verify;

mod account_headers;
mod checked;
mod checks;
mod client;
mod cookies;
mod credentials;
mod envelope_kind;
mod envelope_pointers;
mod named_fields;
mod native_hosts;
mod proxy;
mod query_fields;
mod references;
mod response_headers;
mod settings;
mod signing;
mod target;
mod template;

pub use account_headers::AccountHeaders;
pub use client::PlatformClient;
pub use cookies::{CookieJar, CookieSet, MalformedCookies};
pub use credentials::{AccountCredentials, MalformedCredentials};
pub use oauth::OauthTokens;
pub use outbound::{
    AnswerBody, CallErrorKind, CallFault, CallPhase, CallTimeouts, ClientError, PlatformResponse,
    ReadLimits, ReadUpTo, RequestBody, SettingsProblem, UpstreamSettings,
};
pub use references::CalledWith;
pub use settings::{
    ClientAuthentication, CredentialField, EnvelopeSettings, HostSettings, OauthSettings,
    TargetSettings, VerifySettings,
};
pub use signing::SigningInput;
pub use signing::settings::{
    ExternalSettings, PartSettings, SigningSettings, ValuesSettings, ValuesSource,
};
pub use signing::values::{VALUES_BYTES_MAX, ValuesFailure};
pub use target::{NativeCall, PlatformTarget};
pub use verify::{CredentialVerdict, PresentedAccount};
