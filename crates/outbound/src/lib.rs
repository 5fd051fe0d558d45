//! How is the other side reached? HTTP connections to the outside: made, kept, and never trusted.
//!
//! A [`ConnectionPool`] sends a request over HTTP/1.1 or HTTP/2, with TLS or through a proxy, and
//! returns the head of the response with a body still to be read. Each phase has a deadline, each
//! response a limit of size, and an error says whose fault it was and whether the call may be tried
//! again. Nothing here knows who is called, and nothing is read from the environment: where the
//! other side is comes from the caller's settings alone.

mod answer;
mod body;
mod connect;
mod connection_pool;
mod error;
mod fault;
mod http1;
mod http2;
mod informational;
mod inline_waker;
mod outbound_address;
mod proxy_address;
mod settings;
mod signer_socket;
mod timeout;
mod tls;
mod upstream;

pub use answer::{AnswerBody, PlatformResponse, ReadLimits, ReadUpTo};
pub use body::{BodyContentView, RequestBody};
pub use connect::ConnectionSettings;
pub use connection_pool::ConnectionPool;
pub use error::{CallErrorKind, CallFault, CallPhase, ClientError};
pub use proxy_address::ProxyAddress;
pub use settings::{AnswerPatience, CallTimeouts, SettingsProblem, absolute_uri};
pub use signer_socket::{SignerAddress, SignerConnections};
pub use tls::{ClientIdentity, TlsProblem, client_config, client_config_with};
pub use upstream::UpstreamSettings;
