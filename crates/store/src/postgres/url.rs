//! The URL of a PostgreSQL database, as libpq reads it: with several hosts, and without unknown
//! parameters.
//!
//! sqlx reads one host and ignores unknown parameters, so the hosts are split here, and each
//! becomes a URL of its own.

use std::str::FromStr as _;
use std::time::Duration;

use domain::hosts::is_loopback_host;
use sqlx::ConnectOptions as _;
use sqlx::postgres::{PgConnectOptions, PgSslMode};

use crate::StoreError;

/// How long connecting to one host may take, unless `connect_timeout` says otherwise.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// The longest `connect_timeout`, in seconds.
const CONNECT_TIMEOUT_MAX_S: u64 = 30;
/// The name of connections in `pg_stat_activity`, unless the URL sets another.
const APPLICATION_NAME: &str = "creator-gateway";
/// Size of the prepared-statement cache of a connection.
const STATEMENTS_MAX: usize = 256;

/// Parameters passed to the driver unchanged, as is `options[NAME]`.
const PARAMETERS: &[&str] = &[
    "application_name",
    "dbname",
    "hostaddr",
    "options",
    "password",
    "sslcert",
    "ssl-cert",
    "sslkey",
    "ssl-key",
    "sslmode",
    "ssl-mode",
    "sslrootcert",
    "ssl-root-cert",
    "ssl-ca",
    "statement-cache-capacity",
    "user",
];

/// The servers of a database, and how to connect to them.
#[derive(Debug, Clone)]
pub(super) struct DatabaseUrl {
    /// In the order of the URL; at least one.
    pub(super) hosts: Vec<DatabaseHost>,
    /// Timeout for connecting to one of them.
    pub(super) connect_timeout: Duration,
}

/// A server that may hold the database.
#[derive(Debug, Clone)]
pub(super) struct DatabaseHost {
    /// Name and port, for messages.
    pub(super) name: String,
    pub(super) options: PgConnectOptions,
}

/// The parts of a database URL.
struct UrlParts<'a> {
    scheme: &'a str,
    /// The user and the password, with the trailing `@`.
    user: &'a str,
    hosts: &'a str,
    path: &'a str,
    query: &'a str,
}

impl DatabaseUrl {
    /// Reads a URL.
    pub(super) fn parse(url: &str) -> Result<Self, StoreError> {
        let parts = UrlParts::of(url)?;
        let mut hosts: Vec<String> = parts.hosts.split(',').map(str::to_owned).collect();
        let (mut named, mut own_ports) = (Vec::new(), Vec::new());
        let mut connect_timeout = CONNECT_TIMEOUT;
        let mut passed_on = form_urlencoded::Serializer::new(String::new());
        // The URL's own value comes later and takes precedence.
        passed_on.append_pair("application_name", APPLICATION_NAME);
        for (name, value) in form_urlencoded::parse(parts.query.as_bytes()) {
            match &*name {
                "host" => named = value.split(',').map(str::to_owned).collect(),
                "port" => own_ports = value.split(',').map(str::to_owned).collect(),
                "connect_timeout" => connect_timeout = read_connect_timeout(&value)?,
                "target_session_attrs" => check_target(&value)?,
                known if PARAMETERS.contains(&known) || known.starts_with("options[") => {
                    passed_on.append_pair(&name, &value);
                }
                unknown => return Err(unknown_parameter(unknown)),
            }
        }
        if !named.is_empty() {
            hosts = named.iter().map(|host| encoded(host)).collect();
        }
        let query = passed_on.finish();
        let hosts = with_ports(hosts, &own_ports)?
            .into_iter()
            .map(|host| parts.host(host, &query))
            .collect::<Result<Vec<DatabaseHost>, StoreError>>()?;
        Ok(Self { hosts, connect_timeout })
    }
}

impl<'a> UrlParts<'a> {
    fn of(url: &'a str) -> Result<Self, StoreError> {
        let (scheme, rest) = url.split_once("://").ok_or(StoreError::UnknownUrl)?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        if query.contains('@') || path.contains('@') {
            // Most likely a password that contains `/` or `?`. Without this check an error message
            // would show a part of it.
            let message = "characters such as / ? @ in the user, the password or a parameter must be written as %2F, %3F, %40";
            return Err(StoreError::Url(message.to_owned()));
        }
        let user_length = authority.rfind('@').map_or(0, |at| at + 1);
        let (user, hosts) = authority.split_at(user_length);
        Ok(Self { scheme, user, hosts, path, query })
    }

    /// One of the hosts, as a URL of its own.
    fn host(&self, name: String, query: &str) -> Result<DatabaseHost, StoreError> {
        let Self { scheme, user, path, .. } = self;
        let url = format!("{scheme}://{user}{name}/{path}?{query}");
        let options = PgConnectOptions::from_str(&url)
            .map_err(|error| StoreError::Url(format!("{error}")))?
            .statement_cache_capacity(STATEMENTS_MAX)
            .disable_statement_logging();
        let options = encrypted(options, query)?;
        let name = if name.is_empty() { "localhost".to_owned() } else { name };
        Ok(DatabaseHost { name, options })
    }
}

/// Connections to another machine are encrypted, and its certificate is checked, unless the URL
/// says otherwise. The driver's own default would go on in the clear whenever the server, or
/// somebody in between, says that it knows no TLS.
fn encrypted(options: PgConnectOptions, query: &str) -> Result<PgConnectOptions, StoreError> {
    let is_local = options.get_socket().is_some() || is_loopback_host(options.get_host());
    if is_local || !matches!(options.get_ssl_mode(), PgSslMode::Prefer | PgSslMode::Allow) {
        return Ok(options);
    }
    let is_said = form_urlencoded::parse(query.as_bytes())
        .any(|(name, _)| matches!(&*name, "sslmode" | "ssl-mode"));
    if is_said {
        let message = "sslmode must be verify-full, verify-ca, require or disable for a server on another machine: \
                       the others send everything unencrypted if the server asks for it";
        return Err(StoreError::Url(message.to_owned()));
    }
    Ok(options.ssl_mode(PgSslMode::VerifyFull))
}

/// Adds a port to each host: one port for all of them, or one for each.
fn with_ports(hosts: Vec<String>, ports: &[String]) -> Result<Vec<String>, StoreError> {
    if ports.len() > 1 && ports.len() != hosts.len() {
        let message = format!("the URL has {} ports for {} hosts", ports.len(), hosts.len());
        return Err(StoreError::Url(message));
    }
    let port_of = |index: usize| ports.get(index).or(ports.first());
    let joined = |(index, host): (usize, String)| match port_of(index) {
        Some(port) => format!("{host}:{port}"),
        None => host,
    };
    Ok(hosts.into_iter().enumerate().map(joined).collect())
}

/// A host as written in a URL: the folder of a socket is percent-encoded, an IPv6 address gets
/// brackets.
fn encoded(host: &str) -> String {
    if host.starts_with('/') {
        return form_urlencoded::byte_serialize(host.as_bytes()).collect();
    }
    if host.contains(':') && !host.starts_with('[') { format!("[{host}]") } else { host.to_owned() }
}

fn read_connect_timeout(value: &str) -> Result<Duration, StoreError> {
    match value.parse() {
        Ok(seconds @ 1..=CONNECT_TIMEOUT_MAX_S) => Ok(Duration::from_secs(seconds)),
        _ => Err(StoreError::Url(format!(
            "connect_timeout must be 1 to {CONNECT_TIMEOUT_MAX_S} seconds, not {value}"
        ))),
    }
}

/// The service needs a server that accepts writes, and checks that itself after connecting.
fn check_target(value: &str) -> Result<(), StoreError> {
    if matches!(value, "read-write" | "primary") {
        return Ok(());
    }
    Err(StoreError::Url(format!(
        "target_session_attrs must be read-write or primary, not {value}: calls are metered on a server that \
         accepts writes"
    )))
}

fn unknown_parameter(name: &str) -> StoreError {
    StoreError::Url(format!(
        "unknown parameter {name}; supported are connect_timeout, host, port, target_session_attrs, {}",
        PARAMETERS.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(url: &str) -> Vec<(String, u16)> {
        let url = DatabaseUrl::parse(url).unwrap();
        let address =
            |host: &DatabaseHost| (host.options.get_host().to_owned(), host.options.get_port());
        url.hosts.iter().map(address).collect()
    }

    fn refusal(url: &str) -> String {
        DatabaseUrl::parse(url).unwrap_err().to_string()
    }

    #[test]
    fn hosts_in_a_list_have_their_own_or_a_common_port() {
        let pair = |host: &str, port| (host.to_owned(), port);
        assert_eq!(
            addresses("postgres://gateway:s%40cret@a:1,b:2,[::1]:3/books?sslmode=disable"),
            [pair("a", 1), pair("b", 2), pair("[::1]", 3)]
        );
        assert_eq!(
            addresses("postgresql:///books?host=a,b&port=6432&user=gateway"),
            [pair("a", 6432), pair("b", 6432)]
        );
        assert_eq!(addresses("postgres:///books?host=a,b&port=1,2"), [pair("a", 1), pair("b", 2)]);
        assert_eq!(addresses("postgres://gateway@a/books"), [pair("a", 5432)]);
    }

    #[test]
    fn all_hosts_share_the_user_and_the_database() {
        let url = DatabaseUrl::parse("postgres://gate%40way@a:1,b:2/books").unwrap();

        for host in url.hosts {
            assert_eq!(host.options.get_username(), "gate@way");
            assert_eq!(host.options.get_database(), Some("books"));
        }
    }

    #[test]
    fn the_url_can_set_the_application_name() {
        let name_of = |url| {
            let url = DatabaseUrl::parse(url).unwrap();
            url.hosts[0].options.get_application_name().map(str::to_owned)
        };

        assert_eq!(name_of("postgres://a/books").as_deref(), Some("creator-gateway"));
        assert_eq!(name_of("postgres://a/books?application_name=x").as_deref(), Some("x"));
    }

    #[test]
    fn a_socket_is_given_by_its_folder() {
        let url = DatabaseUrl::parse("postgres:///books?host=/var/run/postgresql").unwrap();

        let folder = url.hosts[0].options.get_socket().map(|path| path.display().to_string());
        assert_eq!(folder.as_deref(), Some("/var/run/postgresql"));
    }

    #[test]
    fn unknown_and_invalid_parameters_are_refused() {
        assert!(
            refusal("postgres://a/books?target_session_attr=any")
                .contains("unknown parameter target_session_attr;")
        );
        assert!(
            refusal("postgres://a/books?target_session_attrs=any")
                .contains("read-write or primary")
        );
        assert!(refusal("postgres://a/books?connect_timeout=0").contains("1 to 30 seconds"));
        assert!(refusal("postgres:///books?host=a,b,c&port=1,2").contains("2 ports for 3 hosts"));
        assert!(refusal("postgres://a:port/books").contains("invalid port"));
    }

    #[test]
    fn an_unencoded_password_is_refused_without_being_shown() {
        for url in ["postgres://gateway:secr/et@a/books", "postgres://gateway:secr?et@a/books"] {
            let refusal = refusal(url);

            assert!(refusal.contains("%2F"), "{refusal}");
            assert!(!refusal.contains("secr") && !refusal.contains("et@"), "{refusal}");
        }
    }

    #[test]
    fn connections_to_another_machine_are_encrypted_unless_the_url_says_otherwise() {
        let mode = |url: &str| {
            let host = DatabaseUrl::parse(url).unwrap().hosts.remove(0);
            format!("{:?}", host.options.get_ssl_mode())
        };

        for local in [
            "postgres://gateway@127.0.0.1:5432/books",
            "postgres://gateway@localhost/books",
            "postgres://gateway@[::1]/books",
            "postgres:///books?host=/var/run/postgresql",
        ] {
            assert_eq!(mode(local), "Prefer", "{local}");
        }
        for url in ["postgres://a/books", "postgres://10.0.0.1,b/books", "postgres:///x?host=a"] {
            assert_eq!(mode(url), "VerifyFull", "{url}");
        }
        for (said, expected) in [
            ("sslmode=disable", "Disable"),
            ("sslmode=require", "Require"),
            ("ssl-mode=verify-ca&sslrootcert=/etc/ca.pem", "VerifyCa"),
        ] {
            assert_eq!(mode(&format!("postgres://a/books?{said}")), expected);
        }
        for said in ["sslmode=prefer", "ssl-mode=allow"] {
            let refusal = refusal(&format!("postgres://a/books?{said}"));
            assert!(refusal.contains("verify-full"), "{refusal}");
        }
    }

    #[test]
    fn the_connect_timeout_can_be_set() {
        let of = |url| DatabaseUrl::parse(url).unwrap().connect_timeout;

        assert_eq!(of("postgres://a/books"), Duration::from_secs(3));
        assert_eq!(of("postgres://a/books?connect_timeout=7"), Duration::from_secs(7));
        assert_eq!(
            of("postgres://a/books?target_session_attrs=read-write"),
            Duration::from_secs(3)
        );
    }
}
