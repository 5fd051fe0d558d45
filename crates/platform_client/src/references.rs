//! References in a platform's response (`Location`, `Link`, `Content-Location`), turned into
//! references to this service where they lead to what a native call can reach.
//!
//! A reference is read as RFC 3986, section 5 says, against the address of the request. What cannot
//! be read that way stays as it is: nothing is repaired.

use http::uri::{Authority, Scheme};

use super::native_hosts::{NativeHost, NativeHosts};
use super::path;

/// The part of a platform that native calls reach.
#[derive(Debug, Clone)]
pub(super) struct NativeSpace {
    scheme: Scheme,
    authority: Authority,
    /// Begins and ends with a slash.
    prefix: String,
    /// Those of the platform that serve some of the native paths.
    hosts: NativeHosts,
}

/// The call whose response holds the references.
#[derive(Debug, Clone, Copy)]
pub struct CalledWith<'a> {
    /// The account as this service names it.
    pub account: &'a str,
    /// The native path that was called, below the platform's prefix.
    pub path: &'a str,
    /// Its query; may be empty.
    pub query: &'a str,
}

/// Where a reference leads.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PlatformReference {
    /// To a native path: the reference to it on this service.
    Native(String),
    /// To somewhere else on the platform or, without a scheme, on another host: its whole address.
    Resolved(String),
    /// To the whole address that it is, or nowhere that could be read.
    Unchanged,
}

/// A reference in its parts.
struct ReferenceParts<'a> {
    scheme: Option<&'a str>,
    authority: Option<&'a str>,
    path: &'a str,
    /// With its question mark.
    query: &'a str,
    /// With its number sign.
    fragment: &'a str,
}

impl NativeSpace {
    pub(super) fn new(scheme: Scheme, authority: Authority, prefix: String) -> Self {
        Self { scheme, authority, prefix, hosts: NativeHosts::default() }
    }

    /// The same beside other hosts, which serve the native paths that begin with theirs.
    pub(super) fn beside(self, hosts: NativeHosts) -> Self {
        Self { hosts, ..self }
    }

    /// What a call reaches whose path is another host's; nothing where it is this one's.
    fn of_other_host(&self, called: CalledWith<'_>) -> Option<(Self, &NativeHost)> {
        let host = self.hosts.of(called.path)?;
        let other = Self::new(host.scheme.clone(), host.authority.clone(), host.prefix.clone());
        Some((other.beside(self.hosts.clone()), host))
    }

    /// Reads a reference that stands in the response to a call.
    pub(super) fn read(&self, reference: &str, called: CalledWith<'_>) -> PlatformReference {
        match self.of_other_host(called) {
            Some((other, host)) => other.read_here(reference, called, Some(host)),
            None => self.read_here(reference, called, None),
        }
    }

    /// The same on the host that the call went to.
    fn read_here(
        &self,
        reference: &str,
        called: CalledWith<'_>,
        host: Option<&NativeHost>,
    ) -> PlatformReference {
        if !reference.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&byte))
        {
            return PlatformReference::Unchanged;
        }
        let parts = ReferenceParts::of(reference);
        if parts.scheme.is_some() && !self.is_here(&parts) {
            return PlatformReference::Unchanged;
        }
        let scheme = self.scheme.as_str();
        if let Some(authority) = parts.authority.filter(|_| !self.is_here(&parts)) {
            let ReferenceParts { path, query, fragment, .. } = parts;
            return PlatformReference::Resolved(format!(
                "{scheme}://{authority}{path}{query}{fragment}"
            ));
        }
        let (path, query) = self.target(&parts, called);
        let fragment = parts.fragment;
        // A native path of another host than this one would lead there.
        let native = self.native(&path, &query).filter(|native| self.serves(host, native));
        match native {
            Some(native) => {
                let account = called.account;
                PlatformReference::Native(format!("/v1/{account}/native/{native}{query}{fragment}"))
            }
            None => {
                let authority = &self.authority;
                PlatformReference::Resolved(format!(
                    "{scheme}://{authority}{path}{query}{fragment}"
                ))
            }
        }
    }

    fn serves(&self, host: Option<&NativeHost>, native: &str) -> bool {
        match (self.hosts.of(native), host) {
            (None, None) => true,
            (Some(one), Some(other)) => std::ptr::eq(one, other),
            (Some(_), None) | (None, Some(_)) => false,
        }
    }

    /// Whether a reference stays on the platform's own origin.
    fn is_here(&self, parts: &ReferenceParts<'_>) -> bool {
        let same_scheme =
            parts.scheme.is_none_or(|scheme| scheme.eq_ignore_ascii_case(self.scheme.as_str()));
        let Some(authority) = parts.authority else {
            // A scheme without a host is no address of the web.
            return parts.scheme.is_none();
        };
        let same_authority = authority.parse::<Authority>().is_ok_and(|other| {
            !authority.contains('@')
                && other.host().eq_ignore_ascii_case(self.authority.host())
                && self.port(&other) == self.port(&self.authority)
        });
        same_scheme && same_authority
    }

    fn port(&self, authority: &Authority) -> Option<u16> {
        let usual = if self.scheme == Scheme::HTTPS { 443 } else { 80 };
        match authority.port() {
            Some(port) => port.as_str().parse().ok(),
            None => Some(usual),
        }
    }

    /// The path, without dot segments, and the query that it leads to.
    fn target(&self, parts: &ReferenceParts<'_>, called: CalledWith<'_>) -> (String, String) {
        if parts.authority.is_some() || parts.path.starts_with('/') {
            return (without_dots(parts.path), parts.query.to_owned());
        }
        let base = format!("{}{}", self.prefix, called.path);
        if !parts.path.is_empty() {
            let folder = base.rsplit_once('/').map_or("", |(folder, _)| folder);
            return (without_dots(&format!("{folder}/{}", parts.path)), parts.query.to_owned());
        }
        let query = match (parts.query, called.query) {
            ("", "") => String::new(),
            ("", query) => format!("?{query}"),
            (query, _) => query.to_owned(),
        };
        (base, query)
    }

    /// What of a path a native call can name.
    fn native<'p>(&self, path: &'p str, query: &str) -> Option<&'p str> {
        let native = path.strip_prefix(&*self.prefix)?;
        let query = query.strip_prefix('?').unwrap_or(query);
        let is_callable = path::check_path(native).is_ok() && path::check_query(query).is_ok();
        is_callable.then_some(native)
    }
}

impl<'a> ReferenceParts<'a> {
    /// RFC 3986, appendix B.
    fn of(reference: &'a str) -> Self {
        let (rest, fragment) = split_before(reference, &['#']);
        let (rest, query) = split_before(rest, &['?']);
        let (scheme, rest) = match rest.split_once(':') {
            Some((scheme, after)) if is_scheme(scheme) => (Some(scheme), after),
            _ => (None, rest),
        };
        let (authority, path) = match rest.strip_prefix("//") {
            Some(after) => {
                let (authority, path) = split_before(after, &['/']);
                (Some(authority), path)
            }
            None => (None, rest),
        };
        Self { scheme, authority, path, query, fragment }
    }
}

/// The text before the first of these characters, and the rest with it.
fn split_before<'a>(text: &'a str, characters: &[char]) -> (&'a str, &'a str) {
    text.split_at(text.find(characters).unwrap_or(text.len()))
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

/// Removes dot segments (RFC 3986, section 5.2.4). The path begins with a slash, also where nothing
/// was there.
fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let segments = path.strip_prefix('/').unwrap_or(path);
    let mut is_folder = false;
    for segment in segments.split('/') {
        is_folder = matches!(segment, "." | "..");
        match segment {
            "." => {}
            ".." => drop(kept.pop()),
            other => kept.push(other),
        }
    }
    let end = if is_folder && !kept.is_empty() { "/" } else { "" };
    format!("/{}{end}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CALLED: CalledWith<'_> =
        CalledWith { account: "ada", path: "lists/7/users", query: "page=1" };

    fn space(base: &str, prefix: &str) -> NativeSpace {
        let uri: http::Uri = base.parse().unwrap();
        let parts = uri.into_parts();
        NativeSpace::new(parts.scheme.unwrap(), parts.authority.unwrap(), prefix.to_owned())
    }

    fn read(reference: &str) -> PlatformReference {
        space("https://P.example:443", "/api/v1/").read(reference, CALLED)
    }

    #[test]
    fn what_a_native_call_reaches_is_named_as_one() {
        for (reference, native) in [
            ("https://p.example/api/v1/lists/8", "lists/8"),
            ("HTTPS://p.EXAMPLE:443/api/v1/lists/8?a=b&c#top", "lists/8?a=b&c#top"),
            ("//p.example/api/v1/lists/8", "lists/8"),
            ("/api/v1/lists/8", "lists/8"),
            ("/api/v1/x/../lists/8/", "lists/8/"),
            ("8", "lists/7/8"),
            ("../8", "lists/8"),
            ("../../../v1/me", "me"),
            ("./", "lists/7/"),
            ("?page=2", "lists/7/users?page=2"),
            ("#top", "lists/7/users?page=1#top"),
            ("", "lists/7/users?page=1"),
            ("/api/v1/folders/A%2FB%20%E2%80%A6", "folders/A%2FB%20%E2%80%A6"),
            ("a:b", "lists/7/a:b"),
        ] {
            let reference = if reference == "a:b" { "./a:b" } else { reference };
            let expected = PlatformReference::Native(format!("/v1/ada/native/{native}"));
            assert_eq!(read(reference), expected, "{reference}");
        }
    }

    #[test]
    fn what_it_does_not_reach_is_a_whole_address() {
        for (reference, resolved) in [
            ("/login", "https://P.example:443/login"),
            ("../../../../login?a", "https://P.example:443/login?a"),
            ("https://p.example/api/v1", "https://P.example:443/api/v1"),
            ("/api/v1/", "https://P.example:443/api/v1/"),
            ("/api/v1//x", "https://P.example:443/api/v1//x"),
            ("/api/v1/%2e%2e/x", "https://P.example:443/api/v1/%2e%2e/x"),
            ("/api/v1/a;b", "https://P.example:443/api/v1/a;b"),
            ("//cdn.example/x", "https://cdn.example/x"),
            ("//u@p.example/api/v1/x", "https://u@p.example/api/v1/x"),
            ("//p.example:8443/api/v1/x", "https://p.example:8443/api/v1/x"),
        ] {
            assert_eq!(
                read(reference),
                PlatformReference::Resolved(resolved.to_owned()),
                "{reference}"
            );
        }
    }

    #[test]
    fn other_addresses_and_what_is_none_stay_as_they_are() {
        for reference in [
            "https://cdn.example/api/v1/x",
            "http://p.example/api/v1/x",
            "https://p.example.evil/api/v1/x",
            "https://u@p.example/api/v1/x",
            "https:/api/v1/x",
            "mailto:ada@example.org",
            "javascript:alert(1)",
            "\\\\evil.example\\x",
            "/api/v1/a b",
            "/api/v1/caf\u{e9}",
            "/api/v1/<x>",
        ] {
            assert_eq!(read(reference), PlatformReference::Unchanged, "{reference}");
        }
    }

    proptest! {
        /// Whatever a platform writes, a rewritten reference names a native path of the account,
        /// and one that passes.
        #[test]
        fn a_rewritten_reference_never_leaves_the_account(
            reference in "(https://p\\.example|//p\\.example|http:|//|)(/api/v1|/|)(\\.\\./|\\./|%2[eEfF5]|[a-z/?#;:@\\\\%. ]){0,12}"
        ) {
            if let PlatformReference::Native(rewritten) = read(&reference) {
                let native = rewritten.strip_prefix("/v1/ada/native/").unwrap();
                let path = native.split(['?', '#']).next().unwrap();
                prop_assert!(path::check_path(path).is_ok(), "{rewritten}");
                prop_assert!(rewritten.bytes().all(|byte| byte.is_ascii_graphic()));
            }
        }
    }
}
