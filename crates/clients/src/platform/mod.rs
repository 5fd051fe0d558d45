//! Calls to the platforms: build, sign, send, stream.
//!
//! A [`PlatformTarget`] is one platform as configured, a [`NativeCall`] is turned into a request by
//! it, and an [`PlatformClient`] sends that over the connections of one core. The native path and
//! query go out byte for byte as they came in; nothing on this way decodes or normalises them.

pub mod breaker;
pub mod envelope;
pub mod headers;
mod inline_waker;
pub mod oauth;
pub mod path;
pub mod verify;

mod account_headers;
mod answer;
mod body;
mod checked;
pub(crate) mod checks;
mod client;
pub(crate) mod connect;
pub(crate) mod connection_pool;
mod cookies;
mod credentials;
mod envelope_kind;
mod envelope_pointers;
mod fault;
mod http1;
mod http2;
mod informational;
mod named_fields;
mod native_hosts;
mod outbound_address;
mod proxy;
mod query_fields;
mod references;
mod response_headers;
mod settings;
mod signing;
pub(crate) mod target;
mod template;
mod timeout;
pub(crate) mod tls;
mod upstream;

pub use crate::error::{CallErrorKind, CallFault, CallPhase, ClientError};
pub use account_headers::AccountHeaders;
pub use answer::{AnswerBody, PlatformResponse, ReadLimits, ReadUpTo};
pub use body::RequestBody;
pub use client::PlatformClient;
pub use cookies::{CookieJar, CookieSet, MalformedCookies};
pub use credentials::{AccountCredentials, MalformedCredentials};
pub use oauth::OauthTokens;
pub use references::CalledWith;
pub use settings::{
    CallTimeouts, ClientAuthentication, CredentialField, EnvelopeSettings, HostSettings,
    OauthSettings, SettingsProblem, TargetSettings, VerifySettings,
};
pub use signing::SigningInput;
pub use signing::settings::{
    ExternalSettings, PartSettings, SigningSettings, ValuesSettings, ValuesSource,
};
pub use signing::values::{VALUES_BYTES_MAX, ValuesFailure};
pub use target::{NativeCall, PlatformTarget};
pub use upstream::UpstreamSettings;
pub use verify::{CredentialVerdict, PresentedAccount};
