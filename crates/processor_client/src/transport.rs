//! One request to the processor: sent, repeated where the rule says so, and its end named.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, HeaderMap, RETRY_AFTER, USER_AGENT,
};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderName, HeaderValue, Method, Request, StatusCode, Uri};
use outbound::{
    CallErrorKind, CallFault, CallPhase, CallTimeouts, ClientError, ConnectionPool,
    ConnectionSettings, ReadLimits, ReadUpTo, RequestBody, SettingsProblem, UpstreamSettings,
};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep, timeout};

use super::error::{ErrorBody, ProcessorError, RateLimit, TransportTrouble};
use super::form::FormParameters;
use super::settings::{API_VERSION, ProcessorSettings};

/// The longest answer, in bytes; a page of a hundred events takes a fraction of it.
const ANSWER_BYTES_MAX: usize = 8 * 1_024 * 1_024;
const CONNECT_MAX: Duration = Duration::from_secs(5);
const PAUSE_MAX: Duration = Duration::from_secs(8);
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const REQUEST_ID: HeaderName = HeaderName::from_static("request-id");
const SHOULD_RETRY: HeaderName = HeaderName::from_static("stripe-should-retry");
const VERSION: HeaderName = HeaderName::from_static("stripe-version");

/// The payment processor. Cheap to clone; clones share their connections.
#[derive(Clone)]
pub struct ProcessorClient(Arc<ProcessorInner>);

struct ProcessorInner {
    scheme: Scheme,
    authority: Authority,
    authorization: HeaderValue,
    connections: ConnectionPool,
    timeout: Duration,
    retries_max: u32,
    retry_pause: Duration,
}

/// What makes a request with an effect the same request when it is sent again.
///
/// It is derived from the id of a row that was committed before: `pi:ord_…`. The processor
/// remembers it for at least 24 hours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey(HeaderValue);

/// A key that cannot stand in a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an idempotency key has 1 to 255 visible ASCII characters")]
pub struct UnusableKey;

/// A request as every attempt sends it.
struct PreparedRequest<'a> {
    method: Method,
    path: String,
    form: FormParameters,
    key: Option<&'a IdempotencyKey>,
    /// Whether it may be sent again without a thought, and an end without an answer has done
    /// nothing.
    is_harmless: bool,
}

/// What one attempt brought.
struct ReceivedResponse {
    status: StatusCode,
    should_retry: Option<bool>,
    /// Seconds; a date is not read.
    retry_after_s: Option<u64>,
    request_id: Option<String>,
    body: Bytes,
}

impl IdempotencyKey {
    /// The key of the one request of this `kind` for the row `id`: `kind:id`.
    pub fn of(kind: &str, id: impl fmt::Display) -> Result<Self, UnusableKey> {
        let text = format!("{kind}:{id}");
        let is_usable = text.len() <= 255 && text.bytes().all(|byte| byte.is_ascii_graphic());
        let value = HeaderValue::from_str(&text).ok().filter(|_| is_usable);
        value.map(Self).ok_or(UnusableKey)
    }
}

impl ProcessorClient {
    /// Checks the settings; nothing is connected yet. Problems are named by their keys below
    /// `processor`.
    pub fn new(settings: &ProcessorSettings) -> Result<Self, Vec<SettingsProblem>> {
        let mut problems = Vec::new();
        let uri = base(&settings.base_url, &mut problems);
        let authorization = authorization(&settings.secret_key, &mut problems);
        let tls = outbound::client_config(settings.ca_file.as_deref())
            .map_err(|message| problems.push(SettingsProblem::new("ca_file", message)));
        let (Some((scheme, authority)), Some(authorization), Ok(tls)) = (uri, authorization, tls)
        else {
            return Err(problems);
        };
        let connect = settings.timeout.min(CONNECT_MAX);
        let timeouts = CallTimeouts {
            connect,
            tls: connect,
            first_byte: settings.timeout,
            upload: settings.timeout,
            between_bytes: settings.timeout,
            stream_idle: settings.timeout,
        };
        let connection =
            ConnectionSettings { timeouts, ca_file: settings.ca_file.clone(), identity: None, tls };
        Ok(Self(Arc::new(ProcessorInner {
            scheme,
            authority,
            authorization,
            connections: ConnectionPool::new(&connection, &UpstreamSettings::default()),
            timeout: settings.timeout,
            retries_max: settings.retries_max,
            retry_pause: settings.retry_pause,
        })))
    }

    /// Reads an object or a list.
    pub(super) async fn get<T>(
        &self,
        path: &[&str],
        form: FormParameters,
    ) -> Result<T, ProcessorError>
    where
        T: DeserializeOwned,
    {
        let path = path_of(path)?;
        self.send(PreparedRequest { method: Method::GET, path, form, key: None, is_harmless: true })
            .await
    }

    /// Sends a request with an effect.
    pub(super) async fn post<T>(
        &self,
        path: &[&str],
        form: FormParameters,
        key: &IdempotencyKey,
    ) -> Result<T, ProcessorError>
    where
        T: DeserializeOwned,
    {
        let (method, path) = (Method::POST, path_of(path)?);
        self.send(PreparedRequest { method, path, form, key: Some(key), is_harmless: false }).await
    }

    /// Sends a POST that only computes something.
    pub(super) async fn ask<T>(
        &self,
        path: &[&str],
        form: FormParameters,
    ) -> Result<T, ProcessorError>
    where
        T: DeserializeOwned,
    {
        let (method, path) = (Method::POST, path_of(path)?);
        self.send(PreparedRequest { method, path, form, key: None, is_harmless: true }).await
    }

    /// Sends a DELETE, which is the same when it is sent twice.
    pub(super) async fn delete<T>(&self, path: &[&str]) -> Result<T, ProcessorError>
    where
        T: DeserializeOwned,
    {
        let (method, path) = (Method::DELETE, path_of(path)?);
        let form = FormParameters::new();
        self.send(PreparedRequest { method, path, form, key: None, is_harmless: false }).await
    }

    async fn send<T: DeserializeOwned>(
        &self,
        request: PreparedRequest<'_>,
    ) -> Result<T, ProcessorError> {
        let mut may_be_done = false;
        let mut attempt = 0;
        loop {
            let outcome = self.attempt(&request, attempt).await;
            may_be_done |= !request.is_harmless
                && outcome.as_ref().map_or_else(|error| error.sent, ReceivedResponse::may_be_done);
            if attempt >= self.0.retries_max || !wants_retry(&outcome) {
                return conclude(outcome, may_be_done);
            }
            sleep(pause(self.0.retry_pause, attempt)).await;
            attempt += 1;
        }
    }

    /// One attempt, within its time, and a line in the log about it.
    async fn attempt(
        &self,
        request: &PreparedRequest<'_>,
        number: u32,
    ) -> Result<ReceivedResponse, ClientError> {
        let started = Instant::now();
        let outcome = match timeout(self.0.timeout, self.exchange(request)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(too_late()),
        };
        let milliseconds = started.elapsed().as_millis();
        let (method, path) = (&request.method, request.path.as_str());
        match &outcome {
            Ok(received) => {
                let (status, id) = (received.status.as_u16(), received.request_id.as_deref());
                if received.status.is_success() && request.is_harmless {
                    tracing::debug!(%method, path, status, processor.request_id = id, milliseconds, "the payment processor answered");
                } else {
                    tracing::info!(%method, path, status, processor.request_id = id, milliseconds, attempt = number, "the payment processor answered");
                }
            }
            Err(error) => {
                tracing::warn!(%method, path, milliseconds, attempt = number, sent = error.sent, %error, "the payment processor did not answer");
            }
        }
        outcome
    }

    async fn exchange(
        &self,
        request: &PreparedRequest<'_>,
    ) -> Result<ReceivedResponse, ClientError> {
        let mut answer = self.0.connections.send(self.request(request)?).await?;
        let ReadUpTo::Whole(body) =
            answer.body.read_up_to(ReadLimits::bytes(ANSWER_BYTES_MAX)).await?
        else {
            return Err(ClientError::bad_response("it is too long"));
        };
        Ok(ReceivedResponse {
            status: answer.status,
            should_retry: should_retry(&answer.headers),
            retry_after_s: text(&answer.headers, &RETRY_AFTER).and_then(|text| text.parse().ok()),
            request_id: text(&answer.headers, &REQUEST_ID),
            body,
        })
    }

    fn request(&self, request: &PreparedRequest<'_>) -> Result<Request<RequestBody>, ClientError> {
        let is_post = request.method == Method::POST;
        let encoded = request.form.encoded();
        let mut target = request.path.clone();
        if !is_post && !request.form.is_empty() {
            target.push('?');
            target.push_str(&encoded);
        }
        let target: PathAndQuery = target.parse().map_err(ClientError::build)?;
        let uri = Uri::builder()
            .scheme(self.0.scheme.clone())
            .authority(self.0.authority.clone())
            .path_and_query(target)
            .build()
            .map_err(ClientError::build)?;
        let body = if is_post { RequestBody::whole(encoded.into()) } else { RequestBody::empty() };
        let mut built = Request::new(body);
        *built.method_mut() = request.method.clone();
        *built.uri_mut() = uri;
        let headers = built.headers_mut();
        headers.insert(AUTHORIZATION, self.0.authorization.clone());
        headers.insert(VERSION, HeaderValue::from_static(API_VERSION));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        headers.insert(USER_AGENT, HeaderValue::from_static("creator-gateway"));
        if is_post {
            // Also with an empty body: without it the processor refuses the request.
            let form = HeaderValue::from_static("application/x-www-form-urlencoded");
            headers.insert(CONTENT_TYPE, form);
        }
        if let Some(key) = request.key {
            headers.insert(IDEMPOTENCY_KEY, key.0.clone());
        }
        Ok(built)
    }
}

impl fmt::Debug for ProcessorClient {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Processor")
            .field("authority", &self.0.authority)
            .finish_non_exhaustive()
    }
}

impl ReceivedResponse {
    /// Whether a request with an effect that is answered so may have had it.
    fn may_be_done(&self) -> bool {
        match self.status {
            StatusCode::CONFLICT => {
                self.error().error.code.as_deref() == Some("idempotency_key_in_use")
            }
            status => status.is_success() || status.is_redirection() || status.is_server_error(),
        }
    }

    fn error(&self) -> ErrorBody {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    fn trouble(&self) -> TransportTrouble {
        TransportTrouble {
            what: format!("it answered {}", self.status.as_u16()),
            request_id: self.request_id.clone(),
            source: None,
        }
    }
}

/// The processor's own rule: what it says in the answer first, then connections that fail,
/// conflicts, and its own mistakes.
fn wants_retry(outcome: &Result<ReceivedResponse, ClientError>) -> bool {
    match outcome {
        Err(error) => error.kind != CallErrorKind::Build,
        Ok(received) => received.should_retry.unwrap_or_else(|| {
            received.status == StatusCode::CONFLICT || received.status.is_server_error()
        }),
    }
}

/// Names the end of a request after its last attempt. `may_be_done`: one of its attempts may have
/// had its effect.
fn conclude<T: DeserializeOwned>(
    outcome: Result<ReceivedResponse, ClientError>,
    may_be_done: bool,
) -> Result<T, ProcessorError> {
    let unclear = |trouble: TransportTrouble| {
        if may_be_done {
            ProcessorError::Unknown(trouble)
        } else {
            ProcessorError::Unreachable(trouble)
        }
    };
    let received = match outcome {
        Ok(received) => received,
        Err(error) => {
            return Err(unclear(TransportTrouble {
                what: error.to_string(),
                request_id: None,
                source: Some(error),
            }));
        }
    };
    let (status, request_id) = (received.status, received.request_id.clone());
    if status.is_success() {
        return serde_json::from_slice(&received.body).map_err(|error| {
            let what = format!("its answer has no shape that is known: {error}");
            unclear(TransportTrouble { what, request_id, source: None })
        });
    }
    let fields = received.error().error;
    match status {
        StatusCode::PAYMENT_REQUIRED => {
            Err(ProcessorError::Declined(Box::new(fields.into_decline(request_id))))
        }
        StatusCode::NOT_FOUND => Err(ProcessorError::Missing),
        // Said before the key is looked at, so nothing is said about an earlier attempt.
        StatusCode::TOO_MANY_REQUESTS | StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN
            if may_be_done =>
        {
            Err(ProcessorError::Unknown(received.trouble()))
        }
        StatusCode::TOO_MANY_REQUESTS if fields.code.as_deref() == Some("lock_timeout") => {
            Err(ProcessorError::LockTimeout)
        }
        StatusCode::TOO_MANY_REQUESTS => {
            let retry_after_s = received.retry_after_s;
            Err(ProcessorError::RateLimited(RateLimit { retry_after_s, request_id }))
        }
        StatusCode::CONFLICT if may_be_done => Err(ProcessorError::Unknown(received.trouble())),
        status if status.is_client_error() => {
            Err(ProcessorError::Refused(Box::new(fields.into_refusal(status, request_id))))
        }
        _ => Err(unclear(received.trouble())),
    }
}

fn pause(first: Duration, attempt: u32) -> Duration {
    first.saturating_mul(2_u32.saturating_pow(attempt)).min(PAUSE_MAX)
}

const fn too_late() -> ClientError {
    ClientError {
        fault: CallFault::Theirs,
        kind: CallErrorKind::Timeout(CallPhase::FirstByte),
        sent: true,
        retryable: false,
        source: None,
    }
}

fn should_retry(headers: &HeaderMap) -> Option<bool> {
    match headers.get(SHOULD_RETRY)?.as_bytes() {
        b"true" => Some(true),
        b"false" => Some(false),
        _ => None,
    }
}

fn text(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}

/// The path below `/v1`. Ids come from callers and from answers: what is no id names nothing.
fn path_of(parts: &[&str]) -> Result<String, ProcessorError> {
    let is_plain = |part: &&str| {
        (1..=255).contains(&part.len())
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
    };
    if !parts.iter().all(is_plain) {
        return Err(ProcessorError::Missing);
    }
    Ok(format!("/v1/{}", parts.join("/")))
}

fn base(text: &str, problems: &mut Vec<SettingsProblem>) -> Option<(Scheme, Authority)> {
    let uri = outbound::absolute_uri("base_url", text, problems)?.into_parts();
    let has_path = uri.path_and_query.is_some_and(|path| path.as_str() != "/");
    if has_path {
        let message = "must end after the host: paths begin with /v1 there";
        problems.push(SettingsProblem::new("base_url", message));
        return None;
    }
    Some((uri.scheme?, uri.authority?))
}

fn authorization(secret: &str, problems: &mut Vec<SettingsProblem>) -> Option<HeaderValue> {
    let is_usable = !secret.is_empty() && secret.bytes().all(|byte| byte.is_ascii_graphic());
    let value = HeaderValue::from_str(&format!("Bearer {secret}")).ok().filter(|_| is_usable);
    match value {
        Some(mut value) => {
            value.set_sensitive(true);
            Some(value)
        }
        None => {
            let message = "is required with processor.base_url, in visible ASCII";
            problems.push(SettingsProblem::new("secret_key", message));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_eight_seconds() {
        let half = Duration::from_millis(500);
        for (attempt, milliseconds) in [
            (0, 500),
            (1, 1_000),
            (2, 2_000),
            (4, 8_000),
            (5, 8_000),
            (31, 8_000),
            (u32::MAX, 8_000),
        ] {
            assert_eq!(pause(half, attempt), Duration::from_millis(milliseconds), "{attempt}");
        }
        assert_eq!(pause(Duration::MAX, 0), PAUSE_MAX);
        assert_eq!(pause(Duration::ZERO, u32::MAX), Duration::ZERO);
    }
}
