//! Signatures of a process on this machine: it is told of each request and responds with the
//! headers to put on it.
//!
//! A request that it does not sign is not sent. It is told of an account no more than an opaque id
//! and the credentials that the configuration chooses.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request};
use outbound::{
    BodyContentView, ClientError, RequestBody, SettingsProblem, SignerAddress, SignerConnections,
};
use serde::Deserialize;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use super::SigningInput;
use super::account;
use super::settings::SigningSettings;
use crate::checks;
use crate::credentials::AccountCredentials;

/// The longest time that a signature may take.
const TIMEOUT_MAX: Duration = Duration::from_secs(30);
/// The most headers of a signature.
const HEADERS_MAX: usize = 32;

/// A checked process that signs.
#[derive(Clone)]
pub(crate) struct ExternalSigner {
    pub(crate) address: SignerAddress,
    pub(super) timeout: Duration,
    fields: Vec<String>,
    platform: String,
}

/// What it is asked about one request; kept with the request until that is sent.
#[derive(Clone)]
pub(crate) struct SigningQuestion(pub(super) Bytes);

/// What it responds with.
#[derive(Deserialize)]
struct SigningAnswer {
    headers: BTreeMap<String, String>,
}

impl ExternalSigner {
    /// Checks the settings; problems are added with the names of their keys.
    pub(super) fn new(
        settings: &SigningSettings,
        platform: &str,
        problems: &mut Vec<SettingsProblem>,
    ) -> Option<Self> {
        let external = settings.external.clone().unwrap_or_default();
        if external.timeout.is_zero() || external.timeout > TIMEOUT_MAX {
            let message = "must be from 1 to 30000";
            problems.push(SettingsProblem::new("signing.timeout_ms", message));
        }
        let address = SignerAddress::parse(&external.url);
        if address.is_none() {
            let message = "must be http:// with 127.0.0.1, [::1] or localhost and a port, or unix: with the absolute \
                           path of a socket";
            problems.push(SettingsProblem::new("signing.url", message));
        }
        Some(Self {
            address: address?,
            timeout: external.timeout,
            fields: external.fields,
            platform: platform.to_owned(),
        })
    }

    /// Puts the headers on a request that the process signs it with. Fails where there is no
    /// signature in time.
    pub(crate) async fn sign(
        &self,
        connections: &SignerConnections,
        request: &mut Request<RequestBody>,
    ) -> Result<(), ClientError> {
        let Some(SigningQuestion(question)) = request.extensions_mut().remove() else {
            return Ok(());
        };
        let asking = connections.ask(&self.address, question);
        let asked = tokio::time::timeout(self.timeout, asking).await;
        let late = |_| ClientError::signing("the signer did not respond in time");
        for (name, value) in headers(&asked.map_err(late)??)? {
            request.headers_mut().insert(name, value);
        }
        Ok(())
    }

    /// The credentials that it is told.
    pub(super) fn fields(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(String::as_str)
    }

    /// The opaque id of an account, and its chosen credentials as JSON.
    pub(super) fn account_parts(&self, credentials: &AccountCredentials) -> Vec<Zeroizing<String>> {
        let chosen = |field: &String| Some((field.clone(), credentials.get(field)?));
        let fields: BTreeMap<String, &str> = self.fields.iter().filter_map(chosen).collect();
        // Texts under texts always have a JSON form.
        let fields = serde_json::to_string(&fields).unwrap_or_else(|_| "{}".to_owned());
        vec![Zeroizing::new(account::opaque_id(credentials)), Zeroizing::new(fields)]
    }

    /// What it is asked about a request.
    pub(super) fn question(
        &self,
        request: &Request<RequestBody>,
        account: &[Zeroizing<String>],
        input: SigningInput,
    ) -> SigningQuestion {
        let body_sha256 = match request.body().view() {
            BodyContentView::InMemory(bytes) => Some(hex::encode(Sha256::digest(bytes))),
            BodyContentView::Spooled => None,
        };
        let target = request.uri().path_and_query();
        let text = |index: usize| account.get(index).map_or("", |text| text.as_str());
        let plain = json!({
            "platform": self.platform,
            "account": text(0),
            "method": request.method().as_str(),
            "target": target.map_or("/", http::uri::PathAndQuery::as_str),
            "body_sha256": body_sha256,
            "time_ms": input.now.unix_millis(),
        });
        let plain = Zeroizing::new(plain.to_string());
        // The fields are JSON already, and stand last: in one piece of memory that is wiped.
        let head = plain.strip_suffix('}').unwrap_or(&plain);
        let pieces = [head, ",\"fields\":", text(1), "}"];
        let bytes = pieces.iter().map(|piece| piece.len()).sum();
        let mut json = Zeroizing::new(Vec::with_capacity(bytes));
        for piece in pieces {
            json.extend_from_slice(piece.as_bytes());
        }
        SigningQuestion(Bytes::from_owner(json))
    }
}

/// The headers of a signature, checked: those of the connection are never the signer's.
pub(super) fn headers(json: &[u8]) -> Result<Vec<(HeaderName, HeaderValue)>, ClientError> {
    let answer: SigningAnswer = serde_json::from_slice(json)
        .map_err(|_| ClientError::signing("the signer's response is not {\"headers\": {…}}"))?;
    if answer.headers.len() > HEADERS_MAX {
        return Err(ClientError::signing("the signer's response has too many headers"));
    }
    let checked = answer.headers.into_iter().map(|(name, value)| {
        let name = checks::configurable_header(&name).map_err(|_| {
            ClientError::signing("the signer's response names a header that cannot be set")
        })?;
        let owner = Bytes::from_owner(Zeroizing::new(value.into_bytes()));
        let mut written = HeaderValue::from_maybe_shared(owner).map_err(|_| {
            ClientError::signing("the signer's response has a value that no header can hold")
        })?;
        written.set_sensitive(true);
        Ok((name, written))
    });
    checked.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_the_connection_and_values_that_cannot_stand_are_refused() {
        let signed = headers(br#"{"headers":{"X-Sign":"s","x-time":"1"},"more":1}"#).unwrap();
        assert_eq!(signed.len(), 2);
        assert!(signed.iter().all(|(_, value)| value.is_sensitive()));
        for json in [
            "",
            "[]",
            "{}",
            r#"{"headers":{"Host":"evil.example"}}"#,
            r#"{"headers":{"Content-Length":"0"}}"#,
            r#"{"headers":{"Connection":"close"}}"#,
            r#"{"headers":{"Transfer-Encoding":"chunked"}}"#,
            r#"{"headers":{"a b":"x"}}"#,
            r#"{"headers":{"X-A":"hush\r\nX-B: 1"}}"#,
            r#"{"headers":{"X-A":1}}"#,
        ] {
            let refused = headers(json.as_bytes()).unwrap_err().to_string();
            assert!(!refused.contains("hush"), "{json}: {refused}");
        }
    }
}
