//! What the tests of this crate share.

use std::time::Duration;

use crate::ListenerSettings;

/// A listener on a free port of this machine with one core and ample limits.
pub(crate) fn settings() -> ListenerSettings {
    ListenerSettings {
        listen: "127.0.0.1:0".parse().unwrap(),
        cores: 1,
        tls: None,
        head_timeout: Duration::from_secs(30),
        head_bytes_max: 16_384,
        headers_max: 64,
        write_stall_timeout: Duration::from_secs(30),
        drain_timeout: Duration::from_secs(30),
        connections_max: 10_000,
        connections_per_ip_max: 10_000,
        trusted_proxies: Vec::new(),
    }
}
