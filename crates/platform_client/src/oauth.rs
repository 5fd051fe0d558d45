//! Fresh access tokens for a refresh token (RFC 6749, section 6).

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use domain::time::Timestamp;
use http::header::{ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use http::{HeaderValue, Method, Request, StatusCode, Uri};
use outbound::{AnswerPatience, ClientError, ReadLimits, ReadUpTo, RequestBody, SettingsProblem};
use serde_json::Value;
use zeroize::Zeroizing;

use super::account_headers::AccountHeaders;
use super::client::PlatformClient;
use super::settings::{ClientAuthentication, OauthSettings};
use super::target::{self, PlatformTarget};

/// The longest answer of a token endpoint, in bytes.
pub const ANSWER_BYTES_MAX: usize = 65_536;

/// The longest life of a token that is believed, in seconds: ten years.
const EXPIRES_IN_S_MAX: i64 = 315_360_000;

/// What a token endpoint gave.
#[derive(Clone, PartialEq, Eq)]
pub struct OauthTokens {
    /// The token for calls.
    pub access_token: Zeroizing<String>,
    /// The token for the next refresh, where it changed; the old one may be dead then.
    pub refresh_token: Option<Zeroizing<String>>,
    /// How long the access token lasts, in seconds, where the endpoint told it.
    pub expires_in_s: Option<i64>,
    /// What the access token allows, where it changed or was told.
    pub scopes: Option<Vec<String>>,
}

/// Why there is no fresh token.
#[derive(Debug, thiserror::Error)]
pub enum RefreshFailure {
    /// The refresh is refused: the account must most likely be connected again.
    #[error("the token endpoint refused the refresh token: {code}")]
    Refused {
        /// The error code of the answer, such as `invalid_grant`.
        code: String,
    },
    /// The endpoint refuses this service as its client (`invalid_client` and the like), or refuses
    /// without an error code; the refresh token may still be good.
    #[error("the token endpoint refused this service: {}", .code.unwrap_or("it gave no error code"))]
    Service {
        /// The error code of the answer, if it had one.
        code: Option<&'static str>,
    },
    /// The endpoint was not reached, or answered unusably; the refresh token may still be good.
    #[error(transparent)]
    Client(#[from] ClientError),
}

/// A checked token endpoint.
#[derive(Clone)]
pub(super) struct TokenEndpoint {
    uri: Uri,
    user_agent: HeaderValue,
    proof: ClientProof,
}

/// How this service proves itself.
#[derive(Clone)]
enum ClientProof {
    Header(HeaderValue),
    /// What is put behind the form.
    Form(Zeroizing<String>),
}

/// A refresh token to be exchanged.
pub struct TokenRequest<'a> {
    /// The refresh token.
    pub refresh_token: &'a str,
    /// The account that it belongs to, and the current time: it is sent through the proxy that the
    /// account's calls go through, and with its cookies. None: without either.
    pub account: Option<(&'a AccountHeaders, Timestamp)>,
    /// How long the endpoint may take for the head of its answer, and for each pause in it, in
    /// place of the platform's own times: what it exchanged is lost with the answer. Who asks
    /// limits the whole.
    pub patience: Duration,
}

/// Exchanges a refresh token for a fresh access token. It is sent once: endpoints that rotate
/// refresh tokens may take a second use for theft.
pub async fn refresh(
    upstream: &PlatformClient,
    target: &PlatformTarget,
    wanted: &TokenRequest<'_>,
) -> Result<OauthTokens, RefreshFailure> {
    let endpoint = target.token_endpoint();
    let endpoint = endpoint.ok_or_else(|| ClientError::build("no token endpoint is configured"))?;
    let mut request = endpoint.request(wanted.refresh_token);
    request.extensions_mut().insert(AnswerPatience(wanted.patience));
    if let Some((account, now)) = wanted.account {
        target::route(&mut request, account, now);
    }
    let mut answer = upstream.send(target, request).await?;
    let ReadUpTo::Whole(body) = answer.body.read_up_to(ReadLimits::bytes(ANSWER_BYTES_MAX)).await?
    else {
        return Err(ClientError::bad_response("it is too long for a token").into());
    };
    match answer.status {
        // Some endpoints refuse with 200.
        StatusCode::OK => tokens(&body).map_err(|unusable| match told_error(&body) {
            Some(_) => refusal(&body),
            None => unusable.into(),
        }),
        StatusCode::BAD_REQUEST | StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            Err(refusal(&body))
        }
        _ => Err(ClientError::bad_response("its status is none of a token endpoint's").into()),
    }
}

impl TokenEndpoint {
    /// Checks the settings; problems are added with the names of their keys.
    pub(super) fn new(
        settings: &OauthSettings,
        user_agent: &str,
        problems: &mut Vec<SettingsProblem>,
    ) -> Option<Self> {
        let uri = outbound::absolute_uri("oauth.token_url", &settings.token_url, problems);
        if settings.client_id.is_empty() {
            problems.push(SettingsProblem::new("oauth.client_id", "is required"));
        }
        // An unusable one is reported where it is configured.
        let user_agent = HeaderValue::from_str(user_agent).ok()?;
        Some(Self { uri: uri?, user_agent, proof: ClientProof::new(settings)? })
    }

    fn request(&self, refresh_token: &str) -> Request<RequestBody> {
        let mut form = Zeroizing::new(String::from("grant_type=refresh_token&refresh_token="));
        form.push_str(&encoded(refresh_token));
        if let ClientProof::Form(proof) = &self.proof {
            form.push_str(proof);
        }
        let body = RequestBody::whole(Bytes::copy_from_slice(form.as_bytes()));
        let mut request = Request::new(body);
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri.clone();
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        headers.insert(USER_AGENT, self.user_agent.clone());
        if let ClientProof::Header(proof) = &self.proof {
            headers.insert(AUTHORIZATION, proof.clone());
        }
        request
    }
}

impl ClientProof {
    fn new(settings: &OauthSettings) -> Option<Self> {
        let id = encoded(&settings.client_id);
        let secret = encoded(&settings.client_secret);
        match settings.authentication {
            ClientAuthentication::Post => Some(Self::Form(Zeroizing::new(format!(
                "&client_id={}&client_secret={}",
                *id, *secret
            )))),
            ClientAuthentication::Basic => {
                let pair = Zeroizing::new(format!("{}:{}", *id, *secret));
                let header = Zeroizing::new(format!("Basic {}", STANDARD.encode(pair.as_bytes())));
                let mut value = HeaderValue::from_str(&header).ok()?;
                value.set_sensitive(true);
                Some(Self::Header(value))
            }
        }
    }
}

fn encoded(text: &str) -> Zeroizing<String> {
    Zeroizing::new(form_urlencoded::byte_serialize(text.as_bytes()).collect())
}

fn tokens(body: &[u8]) -> Result<OauthTokens, ClientError> {
    let unusable = || ClientError::bad_response("it holds no access token");
    let Ok(Value::Object(mut answer)) = serde_json::from_slice(body) else {
        return Err(unusable());
    };
    let mut text = |name: &str| match answer.remove(name) {
        Some(Value::String(text)) if !text.is_empty() => Some(Zeroizing::new(text)),
        Some(_) | None => None,
    };
    // One that cannot stand in a header would replace a good one and fail every call from then on.
    let is_sendable = |token: &Zeroizing<String>| token.bytes().all(|byte| byte.is_ascii_graphic());
    let access_token = text("access_token").filter(is_sendable).ok_or_else(unusable)?;
    let refresh_token = text("refresh_token");
    let scopes = text("scope").map(|scope| scope.split_whitespace().map(str::to_owned).collect());
    let expires_in_s = answer.get("expires_in").and_then(whole_seconds);
    Ok(OauthTokens { access_token, refresh_token, expires_in_s, scopes })
}

/// Whole seconds; some endpoints write them as text or with a fraction.
fn whole_seconds(value: &Value) -> Option<i64> {
    let digits = match value {
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.clone(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return None,
    };
    let whole = digits.split_once('.').map_or(digits.as_str(), |(whole, _)| whole);
    let seconds = whole.parse::<i64>().ok()?;
    (seconds >= 0).then(|| seconds.min(EXPIRES_IN_S_MAX))
}

/// What an answer holds as its `error` (RFC 6749, section 5.2), unless that is null.
fn told_error(body: &[u8]) -> Option<Value> {
    let answer: Value = serde_json::from_slice(body).ok()?;
    answer.get("error").filter(|error| !error.is_null()).cloned()
}

/// Tells a dead refresh token from a mistake in this service's own registration and from an
/// endpoint that refuses everybody, neither of which must make customers connect their accounts
/// again.
fn refusal(body: &[u8]) -> RefreshFailure {
    const OF_SERVICE: [&str; 3] =
        ["invalid_client", "unauthorized_client", "unsupported_grant_type"];
    let error = told_error(body);
    let code = error.as_ref().and_then(Value::as_str);
    if let Some(code) = OF_SERVICE.into_iter().find(|known| code == Some(*known)) {
        return RefreshFailure::Service { code: Some(code) };
    }
    match code {
        // The endpoint speaks of itself, not of the refresh token.
        Some("temporarily_unavailable" | "server_error" | "slow_down") => {
            RefreshFailure::Client(ClientError::bad_response("the token endpoint is out of order"))
        }
        Some(code) if is_error_code(code) => RefreshFailure::Refused { code: code.to_owned() },
        Some(_) | None => RefreshFailure::Service { code: None },
    }
}

impl RefreshFailure {
    /// Whether the refresh token itself is refused, which no later try changes (RFC 6749, section
    /// 5.2).
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Refused { code } if code == "invalid_grant")
    }
}

/// Codes are logged, so only short plain ones are believed.
fn is_error_code(code: &str) -> bool {
    !code.is_empty() && code.len() <= 64 && code.bytes().all(|byte| byte.is_ascii_graphic())
}

impl std::fmt::Debug for OauthTokens {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Tokens")
            .field("expires_in_s", &self.expires_in_s)
            .field("scopes", &self.scopes)
            .finish_non_exhaustive()
    }
}
