//! CSRF protection: the session cookie, which browsers add by themselves, authorizes a change only
//! when the request comes from a page of this service.
//!
//! Browsers say where a request comes from in `Sec-Fetch-Site`, which no page can forge; older ones
//! in `Origin` or `Referer`. A change with none of these headers is refused. Reads change nothing
//! and are not checked.

use domain::hosts::is_loopback_host;
use http::header::{HOST, ORIGIN, REFERER};
use http::uri::Authority;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};

use crate::error::ApiError;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The origins that count as this service's own.
#[derive(Debug, Clone, Copy)]
pub struct OwnPages<'a> {
    /// The address at which customers reach the service.
    pub public_base_url: &'a str,
    /// Hosts that requests may be addressed to.
    pub allowed_hosts: &'a [String],
}

/// Whether a method changes something.
pub fn is_change(method: &Method) -> bool {
    !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

impl OwnPages<'_> {
    /// For changes with a session: refuses a request that another site's page may have made a
    /// browser send.
    pub fn check(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        match self.says_foreign(headers) {
            Some(false) => Ok(()),
            Some(true) | None => Err(ApiError::CrossSite),
        }
    }

    /// For logins, which need no session and also come from programs: refuses a request whose
    /// headers say that it comes from another site's page.
    pub fn check_if_said(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        match self.says_foreign(headers) {
            Some(true) => Err(ApiError::CrossSite),
            Some(false) | None => Ok(()),
        }
    }

    /// Whether the request comes from another site's page; `None` if its headers do not say.
    fn says_foreign(&self, headers: &HeaderMap) -> Option<bool> {
        let mut sites = headers.get_all(SEC_FETCH_SITE).iter();
        if let Some(site) = sites.next() {
            let ours = matches!(site.as_bytes(), b"same-origin" | b"none");
            return Some(!ours || sites.next().is_some());
        }
        let from = headers.get_all(ORIGIN).iter().next().map(|_| ORIGIN);
        let from = from.or_else(|| headers.contains_key(REFERER).then_some(REFERER))?;
        let mut values = headers.get_all(from).iter();
        let value = values.next()?;
        let ours = values.next().is_none() && self.is_ours(value, headers.get(HOST));
        Some(!ours)
    }

    /// Whether an address is a page of ours: the public address or, if that is on loopback, the
    /// host that the request is addressed to, provided it is this machine or an allowed host.
    fn is_ours(&self, page: &HeaderValue, host: Option<&HeaderValue>) -> bool {
        let Some((scheme, page)) = origin_of(page.to_str().unwrap_or_default()) else {
            return false;
        };
        let Some((own_scheme, own)) = origin_of(self.public_base_url) else { return false };
        if scheme != own_scheme {
            return false;
        }
        if same_place(&scheme, &page, &own) {
            return true;
        }
        let host = host.and_then(|host| host.to_str().ok()?.parse::<Authority>().ok());
        let addressed = host.is_some_and(|host| same_place(&scheme, &page, &host));
        let named = |allowed: &String| {
            allowed.eq_ignore_ascii_case(page.as_str()) || allowed.eq_ignore_ascii_case(page.host())
        };
        is_loopback_host(own.host())
            && addressed
            && (is_loopback_host(page.host()) || self.allowed_hosts.iter().any(named))
    }
}

/// Scheme and authority of an address. An address with a user name is never ours.
fn origin_of(address: &str) -> Option<(String, Authority)> {
    let parts = address.parse::<Uri>().ok()?.into_parts();
    let (scheme, authority) = (parts.scheme?, parts.authority?);
    let plain = !authority.as_str().contains('@');
    plain.then(|| (scheme.as_str().to_ascii_lowercase(), authority))
}

fn same_place(scheme: &str, one: &Authority, other: &Authority) -> bool {
    let usual = if scheme == "https" { 443 } else { 80 };
    one.host().eq_ignore_ascii_case(other.host())
        && one.port_u16().unwrap_or(usual) == other.port_u16().unwrap_or(usual)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PUBLIC: OwnPages<'static> =
        OwnPages { public_base_url: "https://api.example.com", allowed_hosts: &[] };
    const LOCAL: OwnPages<'static> =
        OwnPages { public_base_url: "http://127.0.0.1:8080", allowed_hosts: &[] };

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn sec_fetch_site_decides_before_the_origin() {
        for (site, ours) in [
            ("same-origin", true),
            ("none", true),
            ("same-site", false),
            ("cross-site", false),
            ("Same-Origin", false),
            ("", false),
        ] {
            let checked = PUBLIC.check(&headers(&[("sec-fetch-site", site)]));
            assert_eq!(checked.is_ok(), ours, "{site:?}");
        }
        let twice = [("sec-fetch-site", "same-origin"), ("sec-fetch-site", "cross-site")];
        assert!(PUBLIC.check(&headers(&twice)).is_err());
        let both = [("sec-fetch-site", "cross-site"), ("origin", "https://api.example.com")];
        assert!(PUBLIC.check(&headers(&both)).is_err());
    }

    #[test]
    fn an_origin_must_be_the_public_address() {
        for (origin, ours) in [
            ("https://api.example.com", true),
            ("https://API.example.com:443", true),
            ("null", false),
            ("", false),
            ("http://api.example.com", false),
            ("https://api.example.com:8443", false),
            ("https://evil.example", false),
            ("https://evil.api.example.com", false),
            ("https://api.example.com.evil.example", false),
            ("https://api.example.com@evil.example", false),
            ("https://evil@api.example.com", false),
        ] {
            let checked = PUBLIC.check(&headers(&[("origin", origin)]));
            assert_eq!(checked.is_ok(), ours, "{origin:?}");
        }
        let twice = [("origin", "https://api.example.com"), ("origin", "https://evil.example")];
        assert!(PUBLIC.check(&headers(&twice)).is_err());
    }

    #[test]
    fn without_an_origin_the_referer_counts() {
        let ours = [("referer", "https://api.example.com/console/keys")];
        let foreign = [("referer", "https://evil.example/?https://api.example.com")];
        let both =
            [("origin", "https://evil.example"), ("referer", "https://api.example.com/console")];

        assert!(PUBLIC.check(&headers(&ours)).is_ok());
        assert!(PUBLIC.check(&headers(&foreign)).is_err());
        assert!(PUBLIC.check(&headers(&both)).is_err());
    }

    #[test]
    fn without_origin_headers_a_session_changes_nothing_but_logging_in_works() {
        assert!(PUBLIC.check(&headers(&[])).is_err());
        assert!(PUBLIC.check_if_said(&headers(&[])).is_ok());
        assert!(PUBLIC.check_if_said(&headers(&[("origin", "null")])).is_err());
        assert!(PUBLIC.check_if_said(&headers(&[("sec-fetch-site", "cross-site")])).is_err());
    }

    /// One machine has several names, and other programs may listen on it.
    #[test]
    fn on_loopback_the_page_must_match_the_requested_host() {
        for (host, origin, ours) in [
            ("127.0.0.1:8080", "http://127.0.0.1:8080", true),
            ("localhost:8080", "http://localhost:8080", true),
            ("[::1]:8080", "http://[::1]:8080", true),
            ("127.0.0.1:9000", "http://127.0.0.1:9000", true),
            ("127.0.0.1:9000", "http://127.0.0.1:3000", false),
            ("localhost:9000", "http://127.0.0.1:9000", false),
            ("evil.example:8080", "http://evil.example:8080", false),
            ("127.0.0.1:8080", "https://127.0.0.1:8080", false),
        ] {
            let mut said = HeaderMap::new();
            said.insert(HOST, HeaderValue::from_static(host));
            said.insert(ORIGIN, HeaderValue::from_static(origin));
            assert_eq!(LOCAL.check(&said).is_ok(), ours, "{host} {origin}");
        }
        let allowed = ["gateway.test".to_owned()];
        let local = OwnPages { allowed_hosts: &allowed, ..LOCAL };
        let mut said = headers(&[("host", "gateway.test:8080")]);
        said.insert(ORIGIN, HeaderValue::from_static("http://gateway.test:8080"));
        assert!(local.check(&said).is_ok());
    }

    #[test]
    fn reads_are_not_changes() {
        for method in [Method::GET, Method::HEAD, Method::OPTIONS] {
            assert!(!is_change(&method), "{method}");
        }
        for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
            assert!(is_change(&method), "{method}");
        }
    }
}
