//! One platform, checked, and how a native call becomes a request to it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use domain::method::Method;
use domain::platform::Platform;
use domain::time::Timestamp;
use http::header::{CONTENT_LENGTH, HOST, HeaderMap, HeaderValue};
use http::uri::PathAndQuery;
use http::{Request, Uri};
use outbound::{ClientError, ConnectionSettings, RequestBody, SettingsProblem};
use zeroize::Zeroizing;

use super::account_headers::AccountHeaders;
use super::checked::CheckedSettings;
use super::cookies;
use super::credentials::AccountCredentials;
use super::envelope::EnvelopeContent;
use super::envelope_kind::EnvelopeKind;
use super::headers;
use super::oauth::TokenEndpoint;
use super::path::{self, PathProblem};
use super::proxy::ProxyRoute;
use super::query_fields::AccountQuery;
use super::references::CalledWith;
use super::settings::TargetSettings;
use super::signing::external::ExternalSigner;
use super::signing::values::{SigningValues, ValuesFailure};
use super::signing::{AccountParts, RequestSigner, SigningInput};
use super::verify::IdentityCheck;

/// One platform as configured, checked and ready for requests. Cheap to clone.
#[derive(Clone)]
pub struct PlatformTarget(Arc<CheckedSettings>);

/// One native request, ready to be sent.
#[derive(Clone)]
pub struct NativeCall<'a> {
    /// The id of the call, for header templates that want it.
    pub call_id: &'a (dyn fmt::Display + Sync),
    /// The method.
    pub method: Method,
    /// The final native path, below the platform's prefix, without a leading slash.
    pub path: &'a str,
    /// The final raw query, without its question mark; may be empty.
    pub query: &'a str,
    /// The caller's headers; what is not on the allow list is dropped.
    pub caller_headers: &'a HeaderMap,
    /// The caller's body; left out of a GET.
    pub body: Bytes,
    /// The headers of its account.
    pub account: &'a AccountHeaders,
    /// What the signature is made with.
    pub signing: SigningInput,
}

impl PlatformTarget {
    /// Checks the settings of a platform; reads the file of its certificate authorities.
    ///
    /// Finds all problems at once, named by their keys.
    pub fn new(settings: &TargetSettings) -> Result<Self, Vec<SettingsProblem>> {
        CheckedSettings::new(settings).map(|checked| Self(Arc::new(checked)))
    }

    /// Which platform it is.
    pub fn platform(&self) -> Platform {
        self.0.platform
    }

    /// Whether its answers come in an envelope.
    pub fn has_envelope(&self) -> bool {
        self.0.envelope != EnvelopeKind::None
    }

    /// Takes the envelope off a JSON answer.
    pub fn unwrap(&self, body: &[u8]) -> EnvelopeContent {
        self.0.envelope.unwrap(body)
    }

    /// The parameter of a caller's query that this service adds itself, so that no caller may give
    /// it.
    pub fn reserved_parameter(&self, query: &str) -> Option<&str> {
        self.0.query.given_in(query)
    }

    /// Whether cookies that it sets are kept for each account.
    pub fn keeps_cookies(&self) -> bool {
        self.0.cookies
    }

    /// Whether it has a token endpoint.
    pub fn has_oauth(&self) -> bool {
        self.0.oauth.is_some()
    }

    /// Of the headers of a response what the caller gets: those that this platform's list lets
    /// pass. References to the platform become references to this service where a native call
    /// reaches what they name. Secrets that requests of `account` have in their queries are
    /// hidden.
    pub fn headers_for_caller(
        &self,
        response: &HeaderMap,
        called: CalledWith<'_>,
        account: Option<&AccountHeaders>,
    ) -> HeaderMap {
        let headers = self.0.response_headers.for_caller(response, called);
        let headers = self.0.query.taken_out_of_references(headers);
        match account {
            Some(account) => account.query.hidden_in(headers),
            None => headers,
        }
    }

    /// How long a stream of events may have nothing to say.
    pub fn stream_idle(&self) -> Duration {
        self.0.connection.timeouts.stream_idle
    }

    /// The headers that all requests with these credentials have.
    ///
    /// Fails with [`Build`](outbound::CallErrorKind::Build) when a credential cannot stand in a
    /// header.
    pub fn headers_of(
        &self,
        credentials: &AccountCredentials,
    ) -> Result<AccountHeaders, ClientError> {
        let signing = match &self.0.signer {
            Some(signer) => signer.account_parts(credentials)?,
            None => AccountParts::default(),
        };
        let headers =
            AccountHeaders::new(self.0.fixed.clone(), &self.0.templates, credentials, signing)?;
        let query = self.0.query.of_account(credentials)?;
        Ok(headers.with(query, self.0.proxy.of_account(credentials)?))
    }

    /// Builds the request of a call whose body is in memory.
    ///
    /// The request target is the platform's prefix, the path and the query, byte for byte. Fails
    /// with [`Build`](outbound::CallErrorKind::Build) when the path or query breaks the rules
    /// of [`path`]; nothing was sent then.
    pub fn request(&self, call: &NativeCall<'_>) -> Result<Request<RequestBody>, ClientError> {
        self.request_with(call, RequestBody::whole(call.body.clone()))
    }

    /// The same with another body in place of the call's, such as a spooled upload.
    pub fn request_with(
        &self,
        call: &NativeCall<'_>,
        body: RequestBody,
    ) -> Result<Request<RequestBody>, ClientError> {
        let uri = self.uri(call.path, call.query, &call.account.query)?;
        let body = if call.method.is_read() { RequestBody::empty() } else { body };
        let values = self.values().and_then(SigningValues::kept);
        let mut headers = call.account.of_call(call.call_id, values.as_deref())?;
        if let Some(host) = self.0.hosts.of(call.path) {
            headers.insert(HOST, host.header.clone());
        }
        headers::copy_from_caller(call.caller_headers, &mut headers);
        let is_empty = http_body::Body::is_end_stream(&body);
        let mut request = Request::new(body);
        *request.method_mut() = method(call.method);
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        if let Some(signer) = &self.0.signer {
            signer.sign(&mut request, &call.account.signing, call.signing)?;
        }
        route(&mut request, call.account, call.signing.now);
        if is_empty && expects_length(call.method) {
            request.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
        Ok(request)
    }

    /// How often its signing values are to be read again; nothing where it has none.
    pub fn values_refresh(&self) -> Option<Duration> {
        self.values().map(SigningValues::refresh)
    }

    /// How old the signing values in use are; nothing where it has none, or none were read so far.
    pub fn values_age(&self) -> Option<Duration> {
        self.values().and_then(SigningValues::age)
    }

    /// Reads its signing values again, if it has any. The ones in use stay where that fails.
    pub async fn read_values(&self) -> Result<(), ValuesFailure> {
        match self.values() {
            // Boxed: it is rarely read, and the start of the service need not carry its room.
            Some(values) => Box::pin(values.read(&self.0.connection)).await,
            None => Ok(()),
        }
    }

    /// Whether its signatures need the whole body, so that no upload can be sent from disk.
    pub fn signs_whole_bodies(&self) -> bool {
        self.0.signer.as_ref().is_some_and(RequestSigner::needs_body)
    }

    fn values(&self) -> Option<&SigningValues> {
        self.0.signer.as_ref().and_then(RequestSigner::values)
    }

    pub(super) fn external_signer(&self) -> Option<&ExternalSigner> {
        self.0.signer.as_ref().and_then(RequestSigner::external)
    }

    /// Whether its identity check only reads.
    pub fn verifies_by_read(&self) -> bool {
        self.0.identity.is_read()
    }

    pub(super) fn identity(&self) -> &IdentityCheck {
        &self.0.identity
    }

    pub(super) fn token_endpoint(&self) -> Option<&TokenEndpoint> {
        self.0.oauth.as_ref()
    }

    pub(super) fn connection(&self) -> &ConnectionSettings {
        &self.0.connection
    }

    /// Scheme and authority are the configured ones whatever the path holds: it is only ever parsed
    /// as a path and query, and what was parsed must be what was given.
    fn uri(&self, path: &str, query: &str, own: &AccountQuery) -> Result<Uri, ClientError> {
        path::check_path(path).map_err(ClientError::build)?;
        path::check_query(query).map_err(ClientError::build)?;
        if self.0.query.given_in(query).is_some() {
            return Err(ClientError::build("the query gives a parameter that the service adds"));
        }
        let place = self.0.hosts.of(path);
        let prefix = place.map_or(&self.0.prefix, |place| &place.prefix);
        let whole = own.behind(query);
        let question_mark = if whole.is_empty() { "" } else { "?" };
        let target = [prefix.as_str(), path, question_mark, &whole].concat();
        let bytes = target.len();
        let target = if own.is_empty() {
            Bytes::from(target)
        } else {
            // Wiped with the request.
            Bytes::from_owner(Zeroizing::new(target.into_bytes()))
        };
        let path_and_query = PathAndQuery::from_maybe_shared(target).map_err(ClientError::build)?;
        // It is parsed where it is, so it could only have been cut short.
        if path_and_query.as_str().len() != bytes || !path_and_query.path().starts_with(prefix) {
            return Err(ClientError::build(PathProblem::Character));
        }
        let mut parts = http::uri::Parts::default();
        let (scheme, authority) = match place {
            Some(place) => (&place.scheme, &place.authority),
            None => (&self.0.scheme, &self.0.authority),
        };
        parts.scheme = Some(scheme.clone());
        parts.authority = Some(authority.clone());
        parts.path_and_query = Some(path_and_query);
        Uri::from_parts(parts).map_err(ClientError::build)
    }
}

impl fmt::Debug for NativeCall<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("NativeCall")
            .field("method", &self.method)
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for PlatformTarget {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Target")
            .field("platform", &self.0.platform)
            .field("authority", &self.0.authority)
            .field("prefix", &self.0.prefix)
            .finish_non_exhaustive()
    }
}

/// Leaves with a request what it goes through, and adds the account's cookies to it.
pub(super) fn route(request: &mut Request<RequestBody>, account: &AccountHeaders, now: Timestamp) {
    if let Some(jar) = &account.cookies {
        cookies::attach(request, jar, now);
    }
    if let Some(proxy) = &account.proxy {
        request.extensions_mut().insert(ProxyRoute(Arc::clone(proxy)));
    }
}

/// Some servers refuse these methods without a length, even for no content (RFC 9110, section 8.6).
const fn expects_length(method: Method) -> bool {
    match method {
        Method::Post | Method::Put | Method::Patch => true,
        Method::Get | Method::Delete => false,
    }
}

const fn method(method: Method) -> http::Method {
    match method {
        Method::Get => http::Method::GET,
        Method::Post => http::Method::POST,
        Method::Put => http::Method::PUT,
        Method::Patch => http::Method::PATCH,
        Method::Delete => http::Method::DELETE,
    }
}

#[cfg(test)]
mod tests {
    use http::header::USER_AGENT;
    use proptest::prelude::*;

    use super::*;
    use crate::settings::sample::settings;
    use outbound::CallErrorKind;

    fn call<'a>(account: &'a AccountHeaders, caller: &'a HeaderMap) -> NativeCall<'a> {
        NativeCall {
            call_id: &"call_1",
            method: Method::Post,
            path: "message/send",
            query: "",
            caller_headers: caller,
            body: Bytes::from_static(b"{}"),
            account,
            signing: SigningInput { now: Timestamp::from_unix_micros(0), nonce: [0; 16] },
        }
    }

    fn account(target: &PlatformTarget, json: &str) -> AccountHeaders {
        target.headers_of(&AccountCredentials::from_json(json.as_bytes()).unwrap()).unwrap()
    }

    #[test]
    fn a_request_is_the_prefix_path_and_query_and_the_platforms_headers() {
        let target = PlatformTarget::new(&settings()).unwrap();
        let account = account(&target, r#"{"token":"t0"}"#);
        let mut caller = HeaderMap::new();
        caller.insert("authorization", HeaderValue::from_static("Bearer theirs"));
        caller.insert("x-client-signature", HeaderValue::from_static("theirs"));
        caller.insert("content-type", HeaderValue::from_static("application/json"));

        let query = "a=%20&a=1&b[]=x/../y";
        let request = target.request(&NativeCall { query, ..call(&account, &caller) }).unwrap();

        assert_eq!(request.method(), http::Method::POST);
        assert_eq!(
            request.uri().to_string(),
            "http://127.0.0.1:8081/base/api/v1/message/send?a=%20&a=1&b[]=x/../y"
        );
        let header = |name: &str| request.headers().get(name).unwrap().to_str().unwrap();
        assert_eq!(header("authorization"), "t0");
        assert_eq!(header("content-type"), "application/json");
        assert_eq!(header("accept-encoding"), "identity");
        assert_eq!(header("user-agent"), "creator-gateway");
        assert_eq!(header("x-api-version"), "2025-06-26");
        assert_eq!(header("x-call"), "call_1");
        assert_ne!(header("x-client-signature"), "theirs");
        assert_eq!(header("host"), "127.0.0.1:8081");
        assert_eq!(request.headers().len(), 12);
        assert!(request.headers().get("authorization").unwrap().is_sensitive());
    }

    #[test]
    fn a_credential_takes_the_place_of_the_default_user_agent() {
        let target = PlatformTarget::new(&settings()).unwrap();
        let account = account(&target, r#"{"token":"t","user_agent":"Phone 1"}"#);

        let request = target.request(&call(&account, &HeaderMap::new())).unwrap();

        assert_eq!(request.headers().get(USER_AGENT).unwrap(), "Phone 1");
    }

    #[test]
    fn a_get_has_no_body_and_an_empty_post_says_so() {
        let target = PlatformTarget::new(&settings()).unwrap();
        let (account, caller) = (account(&target, "{}"), HeaderMap::new());
        let with = |method, body| {
            target.request(&NativeCall { method, body, ..call(&account, &caller) }).unwrap()
        };

        let get = with(Method::Get, Bytes::from_static(b"dropped"));
        let post = with(Method::Post, Bytes::new());
        let full = with(Method::Put, Bytes::from_static(b"kept"));

        assert!(http_body::Body::is_end_stream(get.body()));
        assert!(!get.headers().contains_key(CONTENT_LENGTH));
        assert_eq!(post.headers().get(CONTENT_LENGTH).unwrap(), "0");
        assert_eq!(http_body::Body::size_hint(full.body()).exact(), Some(4));
        assert!(!full.headers().contains_key(CONTENT_LENGTH));
    }

    #[test]
    fn a_path_or_credential_that_cannot_be_sent_fails_before_anything_leaves() {
        let target = PlatformTarget::new(&settings()).unwrap();
        let broken = AccountCredentials::from_json(br#"{"token":"a\r\nX-Evil: 1"}"#).unwrap();
        let fine = account(&target, r#"{"token":"t"}"#);
        let caller = HeaderMap::new();

        let failures = [
            target.headers_of(&broken).map(drop),
            target.request(&NativeCall { path: "../x", ..call(&fine, &caller) }).map(drop),
            target.request(&NativeCall { path: "/x", ..call(&fine, &caller) }).map(drop),
            target.request(&NativeCall { query: "a#b", ..call(&fine, &caller) }).map(drop),
        ];

        for failure in failures {
            let error = failure.unwrap_err();
            assert_eq!(
                (error.kind, error.sent, error.retryable),
                (CallErrorKind::Build, false, false)
            );
        }
    }

    proptest! {
        /// Whatever path and query pass the checks arrive as the same bytes behind the configured
        /// place; the others build no request.
        #[test]
        fn a_request_never_leaves_its_place_and_keeps_every_byte(
            path in "([a-zA-Z0-9._~!$&'()*+,=:@/%;\\\\?#-]|%2[eEfF]|\\.\\./|//|http://){0,16}",
            query in "([a-zA-Z0-9&=%#?/\\\\<>\"{}|^`-]|%0[adAD]|%[0-9a-f]{2}){0,16}",
        ) {
            let target = PlatformTarget::new(&settings()).unwrap();
            let (account, caller) = (account(&target, "{}"), HeaderMap::new());
            let built = target.request(&NativeCall {
                path: &path,
                query: &query,
                ..call(&account, &caller)
            });
            let is_clean = path::check_path(&path).is_ok() && path::check_query(&query).is_ok();
            prop_assert_eq!(built.is_ok(), is_clean);
            if let Ok(request) = built {
                let mark = if query.is_empty() { "" } else { "?" };
                let expected = format!("/base/api/v1/{path}{mark}{query}");
                prop_assert_eq!(request.uri().authority().unwrap().as_str(), "127.0.0.1:8081");
                prop_assert_eq!(request.uri().path_and_query().unwrap().as_str(), expected);
            }
        }
    }
}
