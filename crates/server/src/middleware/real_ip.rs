//! Who is really calling, and over what, when a trusted proxy stands in between.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use http::HeaderMap;

/// A network such as `10.0.0.0/8`, or one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Network {
    base: IpAddr,
    prefix_bits: u32,
}

/// A text that names no network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be an address or a network such as 10.0.0.0/8")]
pub(crate) struct MalformedNetwork;

/// Who calls, as far as can be believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Client {
    /// The caller's address.
    pub(crate) ip: IpAddr,
    /// Whether the caller's connection is encrypted up to us or up to a trusted proxy.
    pub(crate) https: bool,
    /// Whether the connection comes from a trusted proxy.
    pub(crate) by_proxy: bool,
}

/// Finds the caller. `peer` is the other end of the connection, `tls` whether that is encrypted.
///
/// Headers that name another address count only if a trusted proxy sent them. Of `X-Forwarded-For` the
/// right-most address counts that is no trusted proxy itself: those to its left came from the caller. An entry
/// that is no address ends the search at the last proxy that is known. `X-Forwarded-Proto` must be one `https`.
pub(crate) fn client(peer: IpAddr, tls: bool, headers: &HeaderMap, trusted: &[Network]) -> Client {
    let peer = peer.to_canonical();
    if trusted.is_empty() || !is_trusted(peer, trusted) {
        return Client { ip: peer, https: tls, by_proxy: false };
    }
    let https = tls || says_https(headers);
    Client { ip: forwarded_for(peer, headers, trusted), https, by_proxy: true }
}

/// Whether a trusted proxy passed the request on unencrypted without saying that its caller came by https.
pub(crate) fn came_in_the_clear(
    peer: IpAddr,
    tls: bool,
    headers: &HeaderMap,
    trusted: &[Network],
) -> bool {
    !tls && !says_https(headers) && is_trusted(peer.to_canonical(), trusted)
}

fn says_https(headers: &HeaderMap) -> bool {
    let mut protocols = headers.get_all("x-forwarded-proto").iter();
    protocols.next().is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"https"))
        && protocols.next().is_none()
}

fn forwarded_for(peer: IpAddr, headers: &HeaderMap, trusted: &[Network]) -> IpAddr {
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

/// Whether the address lies in one of the networks.
pub(crate) fn is_trusted(ip: IpAddr, networks: &[Network]) -> bool {
    networks.iter().any(|network| network.contains(ip))
}

/// The network that stands for an address where people are told apart: an IPv4 /24, an IPv6 /64.
pub(crate) fn neighbourhood_of(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V4(address) => {
            let [a, b, c, _] = address.octets();
            IpAddr::V4(Ipv4Addr::new(a, b, c, 0))
        }
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
    }
}

/// The same, written: `192.0.2.0/24`, `2001:db8::/64`.
pub(crate) fn neighbourhood_text(ip: IpAddr) -> String {
    let network = neighbourhood_of(ip);
    format!("{network}/{}", if network.is_ipv4() { 24 } else { 64 })
}

impl Network {
    /// Whether the address lies in it. An IPv4 address and its form in IPv6 are the same.
    pub(crate) fn contains(&self, ip: IpAddr) -> bool {
        match (self.base, ip.to_canonical()) {
            (IpAddr::V4(base), IpAddr::V4(ip)) => {
                let host_bits = 32 - self.prefix_bits;
                (base.to_bits() ^ ip.to_bits()).checked_shr(host_bits).unwrap_or(0) == 0
            }
            (IpAddr::V6(base), IpAddr::V6(ip)) => {
                let host_bits = 128 - self.prefix_bits;
                (base.to_bits() ^ ip.to_bits()).checked_shr(host_bits).unwrap_or(0) == 0
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

impl FromStr for Network {
    type Err = MalformedNetwork;

    fn from_str(text: &str) -> Result<Self, MalformedNetwork> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let base: IpAddr = address.parse().map_err(|_| MalformedNetwork)?;
        let bits = if base.is_ipv4() { 32 } else { 128 };
        let prefix_bits = match prefix {
            Some(prefix) => prefix.parse().map_err(|_| MalformedNetwork)?,
            None => bits,
        };
        if prefix_bits > bits {
            return Err(MalformedNetwork);
        }
        Ok(Self { base, prefix_bits })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn trusted() -> Vec<Network> {
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
    fn a_network_contains_its_addresses_and_no_others() {
        let cases = [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("10.0.0.0/8", "::ffff:10.1.1.1", true),
            ("192.0.2.7", "192.0.2.7", true),
            ("192.0.2.7", "192.0.2.8", false),
            ("0.0.0.0/0", "203.0.113.9", true),
            ("0.0.0.0/0", "2001:db8::1", false),
            ("::/0", "2001:db8::1", true),
            ("2001:db8::/33", "2001:db8:7fff::1", true),
            ("2001:db8::/33", "2001:db8:8000::1", false),
        ];
        for (network, address, expected) in cases {
            let network: Network = network.parse().unwrap();
            assert_eq!(network.contains(ip(address)), expected, "{network:?} {address}");
        }
    }

    #[test]
    fn an_address_is_shortened_to_its_neighbourhood() {
        for (address, network) in [
            ("192.0.2.77", "192.0.2.0/24"),
            ("::ffff:192.0.2.77", "192.0.2.0/24"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
            ("::1", "::/64"),
        ] {
            assert_eq!(neighbourhood_text(ip(address)), network);
        }
    }

    #[test]
    fn what_names_no_network_is_refused() {
        for text in ["", "10.0.0.0/33", "::/129", "10.0.0.0/", "10.0.0/8", "proxy", "10.0.0.0/-1"] {
            assert_eq!(text.parse::<Network>(), Err(MalformedNetwork), "{text}");
        }
    }

    #[test]
    fn nobody_but_a_trusted_proxy_can_speak_for_another_address() {
        let spoofed = headers(&[
            ("x-forwarded-for", "198.51.100.1"),
            ("x-forwarded-proto", "https"),
            ("x-real-ip", "198.51.100.1"),
            ("forwarded", "for=198.51.100.1;proto=https"),
            ("cf-connecting-ip", "198.51.100.1"),
            ("true-client-ip", "198.51.100.1"),
        ]);

        let client = client(ip("203.0.113.5"), false, &spoofed, &trusted());

        assert_eq!(client, Client { ip: ip("203.0.113.5"), https: false, by_proxy: false });
    }

    #[test]
    fn the_right_most_address_that_is_no_proxy_is_the_caller() {
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
    fn https_is_believed_from_a_trusted_proxy_that_says_it_once() {
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
}
