//! Outbound proxies: the address of one, and a connection through it.
//!
//! An HTTP proxy is asked for a tunnel with CONNECT (RFC 9110, section 9.3.6), a SOCKS5 proxy by
//! RFC 1928 and RFC 1929. Either looks the platform's name up itself, and TLS goes through it from
//! end to end.

use std::hash::{Hash, Hasher};

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

use crate::outbound_address::{OutboundResolver, is_public_host};

/// The longest user name and the longest password of SOCKS5, in bytes.
const SOCKS_TEXT_BYTES_MAX: usize = 255;

/// What an address of a proxy must be.
const WANTED: &str = "must be http://host:port or socks5://host:port, with user:password@ before the host if need be";

/// A proxy and how this service proves itself to it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ProxyAddress {
    protocol: ProxyProtocol,
    /// Host and port.
    authority: String,
    login: Option<ProxyLogin>,
    /// Whether it may be on this machine or in a private network.
    pub(crate) may_be_private: bool,
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

/// Why there is no connection through a proxy.
type ProxyFailure = Box<dyn std::error::Error + Send + Sync>;

impl ProxyAddress {
    /// Reads an address. What is said of one that cannot be read repeats nothing of it.
    pub fn parse(text: &str, may_be_private: bool) -> Result<Self, &'static str> {
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
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn user_and_password_are_read_with_their_escapes_decoded() {
        let address = ProxyAddress::parse("socks5://a%40b:p%2F@8.8.8.8:1", false).unwrap();
        let login = address.login.unwrap();
        assert_eq!((login.user.as_str(), login.password.as_str()), ("a@b", "p/"));
        assert_eq!(address.authority, "8.8.8.8:1");
    }

    #[test]
    fn no_login_shows_in_debug_output() {
        let address = ProxyAddress::parse("http://hush:hush@hush.example:80", true).unwrap();

        assert!(!format!("{address:?}").contains("hush"));
    }

    #[test]
    fn an_address_that_cannot_be_used_is_refused_with_what_it_must_be() {
        let unreadable = "has a user or a password that is not percent-encoded text";
        for (text, problem) in [
            ("", WANTED),
            ("8.8.8.8:80", WANTED),
            ("https://8.8.8.8:80", WANTED),
            ("socks4://8.8.8.8:80", WANTED),
            ("HTTP://8.8.8.8:80", WANTED),
            ("http://8.8.8.8", WANTED),
            ("http://8.8.8.8:0", WANTED),
            ("http://8.8.8.8:65536", WANTED),
            ("http://8.8.8.8:80/path", WANTED),
            ("http://8.8.8.8:80?q", WANTED),
            ("http://8.8.8.8:80#f", WANTED),
            ("http://:80", WANTED),
            ("http://user@", WANTED),
            ("http://a b:80", WANTED),
            ("http://a%zz:b@8.8.8.8:80", unreadable),
            ("http://a%4:b@8.8.8.8:80", unreadable),
            ("http://a:b%@8.8.8.8:80", unreadable),
            ("http://a:b%ff@8.8.8.8:80", unreadable),
            ("http://a:b%0d%0a@8.8.8.8:80", unreadable),
            (
                "http://a%3Ab:c@8.8.8.8:80",
                "has a user with a colon, which no HTTP proxy can be told",
            ),
            ("http://127.0.0.1:80", "must not be on this machine or in a private network"),
            ("http://[::1]:80", "must not be on this machine or in a private network"),
            ("http://localhost:80", "must not be on this machine or in a private network"),
        ] {
            assert_eq!(ProxyAddress::parse(text, false).err(), Some(problem), "{text}");
        }
    }

    #[test]
    fn socks_carries_255_bytes_of_a_user_and_as_many_of_a_password() {
        let parse = |user: usize, password: usize| {
            let (user, password) = ("u".repeat(user), "p".repeat(password));
            ProxyAddress::parse(&format!("socks5://{user}:{password}@8.8.8.8:1080"), false).err()
        };
        let too_long = "has a user or a password of more than 255 bytes, which SOCKS5 cannot carry";

        assert_eq!(parse(255, 255), None);
        assert_eq!(parse(256, 1), Some(too_long));
        assert_eq!(parse(1, 256), Some(too_long));
        let of_http = format!("http://{}:x@8.8.8.8:80", "u".repeat(300));
        assert!(ProxyAddress::parse(&of_http, false).is_ok(), "HTTP has no such limit");
    }

    #[test]
    fn proxies_that_differ_in_anything_are_different_ones() {
        let parse = |text: &str| ProxyAddress::parse(text, true).unwrap();
        let one = parse("http://a:b@proxy.example:80");

        assert_eq!(one, parse("http://a:b@proxy.example:80/"));
        assert_eq!(one, parse("http://%61:%62@proxy.example:80"));
        assert_eq!(
            parse("socks5://a:b@proxy.example:80"),
            parse("socks5h://a:b@proxy.example:80"),
            "either looks names up itself"
        );
        for other in [
            "http://a:c@proxy.example:80",
            "http://b:b@proxy.example:80",
            "http://a@proxy.example:80",
            "http://proxy.example:80",
            "http://a:b@proxy.example:81",
            "http://a:b@other.example:80",
            "socks5://a:b@proxy.example:80",
        ] {
            assert_ne!(one, parse(other), "{other}");
        }
        assert_ne!(one, ProxyAddress::parse("http://a:b@proxy.example:80", false).unwrap());
    }

    #[test]
    fn a_proxy_is_told_the_port_also_where_it_is_the_usual_one() {
        for (to, told) in [
            ("https://a.example/x?y", "https://a.example:443/"),
            ("http://a.example", "http://a.example:80/"),
            ("https://a.example:8443/x", "https://a.example:8443/x"),
            ("https://[2001:db8::1]/", "https://[2001:db8::1]:443/"),
        ] {
            assert_eq!(with_port(&to.parse().unwrap()).unwrap(), told.parse::<Uri>().unwrap());
        }
        assert!(with_port(&"/path".parse().unwrap()).is_err());
    }

    #[test]
    fn a_login_is_sent_as_basic_credentials_that_no_log_shows() {
        let address =
            ProxyAddress::parse("http://Aladdin:open%20sesame@8.8.8.8:80", false).unwrap();

        let header = address.login.unwrap().basic().unwrap();

        // The example of RFC 7617.
        assert_eq!(header, "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
    }

    proptest! {
        #[test]
        fn any_text_is_read_back_from_its_escapes(text in "\\PC{0,20}") {
            let escaped: Vec<String> = text.bytes().map(|byte| format!("%{byte:02X}")).collect();

            let read = decoded(&escaped.concat()).unwrap();
            prop_assert_eq!(read.as_str(), &text);
        }

        /// What is said of an address is shown to customers and written to logs.
        #[test]
        fn nothing_of_an_address_is_repeated(text in any::<String>(), secret in "[a-z]{6,12}") {
            for address in [text.clone(), format!("http://{secret}:{secret}%@{text}"), format!("ftp://{secret}")] {
                if let Err(problem) = ProxyAddress::parse(&address, false) {
                    prop_assert!(!problem.contains(&secret));
                }
            }
        }
    }
}
