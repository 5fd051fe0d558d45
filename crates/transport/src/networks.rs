//! Networks: those of trusted proxies, and those by which callers are distinguished.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A network such as `10.0.0.0/8`, or one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IpNetwork {
    base: IpAddr,
    prefix_bits: u32,
}

/// The bits that every IPv4 address in its IPv6 form begins with.
const MAPPED_BITS: u32 = 96;

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
            Some(prefix) if prefix.bytes().all(|byte| byte.is_ascii_digit()) => {
                prefix.parse().map_err(|_| MalformedNetwork)?
            }
            Some(_) => return Err(MalformedNetwork),
            None => bits,
        };
        if prefix_bits > bits {
            return Err(MalformedNetwork);
        }
        Ok(Self { base, prefix_bits }.canonical())
    }
}

impl IpNetwork {
    /// The IPv4 form of a network of IPv4 addresses in their IPv6 form.
    fn canonical(self) -> Self {
        match (self.base.to_canonical(), self.prefix_bits.checked_sub(MAPPED_BITS)) {
            (base @ IpAddr::V4(_), Some(prefix_bits)) if self.base.is_ipv6() => {
                Self { base, prefix_bits }
            }
            _ => self,
        }
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
    use proptest::prelude::*;

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

    #[test]
    fn an_ipv4_network_may_be_written_in_its_ipv6_form() {
        for (written, plain) in [
            ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
            ("::ffff:192.0.2.7", "192.0.2.7"),
            ("::ffff:192.0.2.7/128", "192.0.2.7/32"),
            ("::ffff:0.0.0.0/96", "0.0.0.0/0"),
        ] {
            let (written, plain): (IpNetwork, IpNetwork) =
                (written.parse().unwrap(), plain.parse().unwrap());
            assert_eq!(written, plain);
            assert!(!written.contains(ip("2001:db8::1")), "{written:?}");
        }
        // Wider than all IPv4 addresses together: a network of IPv6.
        let wider: IpNetwork = "::ffff:0.0.0.0/80".parse().unwrap();
        assert!(wider.contains(ip("::1:0:0")) && !wider.contains(ip("10.0.0.1")));
    }

    #[test]
    fn the_number_of_bits_is_written_in_digits_alone() {
        for text in ["10.0.0.0/+8", "10.0.0.0/ 8", "10.0.0.0/8 ", "10.0.0.0/8/8", "::/0x10", "/8"] {
            assert_eq!(text.parse::<IpNetwork>(), Err(MalformedNetwork), "{text}");
        }
        let said = MalformedNetwork.to_string();
        assert_eq!(said, "must be an address or a network such as 10.0.0.0/8");
    }

    #[test]
    fn ipv6_networks_and_sites_are_told_apart_and_ipv4_addresses_stand_alone() {
        let address = ip("2001:db8:1:2:3:4:5:6");
        let of_v4 = ip("192.0.2.7");

        assert_eq!(network_of(address), ip("2001:db8:1:2::"));
        assert_eq!(site_of(address), Some(ip("2001:db8:1::")));
        assert_eq!((network_of(of_v4), site_of(of_v4)), (of_v4, None));
    }

    #[test]
    fn nobody_is_trusted_without_networks_and_one_of_them_is_enough() {
        let networks: Vec<IpNetwork> =
            ["10.0.0.0/8", "2001:db8::/32"].iter().map(|text| text.parse().unwrap()).collect();

        assert!(!is_trusted(ip("10.0.0.1"), &[]));
        assert!(is_trusted(ip("10.0.0.1"), &networks) && is_trusted(ip("2001:db8::1"), &networks));
        assert!(!is_trusted(ip("192.0.2.1"), &networks));
    }

    proptest! {
        #[test]
        fn an_ipv4_network_contains_exactly_the_addresses_that_share_its_bits(
            base: u32, other: u32, bits in 0_u32..=32,
        ) {
            let (base, other) = (Ipv4Addr::from_bits(base), Ipv4Addr::from_bits(other));
            let network: IpNetwork = format!("{base}/{bits}").parse().unwrap();
            let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);

            let is_inside = base.to_bits() & mask == other.to_bits() & mask;

            prop_assert_eq!(network.contains(IpAddr::V4(other)), is_inside);
            prop_assert_eq!(network.contains(IpAddr::V6(other.to_ipv6_mapped())), is_inside);
            prop_assert!(network.contains(IpAddr::V4(base)));
        }

        #[test]
        fn an_ipv6_network_contains_exactly_the_addresses_that_share_its_bits(
            base: u128, flipped in 0_u32..128, bits in 0_u32..=128,
        ) {
            // Neither is an IPv4 address in its IPv6 form.
            let base = base | 3 << 126;
            let network: IpNetwork =
                format!("{}/{bits}", Ipv6Addr::from_bits(base)).parse().unwrap();
            let other = Ipv6Addr::from_bits(base ^ (1 << (127 - flipped)));

            prop_assert_eq!(network.contains(IpAddr::V6(other)), flipped >= bits);
        }

        #[test]
        fn neighbours_have_one_text_and_others_another(base: u32, other: u32) {
            let (one, other) = (Ipv4Addr::from_bits(base), Ipv4Addr::from_bits(other));
            let text = neighbourhood_text(IpAddr::V4(one));

            prop_assert_eq!(
                text == neighbourhood_text(IpAddr::V4(other)),
                one.to_bits() >> 8 == other.to_bits() >> 8
            );
            let network: IpNetwork = text.parse().unwrap();
            prop_assert!(network.contains(IpAddr::V4(one)));
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in any::<String>(), near in "[0-9a-f:./]{0,24}") {
            for written in [text, near] {
                if let Ok(network) = written.parse::<IpNetwork>() {
                    let _inside = network.contains(ip("192.0.2.1")) || network.contains(ip("::1"));
                }
            }
        }
    }
}
