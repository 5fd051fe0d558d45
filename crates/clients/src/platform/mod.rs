//! Calls to the platforms: build, sign, send, stream.
//!
//! A [`Target`] is one platform as configured, a [`NativeCall`] is turned into a request by it, and an
//! [`Upstream`] sends that over the connections of one core. The native path and query go out byte for
//! byte as they came in; nothing on this way decodes or normalises them.

pub mod breaker;
pub mod envelope;
pub mod headers;
pub mod oauth;
mod one_task;
pub mod path;
pub mod verify;

mod account_headers;
mod answer;
mod body;
pub(crate) mod checked;
pub(crate) mod client;
pub(crate) mod connect;
pub(crate) mod connections;
mod credentials;
mod fault;
mod informational;
mod link;
mod named_fields;
mod references;
mod response_headers;
mod settings;
mod shared;
mod signing;
pub(crate) mod target;
mod template;
pub(crate) mod tls;
mod within;

pub use crate::error::{ClientError, Fault, Kind, Phase};
pub use account_headers::AccountHeaders;
pub use answer::{Answer, AnswerBody, ReadLimits, ReadUpTo};
pub use body::RequestBody;
pub use client::{Upstream, UpstreamSettings};
pub use credentials::{Credentials, MalformedCredentials};
pub use oauth::Tokens;
pub use references::CalledWith;
pub use settings::{
    ClientAuthentication, CredentialField, OauthSettings, SettingsProblem, SigningSettings,
    TargetSettings, Timeouts, VerifySettings,
};
pub use signing::SigningInput;
pub use target::{NativeCall, Target};
pub use verify::Verification;
