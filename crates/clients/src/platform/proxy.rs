//! Outbound proxies: where they are, and a connection through one.
//!
//! An HTTP proxy is asked for a tunnel with CONNECT (RFC 9110, section 9.3.6), a SOCKS5 proxy by
//! RFC 1928 and RFC 1929. Either looks the platform's name up itself, and TLS goes through it from
//! end to end. What an account's credentials name may be anything, so a proxy of theirs is on a
//! public address unless the configuration says otherwise.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::uri::Authority;
use http::{HeaderValue, Uri};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower_service::Service as _;
use zeroize::Zeroizing;

use super::credentials::AccountCredentials;
use super::outbound_address::{OutboundResolver, is_public_host};
use super::settings::SettingsProblem;
use super::template::TextTemplate;
use crate::error::ClientError;

/// The longest user name and the longest password of SOCKS5, in bytes.
const SOCKS_TEXT_BYTES_MAX: usize = 255;

/// What an address of a proxy must be.
const WANTED: &str = "must be http://host:port or socks5://host:port, with user:password@ before the host if need be";

/// A proxy and how this service proves itself to it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct ProxyAddress {
    protocol: ProxyProtocol,
    /// Host and port.
    authority: String,
    login: Option<ProxyLogin>,
    /// Whether it may be on this machine or in a private network.
    pub(super) may_be_private: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum ProxyProtocol {
    Http,
    Socks5,
}

#[derive(Clone, PartialEq, Eq)]
struct ProxyLogin {
    user: Zeroizing<String>,
    password: Zeroizing<String>,
}

/// The proxy of a platform's accounts, as it is configured.
#[derive(Clone)]
pub(super) enum ProxyChoice {
    /// None.
    Direct,
    /// The same for all accounts.
    Fixed(Arc<ProxyAddress>),
    /// What a credential says; none where the account does not have it.
    Field { field: String, may_be_private: bool },
    /// Made of credentials, all of which an account must have.
    Template { template: TextTemplate, may_be_private: bool },
}

/// The proxy that a request goes through, kept with the request.
#[derive(Clone)]
pub(super) struct ProxyRoute(pub(super) Arc<ProxyAddress>);

/// Why there is no connection through a proxy.
type ProxyFailure = Box<dyn std::error::Error + Send + Sync>;

impl ProxyChoice {
    /// Checks the settings; problems are added with the names of their keys.
    pub(super) fn new(
        text: &str,
        may_be_private: bool,
        problems: &mut Vec<SettingsProblem>,
    ) -> Self {
        let mut refuse = |message: &str| {
            problems.push(SettingsProblem::new("proxy", message));
            Self::Direct
        };
        if text.is_empty() {
            return Self::Direct;
        }
        let template = match TextTemplate::parse(text) {
            Ok(template) => template,
            Err(message) => return refuse(message),
        };
        if template.names_call() {
            return refuse("must not name {call_id}: a proxy belongs to an account");
        }
        if let Some(field) = template.only_field() {
            return Self::Field { field: field.to_owned(), may_be_private };
        }
        if template.fields().next().is_some() {
            // Whatever stands in the places, the rest must be an address.
            return match ProxyAddress::parse(&template.filled_with("1"), true) {
                Ok(_) => Self::Template { template, may_be_private },
                Err(message) => refuse(message),
            };
        }
        // The operator's own may be anywhere.
        match ProxyAddress::parse(text, true) {
            Ok(address) => Self::Fixed(Arc::new(address)),
            Err(message) => refuse(message),
        }
    }

    /// The proxy of an account, if it has one.
    pub(super) fn of_account(
        &self,
        credentials: &AccountCredentials,
    ) -> Result<Option<Arc<ProxyAddress>>, ClientError> {
        let (text, may_be_private) = match self {
            Self::Direct => return Ok(None),
            Self::Fixed(address) => return Ok(Some(Arc::clone(address))),
            Self::Field { field, may_be_private } => match credentials.get(field) {
                Some(text) => (Zeroizing::new(text.to_owned()), *may_be_private),
                None => return Ok(None),
            },
            Self::Template { template, may_be_private } => {
                let absent = || ClientError::build("a credential of the account's proxy is absent");
                (template.fill_path(credentials, "").ok_or_else(absent)?, *may_be_private)
            }
        };
        let address = ProxyAddress::parse(&text, may_be_private)
            .map_err(|message| ClientError::build(format!("the account's proxy {message}")))?;
        Ok(Some(Arc::new(address)))
    }

    /// The credentials that it names.
    pub(super) fn fields(&self) -> Vec<&str> {
        match self {
            Self::Direct | Self::Fixed(_) => Vec::new(),
            Self::Field { field, .. } => vec![field],
            Self::Template { template, .. } => template.fields().collect(),
        }
    }
}

impl ProxyAddress {
    /// Reads an address. What is said of one that cannot be read repeats nothing of it.
    pub(super) fn parse(text: &str, may_be_private: bool) -> Result<Self, &'static str> {
        let (scheme, rest) = text.split_once("://").ok_or(WANTED)?;
        let protocol = match scheme {
            "http" => ProxyProtocol::Http,
            "socks5" | "socks5h" => ProxyProtocol::Socks5,
            _ => return Err(WANTED),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (login, place) = match rest.rsplit_once('@') {
            Some((login, place)) => (Some(ProxyLogin::parse(login, protocol)?), place),
            None => (None, rest),
        };
        let authority: Authority = place.parse().map_err(|_| WANTED)?;
        let has_port = authority.port_u16().is_some_and(|port| port != 0);
        if authority.host().is_empty() || !has_port || place.contains('@') {
            return Err(WANTED);
        }
        if !may_be_private && !is_public_host(authority.host()) {
            return Err("must not be on this machine or in a private network");
        }
        Ok(Self { protocol, authority: place.to_owned(), login, may_be_private })
    }

    /// A connection to the host of `to`, made by the proxy.
    pub(super) async fn connect(
        &self,
        http: HttpConnector<OutboundResolver>,
        to: &Uri,
    ) -> Result<TokioIo<TcpStream>, ProxyFailure> {
        let proxy: Uri = format!("http://{}", self.authority).parse()?;
        let to = with_port(to)?;
        match self.protocol {
            ProxyProtocol::Http => {
                let mut tunnel = Tunnel::new(proxy, http);
                if let Some(login) = &self.login {
                    tunnel = tunnel.with_auth(login.basic()?);
                }
                Ok(tunnel.call(to).await?)
            }
            ProxyProtocol::Socks5 => {
                let mut socks = SocksV5::new(proxy, http);
                if let Some(ProxyLogin { user, password }) = &self.login {
                    socks = socks.with_auth(user.to_string(), password.to_string());
                }
                Ok(socks.call(to).await?)
            }
        }
    }
}

impl ProxyLogin {
    fn parse(text: &str, protocol: ProxyProtocol) -> Result<Self, &'static str> {
        const UNREADABLE: &str = "has a user or a password that is not percent-encoded text";
        let (user, password) = text.split_once(':').unwrap_or((text, ""));
        let user = decoded(user).ok_or(UNREADABLE)?;
        let password = decoded(password).ok_or(UNREADABLE)?;
        let is_too_long = |part: &str| part.len() > SOCKS_TEXT_BYTES_MAX;
        match protocol {
            ProxyProtocol::Http if user.contains(':') => {
                Err("has a user with a colon, which no HTTP proxy can be told")
            }
            ProxyProtocol::Socks5 if is_too_long(&user) || is_too_long(&password) => {
                Err("has a user or a password of more than 255 bytes, which SOCKS5 cannot carry")
            }
            ProxyProtocol::Http | ProxyProtocol::Socks5 => Ok(Self { user, password }),
        }
    }

    /// RFC 7617.
    fn basic(&self) -> Result<HeaderValue, ProxyFailure> {
        let pair = Zeroizing::new(format!("{}:{}", *self.user, *self.password));
        let text = Zeroizing::new(format!("Basic {}", STANDARD.encode(pair.as_bytes())));
        Ok(HeaderValue::from_str(&text)?)
    }
}

impl Hash for ProxyLogin {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.user.as_str(), self.password.as_str()).hash(state);
    }
}

/// The same address with its port written out, which proxies have to be told.
fn with_port(to: &Uri) -> Result<Uri, ProxyFailure> {
    if to.port().is_some() {
        return Ok(to.clone());
    }
    let host = to.host().ok_or("an address without a host")?;
    let scheme = to.scheme_str().unwrap_or("https");
    let port = if scheme == "http" { 80 } else { 443 };
    Ok(format!("{scheme}://{host}:{port}/").parse()?)
}

/// Text with its escapes decoded; nothing where it is no text then, or holds control characters.
fn decoded(text: &str) -> Option<Zeroizing<String>> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(text.len()));
    let mut rest = text.as_bytes();
    while let [byte, after @ ..] = rest {
        rest = match (byte, after) {
            (b'%', [high, low, after @ ..]) => {
                let digit = |code: &u8| char::from(*code).to_digit(16);
                let value = (digit(high)? << 4) | digit(low)?;
                bytes.push(u8::try_from(value).ok()?);
                after
            }
            (b'%', _) => return None,
            (byte, after) => {
                bytes.push(*byte);
                after
            }
        };
    }
    let plain = Zeroizing::new(str::from_utf8(&bytes).ok()?.to_owned());
    (!plain.chars().any(char::is_control)).then_some(plain)
}

impl std::fmt::Debug for ProxyAddress {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("ProxyAddress")
            .field("protocol", &self.protocol)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> Option<String> {
        let mut problems = Vec::new();
        drop(ProxyChoice::new(text, false, &mut problems));
        problems.pop().map(|problem| format!("{}: {}", problem.key, problem.message))
    }

    #[test]
    fn an_address_of_a_proxy_is_http_or_socks5_with_a_host_and_a_port() {
        for text in [
            "",
            "http://127.0.0.1:3128",
            "http://user:p%40ss@proxy.example:80/",
            "socks5://proxy.example:1080",
            "socks5h://[::1]:1080",
            "{proxy}",
            "http://{proxy_user}:{proxy_password}@gate.example:7000",
            "socks5://{extra.host}:{extra.port}",
        ] {
            assert_eq!(problem(text), None, "{text}");
        }
        for text in [
            "hush",
            "https://hush.example:443",
            "ftp://hush.example:21",
            "http://hush.example",
            "http://hush.example:0",
            "http://hush.example:99999",
            "http://hush.example:80/path",
            "http://hush%:x@proxy.example:80",
            "http://hush%0a@proxy.example:80",
            "http://hu%3ash:x@proxy.example:80",
            "socks5://:80",
            "{proxy",
            "{scheme}://proxy.example:80",
            "http://{call_id}.example:80",
        ] {
            let problem = problem(text).unwrap();
            assert!(problem.starts_with("proxy: ") && !problem.contains("hush"), "{problem}");
        }
    }

    fn of_account(template: &str, json: &str) -> Result<Option<Arc<ProxyAddress>>, ClientError> {
        let choice = ProxyChoice::new(template, false, &mut Vec::new());
        choice.of_account(&AccountCredentials::from_json(json.as_bytes()).unwrap())
    }

    #[test]
    fn an_account_brings_its_proxy_or_has_none() {
        let given = of_account("{proxy}", r#"{"proxy":"socks5://u:p%2F@8.8.8.8:1"}"#).unwrap();
        let login = given.unwrap().login.clone().unwrap();
        assert_eq!((login.user.as_str(), login.password.as_str()), ("u", "p/"));
        assert!(of_account("{proxy}", "{}").unwrap().is_none());

        let template = "http://{user}:{word}@gate.example:7000";
        let refused = of_account(template, r#"{"user":"a@b:c","word":"1"}"#);
        assert!(refused.unwrap_err().source.unwrap().to_string().contains("colon"));
        let made = of_account(template, r#"{"user":"a@b","word":"1/2"}"#).unwrap().unwrap();
        assert_eq!(made.login.as_ref().unwrap().user.as_str(), "a@b");
        assert_eq!(made.authority, "gate.example:7000");
        assert!(of_account(template, r#"{"user":"a"}"#).is_err());
    }

    #[test]
    fn an_account_cannot_lead_requests_into_a_private_network() {
        for host in ["127.0.0.1", "10.1.2.3", "169.254.169.254", "[::1]", "localhost", "[fd00::1]"]
        {
            let json = format!(r#"{{"proxy":"http://{host}:80"}}"#);
            let refused = of_account("{proxy}", &json).unwrap_err();
            assert!(refused.source.unwrap().to_string().contains("private network"), "{host}");
        }
    }

    #[test]
    fn no_login_shows_in_debug_output() {
        let address = ProxyAddress::parse("http://hush:hush@hush.example:80", true).unwrap();

        assert!(!format!("{address:?}").contains("hush"));
    }
}
