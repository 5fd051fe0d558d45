//! What holds for every connection to a platform: how long it is kept, and how large a head may be.

use std::time::Duration;

/// The longest head of an answer, in bytes.
pub(super) const HEAD_BYTES_MAX: usize = 65_536;
/// The most headers of an answer.
pub(super) const HEADERS_MAX: usize = 100;

/// How many connections wait for a next request, and how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpstreamSettings {
    /// An idle connection is closed after this time.
    pub idle: Duration,
    /// The most idle connections to one host.
    pub idle_connections_max: usize,
}

impl Default for UpstreamSettings {
    fn default() -> Self {
        Self { idle: Duration::from_secs(30), idle_connections_max: 16_000 }
    }
}
