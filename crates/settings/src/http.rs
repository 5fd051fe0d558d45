//! `[http]`: the public listener, its limits and its timeouts.

use std::net::SocketAddr;
use std::time::Duration;

use transport::IpNetwork;
use transport::TlsFiles;

use super::problem::ConfigProblem;

/// The largest accepted event of the payment processor, in bytes.
pub const EVENT_BYTES_MAX: usize = 256 * 1_024;

/// Bytes that are counted for a body received in parts, in addition to its own: the memory that
/// waiting for it takes.
pub const READING_BYTES: usize = 4 * 1_024;

/// The longest of the times, in milliseconds.
const DAY_MS: u64 = 86_400_000;
/// More cores than any machine has are a mistake.
const CORES_MAX: usize = 1_024;

/// The public listener.
#[derive(Debug, Clone, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct HttpSection {
    /// Address and port.
    pub listen: SocketAddr,
    /// The URL at which customers reach the service.
    pub public_base_url: String,
    /// Host names that requests may use. Empty: any.
    pub allowed_hosts: Vec<String>,
    /// Addresses or networks of proxies whose forwarding headers are trusted.
    pub trusted_proxies: Vec<String>,
    /// Cores that serve requests; 0: all.
    pub cores: usize,
    /// What happens to a path that the catalogue does not list.
    pub unlisted_routes: UnlistedRoutes,
    /// Shapes of such paths that usage distinguishes, for each customer and UTC day.
    pub unlisted_shapes_max: usize,
    /// Certificate and key of the public listener.
    pub tls: TlsSection,
    /// Sizes and counts.
    pub limits: LimitsSection,
    /// Times.
    pub timeouts: TimeoutsSection,
}

/// PEM files. Both empty: plain HTTP.
#[derive(Debug, Clone, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct TlsSection {
    /// The certificate and its chain.
    pub certificate_file: std::path::PathBuf,
    /// Its private key.
    pub key_file: std::path::PathBuf,
    /// Seconds between two checks of both files for changes; 0: they are read again only on
    /// request.
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
    /// Bytes of all customers' buffered request bodies together.
    pub native_bodies_bytes_max: usize,
    /// The same for one customer.
    pub native_bodies_per_customer_bytes_max: usize,
    /// Bytes of all buffered request bodies on open routes.
    pub open_bodies_bytes_max: usize,
    /// The same for one network.
    pub open_bodies_per_network_bytes_max: usize,
    /// Bytes of an uploaded file.
    pub upload_bytes_max: usize,
    /// Bytes of the rest of an upload's form.
    pub upload_fields_bytes_max: usize,
    /// Bytes of all uploaded files on disk together.
    pub uploads_bytes_max: usize,
    /// The same for one customer.
    pub uploads_per_customer_bytes_max: usize,
    /// Bytes of one response that is buffered to remove its envelope.
    pub envelope_bytes_max: usize,
    /// Bytes of all such responses together.
    pub envelopes_bytes_max: usize,
    /// The same for one customer.
    pub envelopes_per_customer_bytes_max: usize,
    /// Bytes of a response that is read completely before its head is sent.
    pub answer_buffer_bytes_max: usize,
    /// Bytes of any response; 0: no limit.
    pub answer_bytes_max: u64,
    /// Bytes of a response that is stored for an `Idempotency-Key`.
    pub stored_answer_bytes_max: usize,
    /// Open connections.
    pub connections_max: usize,
    /// Open connections from one address.
    pub connections_per_ip_max: usize,
    /// Concurrent native calls in this process.
    pub calls_in_flight_max: usize,
    /// Concurrent native calls of one customer.
    pub calls_per_customer_max: usize,
    /// Concurrent native calls of one account.
    pub calls_per_account_max: usize,
}

/// Times in milliseconds.
#[derive(Debug, Clone, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct TimeoutsSection {
    /// For a request's head; also how long an idle connection is kept.
    pub head_ms: u64,
    /// Without progress on a connection whose peer does not read.
    pub write_stall_ms: u64,
    /// For a whole request body.
    pub body_ms: u64,
    /// After which a request body must arrive at the minimum rate.
    pub body_grace_ms: u64,
    /// For a whole upload.
    pub upload_ms: u64,
    /// Of silence in a response without a length, after which its head is passed on; 0: silence
    /// never does that.
    pub stream_after_ms: u64,
    /// After SIGTERM, for which the service keeps serving while it reports not ready; at most
    /// 300,000.
    pub announce_ms: u64,
    /// For running calls when the service stops.
    pub drain_ms: u64,
}

impl HttpSection {
    /// The networks of the trusted proxies. Malformed entries are skipped here; they are problems
    /// that keep the service from starting.
    pub fn trusted_networks(&self) -> Vec<IpNetwork> {
        self.trusted_proxies.iter().filter_map(|text| text.parse().ok()).collect()
    }

    /// The number of cores that serve requests.
    pub fn cores_in_force(&self) -> usize {
        if self.cores > 0 {
            return self.cores;
        }
        std::thread::available_parallelism().map_or(1, usize::from)
    }

    /// Whether customers reach the service over HTTPS.
    pub fn is_public_https(&self) -> bool {
        self.public_base_url.starts_with("https://")
    }

    /// Replaces port 0 in the public URL with the port that was bound.
    pub fn name_port(&mut self, listening: SocketAddr) {
        if let Some(base) = self.public_base_url.strip_suffix(":0") {
            self.public_base_url = format!("{base}:{}", listening.port());
        }
    }

    /// The certificate and key of the public listener, if configured.
    pub fn tls_files(&self) -> Option<TlsFiles> {
        (!self.tls.certificate_file.as_os_str().is_empty()).then(|| TlsFiles {
            certificate_file: self.tls.certificate_file.clone(),
            key_file: self.tls.key_file.clone(),
        })
    }

    /// How long a stopping service keeps serving while it reports not ready.
    pub const fn announce_timeout(&self) -> Duration {
        Duration::from_millis(self.timeouts.announce_ms)
    }

    /// How long a stopping service waits for running calls.
    pub const fn drain_timeout(&self) -> Duration {
        Duration::from_millis(self.timeouts.drain_ms)
    }

    pub(super) fn check(&self, problems: &mut Vec<ConfigProblem>) {
        let base = self.public_base_url.as_str();
        let parsed = base.parse::<http::Uri>().ok();
        let usable = parsed.as_ref().is_some_and(|uri| {
            matches!(uri.scheme_str(), Some("http" | "https"))
                && uri.authority().is_some_and(is_host)
                && !base.ends_with('/')
                && uri.query().is_none()
                && !base.contains('#')
        });
        if !usable {
            problems.push(ConfigProblem::new(
                "http.public_base_url",
                "must be a URL such as https://api.example.com, without a trailing slash",
            ));
        }
        for (index, host) in self.allowed_hosts.iter().enumerate() {
            if !host.parse().is_ok_and(|host| is_host(&host)) {
                let key = format!("http.allowed_hosts[{index}]");
                let message = "must be a host, with its port if that is not the scheme's own, \
                    such as api.example.com";
                problems.push(ConfigProblem::new(key, message));
            }
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
        if self.cores > CORES_MAX {
            problems.push(ConfigProblem::new("http.cores", "must be 0 to 1,024"));
        }
        self.timeouts.check(problems);
        self.limits.check(problems);
    }
}

/// Whether it is a host, and a port if there is one.
fn is_host(authority: &http::uri::Authority) -> bool {
    let text = authority.as_str();
    !authority.host().is_empty()
        && !text.contains('@')
        && (authority.host() == text || authority.port_u16().is_some())
}

impl TimeoutsSection {
    fn check(&self, problems: &mut Vec<ConfigProblem>) {
        let mut refuse = |name: &str, message: &str| {
            problems.push(ConfigProblem::new(format!("http.timeouts.{name}"), message));
        };
        for (name, value) in [
            ("head_ms", self.head_ms),
            ("write_stall_ms", self.write_stall_ms),
            ("body_ms", self.body_ms),
            ("upload_ms", self.upload_ms),
        ] {
            if !(1..=DAY_MS).contains(&value) {
                refuse(name, "must be 1 to 86,400,000");
            }
        }
        for (name, value) in [
            ("body_grace_ms", self.body_grace_ms),
            ("stream_after_ms", self.stream_after_ms),
            ("drain_ms", self.drain_ms),
        ] {
            if value > DAY_MS {
                refuse(name, "must be 0 to 86,400,000");
            }
        }
        if self.announce_ms > 300_000 {
            refuse("announce_ms", "must be 0 to 300,000");
        }
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

    /// The share of one customer or network must be large enough for one request.
    fn check_shares(&self, problems: &mut Vec<ConfigProblem>) {
        // A body is assembled in a buffer of up to twice its size, in addition to the memory of
        // waiting for it.
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
