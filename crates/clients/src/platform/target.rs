//! One platform, checked, and how a native call becomes a request to it.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use domain::method::Method;
use domain::platform::Platform;
use http::header::{
    ACCEPT_ENCODING, CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue,
    TE, TRAILER, TRANSFER_ENCODING, UPGRADE, USER_AGENT,
};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Request, Uri};

use super::body::RequestBody;
use super::connect::ConnectionSettings;
use super::credentials::Credentials;
use super::oauth::TokenEndpoint;
use super::path::{self, PathProblem};
use super::settings::{SettingsProblem, TargetSettings};
use super::signing::{Signer, SigningInput};
use super::template::Template;
use super::verify::IdentityCheck;
use super::{headers, tls};
use crate::error::ClientError;

/// Headers that belong to the connection or to the framing, which no configuration may set.
const NOT_CONFIGURABLE: [HeaderName; 10] = [
    CONNECTION,
    CONTENT_LENGTH,
    EXPECT,
    HOST,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

/// One platform as configured, checked and ready for requests. Cheap to clone.
#[derive(Clone)]
pub struct Target(Arc<Checked>);

struct Checked {
    platform: Platform,
    scheme: Scheme,
    authority: Authority,
    /// Begins and ends with a slash.
    prefix: String,
    /// The same for every request.
    fixed: Vec<(HeaderName, HeaderValue)>,
    templates: Vec<(HeaderName, Template)>,
    signer: Option<Signer>,
    envelope: bool,
    identity: IdentityCheck,
    oauth: Option<TokenEndpoint>,
    connection: ConnectionSettings,
}

/// One native request, ready to be sent.
#[derive(Debug, Clone)]
pub struct NativeCall<'a> {
    /// The id of the call, for header templates that want it.
    pub call_id: &'a str,
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
    /// The account's credentials.
    pub credentials: &'a Credentials,
    /// What the signature is made with.
    pub signing: SigningInput,
}

impl Target {
    /// Checks the settings of a platform; reads the file of its certificate authorities.
    ///
    /// Finds all problems at once, named by their keys.
    pub fn new(settings: &TargetSettings) -> Result<Self, Vec<SettingsProblem>> {
        let mut problems = Vec::new();
        let place = place(settings, &mut problems);
        let fixed = fixed_headers(settings, &mut problems);
        let templates = templates(settings, &mut problems);
        let signing = settings.signing.as_ref();
        let signer = signing.and_then(|signing| Signer::new(signing, &mut problems));
        let identity = IdentityCheck::new(&settings.verify, &mut problems);
        let oauth = settings.oauth.as_ref();
        let oauth =
            oauth.and_then(|oauth| TokenEndpoint::new(oauth, &settings.user_agent, &mut problems));
        let connection = connection(settings, &mut problems);
        match (place, identity, connection) {
            (Some((scheme, authority, prefix)), Some(identity), Some(connection))
                if problems.is_empty() =>
            {
                Ok(Self(Arc::new(Checked {
                    platform: settings.platform,
                    scheme,
                    authority,
                    prefix,
                    fixed,
                    templates,
                    signer,
                    envelope: settings.envelope,
                    identity,
                    oauth,
                    connection,
                })))
            }
            _ => Err(problems),
        }
    }

    /// Which platform it is.
    pub fn platform(&self) -> Platform {
        self.0.platform
    }

    /// Whether its answers come in an envelope.
    pub fn has_envelope(&self) -> bool {
        self.0.envelope
    }

    /// Whether it has a token endpoint.
    pub fn has_oauth(&self) -> bool {
        self.0.oauth.is_some()
    }

    /// Builds the request of a call whose body is in memory.
    ///
    /// The request target is the platform's prefix, the path and the query, byte for byte. Fails with
    /// [`Build`](crate::error::Kind::Build) when the path or query breaks the rules of [`path`], or a
    /// credential cannot stand in a header; nothing was sent then.
    pub fn request(&self, call: &NativeCall<'_>) -> Result<Request<RequestBody>, ClientError> {
        self.request_with(call, RequestBody::whole(call.body.clone()))
    }

    /// The same with another body in place of the call's, such as a spooled upload.
    pub fn request_with(
        &self,
        call: &NativeCall<'_>,
        body: RequestBody,
    ) -> Result<Request<RequestBody>, ClientError> {
        let uri = self.uri(call.path, call.query)?;
        let body = if call.method.is_read() { RequestBody::empty() } else { body };
        let mut headers = HeaderMap::with_capacity(16);
        headers::copy_from_caller(call.caller_headers, &mut headers);
        for (name, value) in &self.0.fixed {
            headers.insert(name, value.clone());
        }
        self.fill_templates(call, &mut headers)?;
        if let Some(signer) = &self.0.signer {
            let target = uri.path_and_query().map_or("/", PathAndQuery::as_str);
            signer.sign(call.method.as_str(), target, call.signing, &mut headers);
        }
        if expects_length(call.method) && http_body::Body::is_end_stream(&body) {
            headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
        let mut request = Request::new(body);
        *request.method_mut() = method(call.method);
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        Ok(request)
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

    /// Scheme and authority are the configured ones whatever the path holds: it is only ever parsed as
    /// a path and query, and what was parsed must be what was given.
    fn uri(&self, path: &str, query: &str) -> Result<Uri, ClientError> {
        path::check_path(path).map_err(ClientError::build)?;
        path::check_query(query).map_err(ClientError::build)?;
        let prefix = &self.0.prefix;
        let question_mark = if query.is_empty() { "" } else { "?" };
        let target = format!("{prefix}{path}{question_mark}{query}");
        let path_and_query = PathAndQuery::try_from(target.as_str()).map_err(ClientError::build)?;
        if path_and_query.as_str() != target || !path_and_query.path().starts_with(prefix) {
            return Err(ClientError::build(PathProblem::Character));
        }
        let mut parts = http::uri::Parts::default();
        parts.scheme = Some(self.0.scheme.clone());
        parts.authority = Some(self.0.authority.clone());
        parts.path_and_query = Some(path_and_query);
        Uri::from_parts(parts).map_err(ClientError::build)
    }

    fn fill_templates(
        &self,
        call: &NativeCall<'_>,
        headers: &mut HeaderMap,
    ) -> Result<(), ClientError> {
        for (name, template) in &self.0.templates {
            let Some(filled) = template.fill(call.credentials, call.call_id) else { continue };
            let mut value = HeaderValue::from_str(&filled).map_err(ClientError::build)?;
            value.set_sensitive(template.holds_secrets());
            headers.insert(name, value);
        }
        Ok(())
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Target")
            .field("platform", &self.0.platform)
            .field("authority", &self.0.authority)
            .field("prefix", &self.0.prefix)
            .finish_non_exhaustive()
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

/// Scheme, authority and the path that stands before every native path.
fn place(
    settings: &TargetSettings,
    problems: &mut Vec<SettingsProblem>,
) -> Option<(Scheme, Authority, String)> {
    let uri = absolute_uri("base_url", &settings.base_url, problems)?;
    if uri.query().is_some() {
        problems.push(SettingsProblem::new("base_url", "must not have a query"));
    }
    let mut prefix = String::from("/");
    for (key, text) in [("base_url", uri.path()), ("path_prefix", &settings.path_prefix)] {
        let path = text.trim_matches('/');
        if path.is_empty() {
            continue;
        }
        if let Err(problem) = path::check_path(path) {
            problems.push(SettingsProblem::new(key, format!("has an unusable path: {problem}")));
        }
        prefix.push_str(path);
        prefix.push('/');
    }
    let parts = uri.into_parts();
    Some((parts.scheme?, parts.authority?, prefix))
}

/// An address with scheme `http` or `https` and a host, without user information.
pub(super) fn absolute_uri(
    key: &str,
    text: &str,
    problems: &mut Vec<SettingsProblem>,
) -> Option<Uri> {
    let uri: Option<Uri> = text.parse().ok();
    let is_usable = |uri: &Uri| {
        let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
        let authority = uri.authority().map_or("", Authority::as_str);
        is_http && !authority.is_empty() && !authority.contains('@') && !text.contains('#')
    };
    let usable = uri.filter(is_usable);
    if usable.is_none() {
        let message = "must be http:// or https:// with a host, and without a user or a fragment";
        problems.push(SettingsProblem::new(key, message));
    }
    usable
}

fn fixed_headers(
    settings: &TargetSettings,
    problems: &mut Vec<SettingsProblem>,
) -> Vec<(HeaderName, HeaderValue)> {
    let mut fixed = vec![(ACCEPT_ENCODING, HeaderValue::from_static("identity"))];
    match HeaderValue::from_str(&settings.user_agent) {
        Ok(value) if !value.is_empty() => fixed.push((USER_AGENT, value)),
        _ => problems.push(SettingsProblem::new("user_agent", "is required, in visible ASCII")),
    }
    if let Some((name, value)) = &settings.version_header {
        let name = header_name("version_header.name", name, problems);
        let value = HeaderValue::from_str(value).map_err(|_| {
            problems.push(SettingsProblem::new("version_header.value", "must be visible ASCII"));
        });
        if let (Some(name), Ok(value)) = (name, value) {
            fixed.push((name, value));
        }
    }
    fixed
}

fn templates(
    settings: &TargetSettings,
    problems: &mut Vec<SettingsProblem>,
) -> Vec<(HeaderName, Template)> {
    let mut templates: Vec<(HeaderName, Template)> = Vec::new();
    for (index, (name, text)) in settings.headers.iter().enumerate() {
        let (name_key, value_key) =
            (format!("headers[{index}].name"), format!("headers[{index}].value"));
        let name = header_name(&name_key, name, problems);
        let template = match Template::parse(text) {
            Ok(template) if HeaderValue::from_str(&template.filled_with("x")).is_ok() => {
                Some(template)
            }
            Ok(_) => {
                problems.push(SettingsProblem::new(&value_key, "must be visible ASCII"));
                None
            }
            Err(message) => {
                problems.push(SettingsProblem::new(&value_key, message));
                None
            }
        };
        if name.as_ref().is_some_and(|name| templates.iter().any(|(other, _)| other == name)) {
            problems.push(SettingsProblem::new(name_key, "is given twice"));
        }
        templates.extend(name.zip(template));
    }
    templates
}

fn header_name(key: &str, text: &str, problems: &mut Vec<SettingsProblem>) -> Option<HeaderName> {
    let Ok(name) = HeaderName::from_bytes(text.as_bytes()) else {
        problems.push(SettingsProblem::new(key, "is not a header name"));
        return None;
    };
    if NOT_CONFIGURABLE.contains(&name) {
        let message = format!("{name} belongs to the connection and cannot be set");
        problems.push(SettingsProblem::new(key, message));
        return None;
    }
    Some(name)
}

fn connection(
    settings: &TargetSettings,
    problems: &mut Vec<SettingsProblem>,
) -> Option<ConnectionSettings> {
    let times = [
        ("timeouts.connect", settings.timeouts.connect),
        ("timeouts.tls", settings.timeouts.tls),
        ("timeouts.first_byte", settings.timeouts.first_byte),
        ("timeouts.between_bytes", settings.timeouts.between_bytes),
    ];
    for (key, time) in times {
        if time.is_zero() {
            problems.push(SettingsProblem::new(key, "must be above zero"));
        }
    }
    match tls::client_config(settings.ca_file.as_deref()) {
        Ok(tls) => Some(ConnectionSettings {
            timeouts: settings.timeouts,
            ca_file: settings.ca_file.clone(),
            tls,
        }),
        Err(message) => {
            problems.push(SettingsProblem::new("ca_file", message));
            None
        }
    }
}
