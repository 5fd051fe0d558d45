//! Networks: those of trusted proxies, and those by which callers are distinguished.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A network such as `10.0.0.0/8`, or one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IpNetwork {
    base: IpAddr,
    prefix_bits: u32,
}

/// A text that does not name a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be an address or a network such as 10.0.0.0/8")]
pub struct MalformedNetwork;

/// Whether the address lies in one of the networks.
pub fn is_trusted(ip: IpAddr, networks: &[IpNetwork]) -> bool {
    networks.iter().any(|network| network.contains(ip))
}

/// The network by which clients are distinguished: an IPv4 /24, an IPv6 /64.
pub fn neighbourhood_of(ip: IpAddr) -> IpAddr {
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

/// The same as text: `192.0.2.0/24`, `2001:db8::/64`.
pub fn neighbourhood_text(ip: IpAddr) -> String {
    let network = neighbourhood_of(ip);
    format!("{network}/{}", if network.is_ipv4() { 24 } else { 64 })
}

impl IpNetwork {
    /// Whether it contains the address. An IPv4 address and its IPv6 form are the same.
    pub fn contains(&self, ip: IpAddr) -> bool {
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

impl FromStr for IpNetwork {
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

/// The network that counts as one address: an IPv6 host commonly owns a whole /64.
pub fn network_of(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(_) => ip,
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
    }
}

/// The larger network with its own limit: an IPv6 site commonly owns a whole /48. `None` for IPv4.
pub fn site_of(ip: IpAddr) -> Option<IpAddr> {
    match ip {
        IpAddr::V4(_) => None,
        IpAddr::V6(address) => {
            let [a, b, c, ..] = address.segments();
            Some(IpAddr::V6(Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
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
            let network: IpNetwork = network.parse().unwrap();
            assert_eq!(network.contains(ip(address)), expected, "{network:?} {address}");
        }
    }

    #[test]
    fn an_address_belongs_to_its_neighbourhood() {
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
    fn malformed_networks_are_refused() {
        for text in ["", "10.0.0.0/33", "::/129", "10.0.0.0/", "10.0.0/8", "proxy", "10.0.0.0/-1"] {
            assert_eq!(text.parse::<IpNetwork>(), Err(MalformedNetwork), "{text}");
        }
    }
}
