//! Signing values: texts that recipes name and that change while the service runs, read from a file
//! or an address.
//!
//! They are taken whole or not at all: where a new reading is not good, the last good one stays.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use http::header::{ACCEPT, ACCEPT_ENCODING};
use http::{HeaderValue, Request, StatusCode, Uri};
use outbound::{
    CallTimeouts, ClientError, ConnectionPool, ConnectionSettings, ReadLimits, ReadUpTo,
    RequestBody, SettingsProblem, UpstreamSettings,
};
use serde_json::Value;
use tokio::time::Instant;
use zeroize::Zeroizing;

use super::kept_values::KeptValues;
use super::settings::{ValuesSettings, ValuesSource};

/// The most bytes of a file or a response with values.
pub const VALUES_BYTES_MAX: usize = 65_536;
/// How long an address of values may take to respond with all of them.
const FETCH_MAX: Duration = Duration::from_secs(10);

/// Why a reading was not good. It names no address and no value.
#[derive(Debug, thiserror::Error)]
pub enum ValuesFailure {
    /// The file cannot be read.
    #[error("the file of the signing values cannot be read: {0}")]
    File(std::io::Error),
    /// The address could not be reached, or did not respond as it should.
    #[error("the signing values could not be fetched: {0}")]
    Fetch(ClientError),
    /// It took too long.
    #[error("the signing values could not be fetched within 10 seconds")]
    Late,
    /// Another status than 200.
    #[error("the signing values could not be fetched: the status is {0}")]
    Status(u16),
    /// More bytes than are read.
    #[error("the signing values take more than 65,536 bytes")]
    TooLarge,
    /// Not what was asked for.
    #[error("the signing values are not a JSON object of texts and numbers")]
    Malformed,
    /// A name that the recipe or a header names is not there.
    #[error("{0:?} is not among the signing values")]
    Missing(String),
    /// A value that no header and no signature can hold.
    #[error("the signing value {0:?} is empty or holds control characters")]
    Unusable(String),
}

/// The values of one platform: where they come from, and the last good reading.
pub(crate) struct SigningValues {
    settings: ValuesSettings,
    uri: Option<Uri>,
    names: Arc<[String]>,
    kept: RwLock<Option<Arc<KeptValues>>>,
}

impl SigningValues {
    /// Checks the settings, and reads a file. An address is asked when [`read`](Self::read) is
    /// called first.
    pub(super) fn new(
        settings: &ValuesSettings,
        names: Vec<String>,
        problems: &mut Vec<SettingsProblem>,
    ) -> Option<Self> {
        if settings.refresh.is_zero() {
            problems.push(SettingsProblem::new("signing.values.refresh_s", "must be above zero"));
        }
        if names.is_empty() {
            let message = "is of no use: no part and no header names a value; use from = \"value\"";
            problems.push(SettingsProblem::new("signing.values", message));
        }
        let names: Arc<[String]> = names.into();
        let mut kept = None;
        let mut uri = None;
        match &settings.source {
            ValuesSource::File(path) => match from_file(path, &names) {
                Ok(values) => kept = Some(Arc::new(values)),
                Err(failure) => {
                    problems.push(SettingsProblem::new("signing.values.file", failure.to_string()));
                }
            },
            ValuesSource::Url(url) => {
                uri = Some(outbound::absolute_uri("signing.values.url", url, problems)?);
            }
        }
        Some(Self { settings: settings.clone(), uri, names, kept: RwLock::new(kept) })
    }

    /// How long after they were read they are to be read again.
    pub(crate) const fn refresh(&self) -> Duration {
        self.settings.refresh
    }

    /// How old the last good reading is.
    pub(crate) fn age(&self) -> Option<Duration> {
        self.kept().map(|kept| kept.read_at.elapsed())
    }

    /// The last good reading.
    pub(crate) fn kept(&self) -> Option<Arc<KeptValues>> {
        self.kept.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads them again; what was read before stays where that fails.
    pub(crate) async fn read(&self, connection: &ConnectionSettings) -> Result<(), ValuesFailure> {
        let fresh = match (&self.settings.source, &self.uri) {
            (ValuesSource::File(path), _) => {
                let (path, names) = (path.clone(), Arc::clone(&self.names));
                let read = tokio::task::spawn_blocking(move || from_file(&path, &names)).await;
                read.map_err(|error| ValuesFailure::File(std::io::Error::other(error)))??
            }
            (ValuesSource::Url(_), Some(uri)) => {
                let fetched = tokio::time::timeout(FETCH_MAX, fetch(uri, connection)).await;
                parsed(&fetched.map_err(|_| ValuesFailure::Late)??, &self.names)?
            }
            (ValuesSource::Url(_), None) => return Err(ValuesFailure::Malformed),
        };
        *self.kept.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(fresh));
        Ok(())
    }
}

fn from_file(path: &Path, names: &Arc<[String]>) -> Result<KeptValues, ValuesFailure> {
    let limit = u64::try_from(VALUES_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
    let mut bytes = Zeroizing::new(Vec::with_capacity(VALUES_BYTES_MAX.saturating_add(1)));
    let file = std::fs::File::open(path).map_err(ValuesFailure::File)?;
    file.take(limit).read_to_end(&mut bytes).map_err(ValuesFailure::File)?;
    if bytes.len() > VALUES_BYTES_MAX {
        return Err(ValuesFailure::TooLarge);
    }
    parsed(&bytes, names)
}

async fn fetch(uri: &Uri, connection: &ConnectionSettings) -> Result<Vec<u8>, ValuesFailure> {
    let ca_file = connection.ca_file.clone();
    // Without the platform's client certificate, which is nobody else's business.
    let tls = outbound::client_config(ca_file.as_deref()).map_err(ClientError::build);
    let tls = tls.map_err(ValuesFailure::Fetch)?;
    let timeouts =
        CallTimeouts { first_byte: FETCH_MAX, between_bytes: FETCH_MAX, ..connection.timeouts };
    let settings = ConnectionSettings { timeouts, ca_file, identity: None, tls };
    let pool = ConnectionPool::new(&settings, &UpstreamSettings::default());
    let mut request = Request::new(RequestBody::empty());
    *request.uri_mut() = uri.clone();
    let headers = request.headers_mut();
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    let mut response = pool.send(request).await.map_err(ValuesFailure::Fetch)?;
    if response.status != StatusCode::OK {
        return Err(ValuesFailure::Status(response.status.as_u16()));
    }
    let limits = ReadLimits::bytes(VALUES_BYTES_MAX);
    match response.body.read_up_to(limits).await.map_err(ValuesFailure::Fetch)? {
        ReadUpTo::Whole(bytes) => Ok(bytes.to_vec()),
        ReadUpTo::Partial(_) => Err(ValuesFailure::TooLarge),
    }
}

/// Every name must be there, as a text or a number.
fn parsed(json: &[u8], names: &Arc<[String]>) -> Result<KeptValues, ValuesFailure> {
    let mut all: BTreeMap<String, Value> =
        serde_json::from_slice(json).map_err(|_| ValuesFailure::Malformed)?;
    let mut values = Vec::with_capacity(names.len());
    for name in names.iter() {
        let value = match all.remove(name) {
            Some(Value::String(text)) => Zeroizing::new(text),
            Some(Value::Number(number)) => Zeroizing::new(number.to_string()),
            Some(_) => return Err(ValuesFailure::Malformed),
            None => return Err(ValuesFailure::Missing(name.clone())),
        };
        if value.is_empty() || value.bytes().any(|byte| byte.is_ascii_control()) {
            return Err(ValuesFailure::Unusable(name.clone()));
        }
        values.push(value);
    }
    if all.values().any(|value| !matches!(value, Value::String(_) | Value::Number(_))) {
        return Err(ValuesFailure::Malformed);
    }
    Ok(KeptValues { names: Arc::clone(names), values, read_at: Instant::now() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Arc<[String]> {
        ["start".to_owned(), "revision".to_owned()].into()
    }

    #[test]
    fn values_are_taken_by_name_and_numbers_as_they_are_written() {
        let read = parsed(br#"{"revision":12.50,"start":"a b","more":1}"#, &names()).unwrap();

        assert_eq!((read.get(0), read.get(1), read.get(2)), (Some("a b"), Some("12.5"), None));
    }

    #[test]
    fn a_reading_is_good_as_a_whole_or_not_at_all() {
        for (json, problem) in [
            ("", "not a JSON object"),
            ("[]", "not a JSON object"),
            (r#"{"start":"a"}"#, "\"revision\" is not among"),
            (r#"{"start":"a","revision":null}"#, "not a JSON object of texts"),
            (r#"{"start":"a","revision":1,"more":[1]}"#, "not a JSON object of texts"),
            (r#"{"start":"","revision":1}"#, "\"start\" is empty"),
            (r#"{"start":"hush\r\nX: 1","revision":1}"#, "\"start\" is empty or holds control"),
        ] {
            let failure = parsed(json.as_bytes(), &names()).err().unwrap().to_string();
            assert!(failure.contains(problem) && !failure.contains("hush"), "{json}: {failure}");
        }
    }
}
