//! What leaves this machine unencrypted: plain HTTP to another host.

use domain::hosts::is_loopback_host;
use domain::platform::Platform;
use secrecy::ExposeSecret as _;

use crate::platforms::PlatformSection;
use crate::problem::ConfigProblem;

/// Whether requests to this address leave this machine unencrypted. An address that cannot be read
/// is a problem elsewhere.
pub(crate) fn is_plain_to_another_host(address: &str) -> bool {
    let uri: Option<http::Uri> = address.parse().ok();
    uri.is_some_and(|uri| {
        uri.scheme_str() == Some("http") && !uri.host().is_some_and(is_loopback_host)
    })
}

/// The addresses of a platform to which credentials would be sent in the clear.
pub(crate) fn plain_addresses(
    platform: Platform,
    section: &PlatformSection,
) -> impl Iterator<Item = ConfigProblem> {
    let own = [
        ("base_url".to_owned(), section.base_url.as_str()),
        ("oauth.token_url".to_owned(), section.oauth.token_url.as_str()),
        ("signing.values.url".to_owned(), section.signing.values.url.expose_secret()),
    ];
    let hosts = section.hosts.iter().enumerate();
    let hosts = hosts.map(|(index, host)| (format!("hosts[{index}].base_url"), &*host.base_url));
    let plain = own.into_iter().chain(hosts).filter(|(_, url)| is_plain_to_another_host(url));
    plain.filter(|_| !section.allow_http).map(move |(key, _)| {
        let message = "must be https: credentials would cross the network in the clear; allow_http = true permits it \
                       where something else encrypts the way";
        ConfigProblem::new(format!("platforms.{platform}.{key}"), message)
    })
}
