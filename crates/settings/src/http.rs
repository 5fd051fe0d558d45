//! `[http]`: the public listener, its limits and its timeouts.

use std::net::SocketAddr;
use std::time::Duration;

use transport::IpNetwork;
use transport::TlsFiles;

use super::ConfigProblem;

/// The largest event of the payment processor that is read.
pub const EVENT_BYTES_MAX: usize = 256 * 1_024;

/// What is counted for something that comes in parts, besides its bytes: what waiting for it takes.
pub const READING_BYTES: usize = 4 * 1_024;

/// The public listener.
#[derive(Debug, Clone, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct HttpSection {
    /// Address and port.
    pub listen: SocketAddr,
    /// How customers reach the service.
    pub public_base_url: String,
    /// Host names that requests may be addressed to; empty: any.
    pub allowed_hosts: Vec<String>,
    /// Addresses or networks of proxies that are believed.
    pub trusted_proxies: Vec<String>,
    /// Cores that serve requests; 0: all.
    pub cores: usize,
    /// What happens to a path that the catalogue does not list.
    pub unlisted_routes: UnlistedRoutes,
    /// Shapes of such paths that are told apart, for each customer and UTC day.
    pub unlisted_shapes_max: usize,
    /// Certificate and key of the public listener.
    pub tls: TlsSection,
    /// Sizes and counts.
    pub limits: LimitsSection,
    /// Times.
    pub timeouts: TimeoutsSection,
}

/// PEM files; both empty: plain HTTP.
#[derive(Debug, Clone, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct TlsSection {
    /// The certificate and its chain.
    pub certificate_file: std::path::PathBuf,
    /// Its private key.
    pub key_file: std::path::PathBuf,
    /// Seconds between two looks at both; 0: only when asked to.
    pub check_every_s: u64,
}

/// What happens to a native path that the catalogue does not list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum UnlistedRoutes {
    /// It is forwarded and logged as `unlisted`.
    Forward,
    /// It is refused with 404.
    Refuse,
}

/// Sizes in bytes, and counts.
#[derive(Debug, Clone, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct LimitsSection {
    /// Bytes of a request's head.
    pub head_bytes_max: usize,
    /// Headers of a request.
    pub headers_max: usize,
    /// Bytes of a JSON body of the service's own routes.
    pub json_body_bytes_max: usize,
    /// Bytes of a native request body.
    pub native_body_bytes_max: usize,
    /// Bytes of all buffered request bodies of customers together.
    pub native_bodies_bytes_max: usize,
    /// The same of one customer.
    pub native_bodies_per_customer_bytes_max: usize,
    /// Bytes of all buffered request bodies on routes that need no caller.
    pub open_bodies_bytes_max: usize,
    /// The same from one network.
    pub open_bodies_per_network_bytes_max: usize,
    /// Bytes of an uploaded file.
    pub upload_bytes_max: usize,
    /// Bytes of the rest of an upload's form.
    pub upload_fields_bytes_max: usize,
    /// Bytes of all uploaded files that wait on disk together.
    pub uploads_bytes_max: usize,
    /// The same of one customer.
    pub uploads_per_customer_bytes_max: usize,
    /// Bytes of one answer that is buffered for its envelope.
    pub envelope_bytes_max: usize,
    /// Bytes of all such answers together.
    pub envelopes_bytes_max: usize,
    /// The same of one customer.
    pub envelopes_per_customer_bytes_max: usize,
    /// Bytes of an answer that is read whole before its head is sent.
    pub answer_buffer_bytes_max: usize,
    /// Bytes of any answer; 0: no limit.
    pub answer_bytes_max: u64,
    /// Bytes of an answer kept for an `Idempotency-Key`.
    pub stored_answer_bytes_max: usize,
    /// Open connections.
    pub connections_max: usize,
    /// Open connections of one address.
    pub connections_per_ip_max: usize,
    /// Native calls in flight in this process.
    pub calls_in_flight_max: usize,
    /// Native calls in flight for one customer.
    pub calls_per_customer_max: usize,
    /// Native calls in flight for one connected account.
    pub calls_per_account_max: usize,
}

/// Times in milliseconds.
#[derive(Debug, Clone, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct TimeoutsSection {
    /// For a request's head; also how long an idle connection is kept.
    pub head_ms: u64,
    /// Without progress of a connection that does not read.
    pub write_stall_ms: u64,
    /// For a whole request body.
    pub body_ms: u64,
    /// Until a request body must come at the lowest rate.
    pub body_grace_ms: u64,
    /// For a whole upload.
    pub upload_ms: u64,
    /// Without a byte of a response that has no length, after which its head is passed on; 0: never for that.
    pub stream_after_ms: u64,
    /// For which a server that was told to stop by SIGTERM serves on without being ready; at most 300,000.
    pub announce_ms: u64,
    /// For running calls when the server stops.
    pub drain_ms: u64,
}

impl HttpSection {
    /// The networks of proxies that are believed. Texts that are none are problems, which keep the service from starting.
    pub fn trusted_networks(&self) -> Vec<IpNetwork> {
        self.trusted_proxies.iter().filter_map(|text| text.parse().ok()).collect()
    }

    /// The number of cores to serve with.
    pub fn cores_in_force(&self) -> usize {
        if self.cores > 0 {
            return self.cores;
        }
        std::thread::available_parallelism().map_or(1, usize::from)
    }

    /// Whether customers reach the service by https.
    pub fn is_public_https(&self) -> bool {
        self.public_base_url.starts_with("https://")
    }

    /// Puts the port that was taken in the place of port 0 in the public address.
    pub fn name_port(&mut self, listening: SocketAddr) {
        if let Some(base) = self.public_base_url.strip_suffix(":0") {
            self.public_base_url = format!("{base}:{}", listening.port());
        }
    }

    /// The certificate and key of the public listener, if it has them.
    pub fn tls_files(&self) -> Option<TlsFiles> {
        (!self.tls.certificate_file.as_os_str().is_empty()).then(|| TlsFiles {
            certificate_file: self.tls.certificate_file.clone(),
            key_file: self.tls.key_file.clone(),
        })
    }

    /// How long a server that is about to stop serves on without being ready.
    pub const fn announce_timeout(&self) -> Duration {
        Duration::from_millis(self.timeouts.announce_ms)
    }

    /// How long a stopping server waits.
    pub const fn drain_timeout(&self) -> Duration {
        Duration::from_millis(self.timeouts.drain_ms)
    }

    pub(super) fn check(&self, problems: &mut Vec<ConfigProblem>) {
        let base = self.public_base_url.as_str();
        let parsed = base.parse::<http::Uri>().ok();
        let usable = parsed.as_ref().is_some_and(|uri| {
            matches!(uri.scheme_str(), Some("http" | "https"))
                && uri.host().is_some()
                && !base.ends_with('/')
                && uri.query().is_none()
        });
        if !usable {
            problems.push(ConfigProblem::new(
                "http.public_base_url",
                "must be such as https://api.example.com, without a slash at its end",
            ));
        }
        for (index, proxy) in self.trusted_proxies.iter().enumerate() {
            if let Err(malformed) = proxy.parse::<IpNetwork>() {
                let key = format!("http.trusted_proxies[{index}]");
                problems.push(ConfigProblem::new(key, malformed.to_string()));
            }
        }
        let (certificate, key) = (&self.tls.certificate_file, &self.tls.key_file);
        if certificate.as_os_str().is_empty() != key.as_os_str().is_empty() {
            problems
                .push(ConfigProblem::new("http.tls", "needs both certificate_file and key_file"));
        }
        if self.tls.check_every_s > 86_400 {
            problems.push(ConfigProblem::new("http.tls.check_every_s", "must be 0 to 86,400"));
        }
        if self.timeouts.announce_ms > 300_000 {
            problems.push(ConfigProblem::new("http.timeouts.announce_ms", "must be 0 to 300,000"));
        }
        self.limits.check(problems);
    }
}

impl LimitsSection {
    fn check(&self, problems: &mut Vec<ConfigProblem>) {
        let positive = [
            ("head_bytes_max", self.head_bytes_max),
            ("headers_max", self.headers_max),
            ("json_body_bytes_max", self.json_body_bytes_max),
            ("native_body_bytes_max", self.native_body_bytes_max),
            ("upload_bytes_max", self.upload_bytes_max),
            ("upload_fields_bytes_max", self.upload_fields_bytes_max),
            ("connections_max", self.connections_max),
            ("connections_per_ip_max", self.connections_per_ip_max),
            ("calls_in_flight_max", self.calls_in_flight_max),
            ("calls_per_customer_max", self.calls_per_customer_max),
            ("calls_per_account_max", self.calls_per_account_max),
        ];
        for (key, value) in positive {
            if value == 0 {
                problems
                    .push(ConfigProblem::new(format!("http.limits.{key}"), "must be above zero"));
            }
        }
        if self.native_bodies_bytes_max < self.native_body_bytes_max {
            problems.push(ConfigProblem::new(
                "http.limits.native_bodies_bytes_max",
                "must be at least native_body_bytes_max",
            ));
        }
        self.check_shares(problems);
        if self.uploads_bytes_max < self.upload_bytes_max {
            problems.push(ConfigProblem::new(
                "http.limits.uploads_bytes_max",
                "must be at least upload_bytes_max",
            ));
        }
        if self.envelopes_bytes_max < self.envelope_bytes_max {
            problems.push(ConfigProblem::new(
                "http.limits.envelopes_bytes_max",
                "must be at least envelope_bytes_max",
            ));
        }
    }

    /// What one may have of what all share must be enough for one request.
    fn check_shares(&self, problems: &mut Vec<ConfigProblem>) {
        // A body is put together in memory of up to twice its size, beside what waiting for it takes.
        let whole = |bytes: usize| bytes.saturating_mul(2).saturating_add(READING_BYTES);
        let open_bytes_max = self.json_body_bytes_max.max(EVENT_BYTES_MAX);
        let shares = [
            (
                "native_bodies_per_customer_bytes_max",
                self.native_bodies_per_customer_bytes_max,
                whole(self.native_body_bytes_max.max(self.json_body_bytes_max)),
            ),
            (
                "open_bodies_per_network_bytes_max",
                self.open_bodies_per_network_bytes_max,
                whole(open_bytes_max),
            ),
            ("open_bodies_bytes_max", self.open_bodies_bytes_max, whole(open_bytes_max)),
            (
                "uploads_per_customer_bytes_max",
                self.uploads_per_customer_bytes_max,
                self.upload_bytes_max.saturating_add(READING_BYTES),
            ),
            (
                "envelopes_per_customer_bytes_max",
                self.envelopes_per_customer_bytes_max,
                self.envelope_bytes_max,
            ),
        ];
        for (key, share, least) in shares {
            if share < least {
                let message = format!("must be {least} or more: enough for one request");
                problems.push(ConfigProblem::new(format!("http.limits.{key}"), message));
            }
        }
    }
}
