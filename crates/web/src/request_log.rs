//! One log line for each request: `call ended` for a native call that held credits, `request ended`
//! for all others.
//!
//! A line has the request's id, so that it can be found by a response's `X-Request-Id`. It has the
//! template of the route and never the path, so it contains neither queries nor secrets in paths.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{MatchedPath, Request};
use axum::response::Response;
use domain::id::{CustomerId, KeyId};
use http::{Extensions, Method, StatusCode};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::error::PendingFailure;
use crate::middleware::request_id::RequestLabel;

/// Routes that load balancers and monitoring call every few seconds; their lines are at debug
/// level.
const PROBES: &[&str] = &["/health", "/ready", "/metrics"];

/// The caller of a request, once identified. A response carries it in its extensions if only the
/// handler can identify it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownCaller {
    /// The customer.
    pub customer: CustomerId,
    /// The key that was used; `None` with a session.
    pub key: Option<KeyId>,
}

/// The contents of a request's line.
pub struct RequestLine<'a> {
    /// Its id.
    pub id: &'a str,
    /// Its method.
    pub method: &'a Method,
    /// The template of its route, if it has one.
    pub route: Option<&'a str>,
    /// The address it comes from.
    pub client_ip: IpAddr,
    /// The caller, if identified.
    pub caller: Option<KnownCaller>,
    /// When it arrived.
    pub started: Instant,
    /// The status of the response; `None` if the client had disconnected.
    pub status: Option<StatusCode>,
    /// The code of the failure, if it failed.
    pub code: Option<&'static str>,
    /// Whether the response was stored for an earlier request with the same `Idempotency-Key`.
    pub is_replay: bool,
}

impl RequestLine<'_> {
    /// Writes the line.
    pub fn write(&self) {
        // tracing fixes the level at the call site, so each level has its own.
        macro_rules! line {
            ($level:ident) => {
                tracing::$level!(
                    request.id = self.id,
                    client.ip = %self.client_ip,
                    customer.id = self.caller.map(|caller| tracing::field::display(caller.customer)),
                    key.id = self.caller.and_then(|caller| caller.key).map(tracing::field::display),
                    method = method_word(self.method),
                    route = self.route,
                    status = self.status.map(|status| status.as_u16()),
                    code = self.code,
                    replayed = self.is_replay.then_some(true),
                    duration_ms = (Instant::now() - self.started).as_secs_f64() * 1_000.0,
                    "request ended"
                )
            };
        }
        if self.route.is_some_and(|route| PROBES.contains(&route)) {
            line!(debug);
        } else {
            line!(info);
        }
    }
}

/// The method if it is one of HTTP's; any other word comes from the caller.
fn method_word(method: &Method) -> &str {
    let known = [
        Method::GET,
        Method::HEAD,
        Method::POST,
        Method::PUT,
        Method::PATCH,
        Method::DELETE,
        Method::OPTIONS,
        Method::TRACE,
        Method::CONNECT,
    ];
    if known.contains(method) { method.as_str() } else { "other" }
}

/// Collects what the line of a control-plane request says, while the request is processed. It is in
/// the request's extensions.
#[derive(Clone)]
pub struct RequestRecord(Arc<Mutex<RequestFacts>>);

#[derive(Default)]
struct RequestFacts {
    route: Option<MatchedPath>,
    caller: Option<KnownCaller>,
    is_call: bool,
    /// The code of a failure that a page shows.
    code: Option<&'static str>,
}

impl RequestRecord {
    /// Records the route.
    pub fn note_route(extensions: &Extensions) {
        let (record, route) = (extensions.get::<Self>(), extensions.get::<MatchedPath>());
        if let (Some(record), Some(route)) = (record, route) {
            record.0.lock().route = Some(route.clone());
        }
    }

    /// Records the caller.
    pub fn note_caller(extensions: &Extensions, customer: CustomerId, key: Option<KeyId>) {
        if let Some(record) = extensions.get::<Self>() {
            record.0.lock().caller = Some(KnownCaller { customer, key });
        }
    }

    /// Records the code of a response that a page got from a route of the service.
    pub fn note_failure(&self, response: &Response) {
        if let Some(code) = code_of(response) {
            self.0.lock().code = Some(code);
        }
    }

    /// Records that it is a call, which writes its own line.
    pub fn is_call(&self) {
        self.0.lock().is_call = true;
    }
}

/// Writes the line of a control-plane request when it is dropped: after the response, or when the
/// client disconnects.
pub struct LineOnDrop {
    label: RequestLabel,
    method: Method,
    client_ip: IpAddr,
    started: Instant,
    record: RequestRecord,
    responded: Option<ResponseFacts>,
}

/// The parts of a response that the line contains.
struct ResponseFacts {
    status: StatusCode,
    code: Option<&'static str>,
    caller: Option<KnownCaller>,
    is_replay: bool,
}

impl LineOnDrop {
    /// For a request that has just arrived. Its [`RequestRecord`] is added to its extensions.
    pub fn new(request: &mut Request, label: &RequestLabel, client_ip: IpAddr) -> Self {
        let record = RequestRecord(Arc::default());
        request.extensions_mut().insert(record.clone());
        Self {
            label: label.clone(),
            method: request.method().clone(),
            client_ip,
            started: Instant::now(),
            record,
            responded: None,
        }
    }

    /// Takes from the response what the line contains; the response may still be unrendered.
    pub fn respond(&mut self, response: &Response) {
        let code = code_of(response);
        let caller = response.extensions().get::<KnownCaller>().copied();
        let is_replay = response.headers().contains_key("idempotent-replayed");
        self.responded = Some(ResponseFacts { status: response.status(), code, caller, is_replay });
    }
}

/// The code of a failure that is not rendered yet.
fn code_of(response: &Response) -> Option<&'static str> {
    response.extensions().get::<PendingFailure>().map(|PendingFailure(error)| error.row().code)
}

impl Drop for LineOnDrop {
    fn drop(&mut self) {
        let facts = std::mem::take(&mut *self.record.0.lock());
        if facts.is_call {
            return;
        }
        let responded = self.responded.as_ref();
        RequestLine {
            id: self.label.as_str(),
            method: &self.method,
            route: facts.route.as_ref().map(MatchedPath::as_str),
            client_ip: self.client_ip,
            caller: facts.caller.or_else(|| responded?.caller),
            started: self.started,
            status: responded.map(|responded| responded.status),
            code: responded.and_then(|responded| responded.code).or(facts.code),
            is_replay: responded.is_some_and(|responded| responded.is_replay),
        }
        .write();
    }
}
