//! The section `[admin]`: the private listeners, and how strong their token is.

use std::collections::HashSet;
use std::net::SocketAddr;

use secrecy::{ExposeSecret as _, SecretString};

use super::problem::ConfigProblem;

/// The digits of a token of 128 bits in hexadecimal.
const HEX_DIGITS_MIN: usize = 32;
/// The characters of a token of 128 bits in base64url.
const CHARACTERS_MIN: usize = 22;
/// The different digits that a random hexadecimal token of that length has, but for one in 10^7.
const HEX_DISTINCT_MIN: usize = 8;
/// The different characters that another one has, but for one in 10^7.
const DISTINCT_MIN: usize = 10;

/// `[admin]`: the private listeners.
#[derive(Debug, Clone, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct AdminSection {
    /// Address and port of the admin listener: on loopback, because it is not encrypted.
    pub listen: SocketAddr,
    /// Address and port of the listener for probes, with readiness, liveness and metrics only.
    /// `None`: there is no such listener.
    #[serde(
        deserialize_with = "optional_address",
        serialize_with = "super::writing::optional_address"
    )]
    pub probe_listen: Option<SocketAddr>,
    /// The token that callers of staff commands must send: 128 bits or more. Empty: generated.
    #[serde(serialize_with = "super::writing::secret")]
    pub token: SecretString,
    /// Wrong tokens and keys a minute from one address, before its commands are refused, but for
    /// those with the right token.
    pub wrong_tokens_per_minute: u32,
}

impl AdminSection {
    pub(super) fn check(&self, problems: &mut Vec<ConfigProblem>) {
        if !self.listen.ip().to_canonical().is_loopback() {
            let message = "must be a loopback address, such as 127.0.0.1:9090, because tokens and keys are sent to it \
                           without TLS; reach it through SSH, `kubectl port-forward` or a TLS proxy on this machine, and \
                           serve probes and metrics to others with `admin.probe_listen`";
            problems.push(ConfigProblem::new("admin.listen", message));
        }
        if let Some(message) = weakness(self.token.expose_secret()) {
            problems.push(ConfigProblem::new("admin.token", message));
        }
        if self.wrong_tokens_per_minute == 0 {
            let message = "must be above zero";
            problems.push(ConfigProblem::new("admin.wrong_tokens_per_minute", message));
        }
    }
}

/// Why a token cannot be sent, or can be guessed.
fn weakness(token: &str) -> Option<&'static str> {
    if token.is_empty() {
        return None;
    }
    if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Some("must be empty or visible ASCII without spaces: it is sent in a header");
    }
    let is_hex = token.bytes().all(|byte| byte.is_ascii_hexdigit());
    let (length, distinct) =
        if is_hex { (HEX_DIGITS_MIN, HEX_DISTINCT_MIN) } else { (CHARACTERS_MIN, DISTINCT_MIN) };
    let different =
        token.bytes().map(|byte| byte.to_ascii_lowercase()).collect::<HashSet<_>>().len();
    (token.len() < length || different < distinct).then_some(
        "can be guessed: it must have 128 random bits, which are at least 32 hexadecimal digits or 22 base64url \
         characters, most of them different; make one with `openssl rand -hex 32`, or leave it empty",
    )
}

/// Reads an optional address: an empty text is `None`.
fn optional_address<'de, D>(from: D) -> Result<Option<SocketAddr>, D::Error>
where
    D: serde::Deserializer<'de>,
{
    let text = <String as serde::Deserialize>::deserialize(from)?;
    if text.is_empty() {
        return Ok(None);
    }
    let address =
        text.parse().map_err(|_| "must be an address with a port, such as 127.0.0.1:9091");
    address.map(Some).map_err(serde::de::Error::custom)
}
