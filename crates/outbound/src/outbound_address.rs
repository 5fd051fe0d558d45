//! Which addresses a connection may be made to, where a credential of an account names the host.

use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper_util::client::legacy::connect::dns::Name;
use tower_service::Service;

/// Looks names up and, where it must, passes over addresses of this machine and of private
/// networks.
#[derive(Debug, Clone)]
pub(super) struct OutboundResolver {
    may_be_private: bool,
}

type Lookup =
    Pin<Box<dyn Future<Output = io::Result<std::vec::IntoIter<SocketAddr>>> + Send + 'static>>;

impl OutboundResolver {
    pub(super) const fn new(may_be_private: bool) -> Self {
        Self { may_be_private }
    }
}

impl Service<Name> for OutboundResolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = Lookup;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Lookup {
        let may_be_private = self.may_be_private;
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let usable: Vec<SocketAddr> =
                found.filter(|address| may_be_private || is_public(address.ip())).collect();
            if usable.is_empty() {
                return Err(io::Error::other("the name has no address that may be used"));
            }
            Ok(usable.into_iter())
        })
    }
}

/// Whether a host may be on a public address, as far as it can be seen: names are looked at again
/// when they are looked up.
pub(super) fn is_public_host(host: &str) -> bool {
    let bare = host.trim_matches(['[', ']']);
    match bare.parse::<IpAddr>() {
        Ok(ip) => is_public(ip),
        Err(_) => {
            let name = bare.trim_end_matches('.').to_ascii_lowercase();
            name != "localhost" && !name.ends_with(".localhost")
        }
    }
}

fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_public_v4(ip),
        IpAddr::V6(ip) => is_public_v6(ip),
    }
}

/// RFC 6890 and its successors.
const fn is_public_v4(ip: Ipv4Addr) -> bool {
    let [first, second, third, _] = ip.octets();
    let is_shared = first == 100 && second & 0b1100_0000 == 64;
    let is_benchmarking = first == 198 && second & 0b1111_1110 == 18;
    let is_of_protocols = first == 192 && second == 0 && third == 0;
    !(first == 0
        || first >= 240
        || is_shared
        || is_benchmarking
        || is_of_protocols
        || ip.is_private()
        || ip.is_loopback()
        || ip.is_link_local()
        || ip.is_multicast()
        || ip.is_documentation())
}

/// Only global unicast addresses, without those that lead to an address of version 4 in disguise.
fn is_public_v6(ip: Ipv6Addr) -> bool {
    let [first, second, ..] = ip.segments();
    if let Some(inner) = ip.to_ipv4_mapped() {
        return is_public_v4(inner);
    }
    let is_global = first & 0xe000 == 0x2000;
    // 6to4, Teredo and documentation.
    let is_special = first == 0x2002 || first == 0x2001 && (second < 0x200 || second == 0xdb8);
    is_global && !is_special
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn addresses_of_this_machine_and_of_private_networks_are_not_public() {
        for ip in [
            "0.0.0.0",
            "10.0.0.1",
            "100.64.0.1",
            "127.0.0.1",
            "127.9.9.9",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.1",
            "192.168.1.1",
            "198.18.0.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "fc00::1",
            "fd12::1",
            "fe80::1",
            "ff02::1",
            "2002:7f00:1::",
            "64:ff9b::7f00:1",
            "2001:db8::1",
            "::127.0.0.1",
        ] {
            assert!(!is_public_host(ip) && !is_public_host(&format!("[{ip}]")), "{ip}");
        }
        for host in ["8.8.8.8", "100.63.0.1", "172.32.0.1", "2606:4700::1111", "::ffff:8.8.8.8"] {
            assert!(is_public_host(host), "{host}");
        }
        assert!(is_public_host("proxy.example") && !is_public_host("LOCALHOST."));
    }

    #[tokio::test]
    async fn a_name_of_a_private_address_is_not_found_where_that_must_not_be() {
        let name = || "localhost".parse::<Name>().unwrap();

        assert!(OutboundResolver::new(true).call(name()).await.is_ok());
        assert!(OutboundResolver::new(false).call(name()).await.is_err());
    }

    #[test]
    fn the_edges_of_private_networks_are_exact() {
        for (inside, outside) in [
            ("0.255.255.255", "1.0.0.0"),
            ("10.0.0.0", "9.255.255.255"),
            ("10.255.255.255", "11.0.0.0"),
            ("100.64.0.0", "100.63.255.255"),
            ("100.127.255.255", "100.128.0.0"),
            ("169.254.0.0", "169.253.255.255"),
            ("172.16.0.0", "172.15.255.255"),
            ("172.31.255.255", "172.32.0.0"),
            ("192.0.0.255", "192.0.1.0"),
            ("192.0.2.0", "192.0.3.0"),
            ("192.168.0.0", "192.167.255.255"),
            ("198.19.255.255", "198.20.0.0"),
            ("198.51.100.0", "198.51.101.0"),
            ("203.0.113.255", "203.0.114.0"),
            ("224.0.0.0", "223.255.255.255"),
            ("2001:1ff::", "2001:200::"),
            ("2001:db8:ffff::", "2001:db9::"),
            ("2002:ffff::", "2003::"),
            ("1fff:ffff::", "2000::"),
            ("4000::", "3fff:ffff::"),
        ] {
            assert!(!is_public_host(inside), "{inside}");
            assert!(is_public_host(outside), "{outside}");
        }
    }

    #[test]
    fn names_of_this_machine_are_not_public_in_any_spelling() {
        for name in ["localhost", "LocalHost", "localhost.", "a.localhost", "A.LOCALHOST."] {
            assert!(!is_public_host(name), "{name}");
        }
        // They are looked up, and what is found is looked at again.
        for name in ["localhost.example", "mylocalhost", "127.1", "0x7f000001", "2130706433"] {
            assert!(is_public_host(name), "{name}");
        }
    }

    #[tokio::test]
    async fn other_spellings_of_addresses_of_this_machine_are_refused_when_they_are_looked_up() {
        for spelling in ["127.1", "2130706433", "0x7f000001"] {
            let name: Name = spelling.parse().unwrap();
            if let Ok(found) = OutboundResolver::new(false).call(name).await {
                let found: Vec<SocketAddr> = found.collect();
                assert!(found.iter().all(|address| is_public(address.ip())), "{found:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn an_address_of_version_4_is_judged_alike_in_its_other_form(bits: u32) {
            let ip = Ipv4Addr::from_bits(bits);

            prop_assert_eq!(is_public_v4(ip), is_public_v6(ip.to_ipv6_mapped()));
            prop_assert_eq!(is_public_host(&ip.to_string()), is_public_v4(ip));
            if ip.is_private() || ip.is_loopback() || ip.is_link_local() || ip.is_broadcast() {
                prop_assert!(!is_public_v4(ip));
            }
        }

        /// An address in a tunnel to version 4 is none of its own.
        #[test]
        fn no_tunnel_leads_to_a_private_address(bits: u32) {
            let [a, b] = [bits >> 16, bits & 0xffff].map(|half| u16::try_from(half).unwrap());
            for tunnel in [
                Ipv6Addr::new(0x2002, a, b, 0, 0, 0, 0, 1),
                Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, a, b),
                Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, !a, !b),
                Ipv6Addr::new(0, 0, 0, 0, 0, 0, a, b),
            ] {
                prop_assert!(!is_public_v6(tunnel), "{}", tunnel);
            }
        }
    }
}
