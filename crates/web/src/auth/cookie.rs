//! The cookies of sessions and of devices, and the connections that may carry them.
//!
//! Over https a name begins with `__Host-`, so that no other host and no plain connection can set
//! that cookie. Plain HTTP is for one machine only: the public address and the caller are both on
//! loopback.

use domain::token::SecretToken;
use http::{HeaderValue, Uri};

use crate::error::ApiError;
use crate::middleware::real_ip::ClientAddress;

/// How this deployment carries sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CookiePolicy {
    /// The public address is https.
    Https,
    /// The public address is http on loopback.
    Loopback,
    /// The public address is http elsewhere: there are no sessions.
    Refused,
}

impl CookiePolicy {
    /// What the public address allows.
    pub fn of(public_base_url: &str) -> Self {
        let Ok(address) = public_base_url.parse::<Uri>() else { return Self::Refused };
        match (address.scheme_str(), address.host()) {
            (Some("https"), Some(_)) => Self::Https,
            (Some("http"), Some(host)) if domain::hosts::is_loopback_host(host) => Self::Loopback,
            _ => Self::Refused,
        }
    }

    /// Whether cookies are sent over https only.
    pub const fn is_secure(self) -> bool {
        matches!(self, Self::Https)
    }

    /// The name of the session cookie.
    pub const fn cookie(self) -> &'static str {
        match self {
            Self::Https => "__Host-session",
            Self::Loopback | Self::Refused => "session",
        }
    }

    /// The name of the device cookie.
    pub const fn device_cookie(self) -> &'static str {
        match self {
            Self::Https => "__Host-device",
            Self::Loopback | Self::Refused => "device",
        }
    }

    /// Whether this caller's connection may carry a session.
    pub fn check(self, client: ClientAddress) -> Result<(), ApiError> {
        let allowed = match self {
            Self::Https => client.https,
            Self::Loopback => client.https || client.ip.is_loopback(),
            Self::Refused => false,
        };
        if allowed { Ok(()) } else { Err(ApiError::HttpsRequired) }
    }

    /// `Set-Cookie` that gives the browser a token for `age_max_s` seconds.
    pub fn hand_over(self, token: &SecretToken, age_max_s: i64) -> HeaderValue {
        self.written(self.cookie(), token.expose(), age_max_s)
    }

    /// `Set-Cookie` that lets the browser be recognized for `age_max_s` seconds.
    pub fn hand_over_device(self, value: &str, age_max_s: i64) -> HeaderValue {
        self.written(self.device_cookie(), value, age_max_s)
    }

    /// `Set-Cookie` that removes the session cookie.
    pub fn take_away(self) -> HeaderValue {
        self.written(self.cookie(), "", 0)
    }

    fn written(self, name: &str, value: &str, age_max_s: i64) -> HeaderValue {
        let secure = if self.is_secure() { "; Secure" } else { "" };
        let text =
            format!("{name}={value}; Path=/; Max-Age={age_max_s}; HttpOnly; SameSite=Lax{secure}");
        let mut header =
            HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static("session="));
        header.set_sensitive(true);
        header
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(ip: &str, https: bool) -> ClientAddress {
        ClientAddress { ip: ip.parse().unwrap(), https, by_proxy: false }
    }

    #[test]
    fn the_public_address_decides_the_cookie_policy() {
        for (url, transport) in [
            ("https://api.example.com", CookiePolicy::Https),
            ("https://127.0.0.1:8443", CookiePolicy::Https),
            ("http://127.0.0.1:8080", CookiePolicy::Loopback),
            ("http://127.9.9.9", CookiePolicy::Loopback),
            ("http://localhost:8080", CookiePolicy::Loopback),
            ("http://[::1]:8080", CookiePolicy::Loopback),
            ("http://api.example.com", CookiePolicy::Refused),
            ("http://localhost.example.com", CookiePolicy::Refused),
            ("http://10.0.0.1:8080", CookiePolicy::Refused),
            ("nonsense", CookiePolicy::Refused),
        ] {
            assert_eq!(CookiePolicy::of(url), transport, "{url}");
        }
    }

    #[test]
    fn plain_http_carries_sessions_on_loopback_only() {
        for (transport, ip, https, allowed) in [
            (CookiePolicy::Https, "203.0.113.5", true, true),
            (CookiePolicy::Https, "203.0.113.5", false, false),
            (CookiePolicy::Https, "127.0.0.1", false, false),
            (CookiePolicy::Loopback, "127.0.0.1", false, true),
            (CookiePolicy::Loopback, "::1", false, true),
            (CookiePolicy::Loopback, "10.0.0.9", false, false),
            (CookiePolicy::Loopback, "10.0.0.9", true, true),
            (CookiePolicy::Refused, "127.0.0.1", true, false),
        ] {
            let checked = transport.check(client(ip, https));
            assert_eq!(checked.is_ok(), allowed, "{transport:?} {ip} {https}");
        }
    }

    #[test]
    fn a_session_cookie_is_host_only_and_hidden_from_scripts() {
        let token = SecretToken::new([3; 32]);
        let text = token.expose();

        let https = CookiePolicy::Https.hand_over(&token, 604_800);
        let plain = CookiePolicy::Loopback.hand_over(&token, 604_800);
        let gone = CookiePolicy::Https.take_away();

        assert_eq!(
            https.to_str().unwrap(),
            format!(
                "__Host-session={text}; Path=/; Max-Age=604800; HttpOnly; SameSite=Lax; Secure"
            )
        );
        assert_eq!(
            plain.to_str().unwrap(),
            format!("session={text}; Path=/; Max-Age=604800; HttpOnly; SameSite=Lax")
        );
        assert_eq!(
            gone.to_str().unwrap(),
            "__Host-session=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax; Secure"
        );
        assert!(https.is_sensitive());
        let device = CookiePolicy::Https.hand_over_device("a.1.b", 60);
        let attributes = "Path=/; Max-Age=60; HttpOnly; SameSite=Lax; Secure";
        assert_eq!(device.to_str().unwrap(), format!("__Host-device=a.1.b; {attributes}"));
        assert!(device.is_sensitive());
    }
}
