//! Finds the client's real address and protocol behind a trusted proxy.

use std::net::IpAddr;

use http::HeaderMap;
use transport::{IpNetwork, is_trusted};

/// The client, as far as its address can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientAddress {
    /// The client's address.
    pub ip: IpAddr,
    /// Whether the client's connection is encrypted up to us or up to a trusted proxy.
    pub https: bool,
    /// Whether the connection comes from a trusted proxy.
    pub by_proxy: bool,
}

/// Finds the client. `peer` is the other end of the connection, `tls` whether that is encrypted.
///
/// Headers with another address count only if a trusted proxy sent them. In `X-Forwarded-For` the
/// right-most address that is not a trusted proxy counts, because the client may have written those
/// to its left. An entry that is not an address ends the search at the last known proxy.
/// `X-Forwarded-Proto` must be a single `https`.
pub fn client(
    peer: IpAddr,
    tls: bool,
    headers: &HeaderMap,
    trusted: &[IpNetwork],
) -> ClientAddress {
    let peer = peer.to_canonical();
    if trusted.is_empty() || !is_trusted(peer, trusted) {
        return ClientAddress { ip: peer, https: tls, by_proxy: false };
    }
    let https = tls || says_https(headers);
    ClientAddress { ip: forwarded_for(peer, headers, trusted), https, by_proxy: true }
}

/// Whether the request came unencrypted: from a proxy or another machine, and nothing says that the
/// client used https. Any peer is believed here, also one that is not among the trusted proxies:
/// whoever says so falsely lays only its own key open, and a proxy that was forgotten in the
/// configuration does not end the service.
pub fn came_in_the_clear(
    peer: IpAddr,
    tls: bool,
    headers: &HeaderMap,
    trusted: &[IpNetwork],
) -> bool {
    let peer = peer.to_canonical();
    let is_here = peer.is_loopback() && !is_trusted(peer, trusted);
    !tls && !is_here && !says_https(headers)
}

fn says_https(headers: &HeaderMap) -> bool {
    let mut protocols = headers.get_all("x-forwarded-proto").iter();
    protocols.next().is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"https"))
        && protocols.next().is_none()
}

fn forwarded_for(peer: IpAddr, headers: &HeaderMap, trusted: &[IpNetwork]) -> IpAddr {
    let mut nearest = peer;
    let values = headers.get_all("x-forwarded-for").into_iter().rev();
    for value in values {
        let text = value.to_str().unwrap_or_default();
        for entry in text.rsplit(',') {
            let Some(ip) = address_of(entry.trim()) else {
                return nearest;
            };
            nearest = ip;
            if !is_trusted(ip, trusted) {
                return nearest;
            }
        }
    }
    nearest
}

/// The address of an entry; some proxies add the port.
fn address_of(entry: &str) -> Option<IpAddr> {
    let ip = entry
        .parse::<IpAddr>()
        .ok()
        .or_else(|| entry.parse::<std::net::SocketAddr>().ok().map(|socket| socket.ip()));
    ip.map(|ip| ip.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn trusted() -> Vec<IpNetwork> {
        vec!["10.0.0.0/8".parse().unwrap(), "fd00::/8".parse().unwrap()]
    }

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn only_a_trusted_proxy_can_name_another_address() {
        let spoofed = headers(&[
            ("x-forwarded-for", "198.51.100.1"),
            ("x-forwarded-proto", "https"),
            ("x-real-ip", "198.51.100.1"),
            ("forwarded", "for=198.51.100.1;proto=https"),
            ("cf-connecting-ip", "198.51.100.1"),
            ("true-client-ip", "198.51.100.1"),
        ]);

        let client = client(ip("203.0.113.5"), false, &spoofed, &trusted());

        assert_eq!(client, ClientAddress { ip: ip("203.0.113.5"), https: false, by_proxy: false });
    }

    #[test]
    fn the_right_most_address_that_is_not_a_proxy_is_the_client() {
        let cases: [(&[(&str, &str)], &str); 9] = [
            (&[], "10.0.0.1"),
            (&[("x-forwarded-for", "203.0.113.5")], "203.0.113.5"),
            (&[("x-forwarded-for", "198.51.100.1, 203.0.113.5")], "203.0.113.5"),
            (&[("x-forwarded-for", "198.51.100.1, 203.0.113.5, 10.2.2.2")], "203.0.113.5"),
            (
                &[("x-forwarded-for", "198.51.100.1"), ("x-forwarded-for", "203.0.113.5,10.2.2.2")],
                "203.0.113.5",
            ),
            (&[("x-forwarded-for", "10.3.3.3, 10.2.2.2")], "10.3.3.3"),
            (&[("x-forwarded-for", "203.0.113.5, unknown, 10.2.2.2")], "10.2.2.2"),
            (&[("x-forwarded-for", "203.0.113.5:4711")], "203.0.113.5"),
            (&[("x-forwarded-for", "[2001:db8::1]:4711")], "2001:db8::1"),
        ];
        for (lines, expected) in cases {
            let mut map = HeaderMap::new();
            for (name, value) in lines {
                map.append(
                    http::HeaderName::from_bytes(name.as_bytes()).unwrap(),
                    value.parse().unwrap(),
                );
            }

            let client = client(ip("::ffff:10.0.0.1"), false, &map, &trusted());

            assert_eq!((client.ip, client.by_proxy), (ip(expected), true), "{lines:?}");
        }
    }

    #[test]
    fn https_is_accepted_from_a_trusted_proxy_that_says_it_once() {
        let once = headers(&[("x-forwarded-proto", "https")]);
        let twice = headers(&[("x-forwarded-proto", "https"), ("x-forwarded-proto", "http")]);
        let list = headers(&[("x-forwarded-proto", "https, http")]);
        let proxy = ip("10.0.0.1");

        assert!(client(proxy, false, &once, &trusted()).https);
        assert!(!client(proxy, false, &twice, &trusted()).https);
        assert!(!client(proxy, false, &list, &trusted()).https);
        assert!(!client(ip("203.0.113.5"), false, &once, &trusted()).https);
        assert!(client(ip("203.0.113.5"), true, &HeaderMap::new(), &trusted()).https);
    }

    #[test]
    fn what_comes_unencrypted_from_another_machine_came_in_the_clear() {
        let (said, unsaid) = (headers(&[("x-forwarded-proto", "https")]), HeaderMap::new());
        for (peer, tls, headers, in_the_clear) in [
            ("10.0.0.1", false, &said, false),
            ("10.0.0.1", false, &unsaid, true),
            ("10.0.0.1", true, &unsaid, false),
            ("203.0.113.5", false, &said, false),
            ("203.0.113.5", false, &unsaid, true),
            ("203.0.113.5", true, &unsaid, false),
            ("127.0.0.1", false, &unsaid, false),
            ("::ffff:127.0.0.1", false, &unsaid, false),
        ] {
            let found = came_in_the_clear(ip(peer), tls, headers, &trusted());
            assert_eq!(found, in_the_clear, "{peer} {tls}");
        }
        let proxy_here = ["127.0.0.1".parse().unwrap()];
        assert!(came_in_the_clear(ip("127.0.0.1"), false, &unsaid, &proxy_here));
    }
}
