//! Where the payment processor is, and how long it may take.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use zeroize::Zeroizing;

/// The version of the processor's interface that every request asks for. Objects are read
/// tolerantly, since events come in the version that their endpoint was made with.
pub const API_VERSION: &str = "2026-03-25.dahlia";

/// The processor as configured.
#[derive(Clone)]
pub struct ProcessorSettings {
    /// Scheme (`http` or `https`), host, and port where it is not the usual one; without a path.
    pub base_url: String,
    /// What requests prove themselves with, as a bearer token.
    pub secret_key: Zeroizing<String>,
    /// The longest that one attempt may take, from connecting to the last byte of the answer.
    pub timeout: Duration,
    /// Attempts after the first.
    pub retries_max: u32,
    /// The pause before the second attempt; it doubles before each further one.
    pub retry_pause: Duration,
    /// A PEM file of certificate authorities that are trusted besides the public ones.
    pub ca_file: Option<PathBuf>,
}

impl fmt::Debug for ProcessorSettings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ProcessorSettings")
            .field("base_url", &self.base_url)
            .field("timeout", &self.timeout)
            .field("retries_max", &self.retries_max)
            .field("retry_pause", &self.retry_pause)
            .field("ca_file", &self.ca_file)
            .finish_non_exhaustive()
    }
}
