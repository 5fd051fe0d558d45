//! What settings of calls share: how long they may take, what is wrong with one, and addresses.

use std::time::Duration;

use http::Uri;
use http::uri::Authority;

/// How long each phase of a call may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallTimeouts {
    /// To find the address and connect to it.
    pub connect: Duration,
    /// For the TLS handshake.
    pub tls: Duration,
    /// Until the head of the answer, counted anew whenever a part of a spooled body leaves.
    pub first_byte: Duration,
    /// For a spooled body to leave, however steadily the other side takes it.
    pub upload: Duration,
    /// Between two parts of the answer while one is waited for.
    pub between_bytes: Duration,
    /// The same for a stream of events, which may have nothing to say for long.
    pub stream_idle: Duration,
}

/// As an extension of a request: how long the head of its answer, and each pause between two parts
/// of it, may take in place of the connection's own times. Who sends it limits the whole.
#[derive(Debug, Clone, Copy)]
pub struct AnswerPatience(pub Duration);

/// A key of the configuration that cannot be used, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {message}")]
pub struct SettingsProblem {
    /// The key below the section that is checked, such as `base_url` or `headers[2].value`.
    pub key: String,
    /// What is wrong with it, and what would be right.
    pub message: String,
}

impl Default for CallTimeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(3),
            tls: Duration::from_secs(5),
            first_byte: Duration::from_secs(30),
            upload: Duration::from_mins(10),
            between_bytes: Duration::from_secs(15),
            stream_idle: Duration::from_mins(5),
        }
    }
}

impl SettingsProblem {
    /// A problem of the key: what is wrong with it.
    pub fn new(key: impl Into<String>, message: impl Into<String>) -> Self {
        Self { key: key.into(), message: message.into() }
    }
}

/// An address with scheme `http` or `https` and a host, without user information.
pub fn absolute_uri(key: &str, text: &str, problems: &mut Vec<SettingsProblem>) -> Option<Uri> {
    let usable = text.parse().ok().filter(|uri| is_usable(uri) && !text.contains('#'));
    if usable.is_none() {
        let message = "must be http:// or https:// with a host, and without a user or a fragment";
        problems.push(SettingsProblem::new(key, message));
    }
    usable
}

fn is_usable(uri: &Uri) -> bool {
    let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
    let authority = uri.authority().map_or("", Authority::as_str);
    let host = uri.host().unwrap_or_default();
    let is_host_alone = host == authority;
    // What is no number up to 65,535 is no port, and the usual one would silently take its place.
    let has_port = uri.port_u16().is_some();
    is_http && !host.is_empty() && !authority.contains('@') && (is_host_alone || has_port)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<Uri, String> {
        let mut problems = Vec::new();
        let uri = absolute_uri("base_url", text, &mut problems);
        match (uri, problems.as_slice()) {
            (Some(uri), []) => Ok(uri),
            (None, [problem]) => Err(problem.to_string()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_address_has_a_scheme_and_a_host() {
        for text in [
            "http://a.example",
            "https://a.example/v1?x=1",
            "HTTPS://A.example",
            "https://a.example:65535",
            "http://127.0.0.1:1",
            "https://[::1]",
            "https://[::1]:443/",
        ] {
            assert!(read(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn anything_else_is_a_problem_of_its_key() {
        for text in [
            "",
            "a.example",
            "/v1",
            "ftp://a.example",
            "https://",
            "https:///v1",
            "https://user@a.example",
            "https://user:password@a.example",
            "https://a.example#top",
            "https://a.example:",
            "https://:443",
            "http://:0?",
            "https://a.example:0x50",
            "https://a.example:65536",
            "https://a.example:-1",
            "https://a example",
            " https://a.example",
        ] {
            assert_eq!(
                read(text),
                Err("base_url: must be http:// or https:// with a host, and without a user or a fragment"
                    .to_owned()),
                "{text}"
            );
        }
    }

    proptest! {
        #[test]
        fn what_is_read_leads_to_a_host_without_a_user(text in any::<String>(), near in "https?://[a-z@:/#?.0-9-]{0,20}") {
            for written in [&text, &near] {
                if let Ok(uri) = read(written) {
                    prop_assert!(matches!(uri.scheme_str(), Some("http" | "https")));
                    prop_assert!(uri.host().is_some_and(|host| !host.is_empty()), "{}", written);
                    prop_assert!(!uri.authority().unwrap().as_str().contains('@'));
                }
            }
        }
    }
}
