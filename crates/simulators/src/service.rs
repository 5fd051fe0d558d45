//! The HTTP side: one service for all platforms and for the control interface. Requests are taken
//! apart by hand and not by a router, because paths must reach the platforms byte by byte.

use std::sync::{Arc, OnceLock};

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST};
use http::request::Parts;
use http::{HeaderValue, Request as HttpRequest, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};

use crate::control;
use crate::faults::script::End;
use crate::faults::{Faults, Reply, Script, Spoiled};
use crate::listener::Doors;
use crate::mail::{Mailbox, pages};
use crate::mount::{Mount, Request};
use crate::processor::{Processor, wire};

/// No request is larger than this many bytes: a file of 512 MiB and the form around it.
const BODY_BYTES_MAX: usize = 513 * 1024 * 1024;

/// All platforms, the payment processor, the mails, and what goes wrong with them on purpose.
pub(crate) struct Service {
    pub(crate) mounts: Vec<Mount>,
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) processor: Arc<Processor>,
    pub(crate) faults: Faults,
    /// The platforms' own ports; there are none when nobody listens.
    pub(crate) doors: OnceLock<Doors>,
}

/// What a request is answered with.
pub(crate) enum Answered {
    Http(Response),
    /// To be played on the socket that the request came on.
    Script(Script),
}

impl Service {
    pub(crate) fn new(
        mounts: Vec<Mount>,
        mailbox: Arc<Mailbox>,
        processor: Arc<Processor>,
    ) -> Self {
        Self { mounts, mailbox, processor, faults: Faults::default(), doors: OnceLock::new() }
    }

    /// The platform with this name.
    pub(crate) fn mount(&self, name: &str) -> Option<&Mount> {
        self.mounts.iter().find(|mount| mount.platform.name() == name)
    }

    /// The router that answers everything that HTTP can carry; a script needs a socket.
    pub(crate) fn router(self: &Arc<Self>) -> axum::Router {
        let service = Arc::clone(self);
        axum::Router::new().fallback(async move |request| match service.answer(request).await {
            Answered::Http(response) => response,
            Answered::Script(_) => {
                let problem = json!({"error": "this fault needs a socket"});
                json_response(StatusCode::NOT_IMPLEMENTED, &problem)
            }
        })
    }

    /// Answers any request.
    pub(crate) async fn answer(&self, incoming: HttpRequest<Body>) -> Answered {
        let (head, body) = incoming.into_parts();
        let Ok(body) = http_body_util::Limited::new(body, BODY_BYTES_MAX).collect().await else {
            let problem = json!({"error": "body_too_large"});
            return http(StatusCode::PAYLOAD_TOO_LARGE, &problem);
        };
        let body = body.to_bytes();
        let target = head.uri.path_and_query().map_or("/", |target| target.as_str());
        let (first, rest) = first_segment(target);
        if let Some(sha256) = rest.strip_prefix("/files/").filter(|_| first == "control") {
            return Answered::Http(file(self, sha256));
        }
        if first == "control" {
            let (status, answer) = control::answer(self, &head.method, rest, &body).await;
            return http(status, &answer);
        }
        if first == "mail" && head.method == http::Method::GET {
            return Answered::Http(pages::answer(&self.mailbox, rest));
        }
        if first == "v1" {
            return self.processor_answer(&head, rest, &body).await;
        }
        if first == "processor" {
            return Answered::Http(crate::processor::pages::answer(
                &self.processor,
                &head.method,
                rest,
                &body,
            ));
        }
        let Some(mount) = self.mount(first) else {
            return http(StatusCode::NOT_FOUND, &json!({"error": "no_such_platform"}));
        };
        let path_and_query = rest.to_owned();
        let request = Request { path_and_query, method: head.method, headers: head.headers, body };
        match mount.pass(&request, &self.faults) {
            Ok(Spoiled::Reply(reply)) => {
                let Reply { status, headers, body: bytes } = reply;
                Answered::Http((status, headers, Body::from(bytes)).into_response())
            }
            Ok(Spoiled::Script(script)) => Answered::Script(script),
            Err(error) => Answered::Http(storage(&error)),
        }
    }

    async fn processor_answer(&self, head: &Parts, rest: &str, body: &Bytes) -> Answered {
        if head.method == http::Method::OPTIONS {
            let allowed = [
                ("access-control-allow-origin", "*"),
                ("access-control-allow-methods", "GET, POST"),
                (
                    "access-control-allow-headers",
                    "authorization, content-type, stripe-version, idempotency-key",
                ),
            ];
            return Answered::Http((StatusCode::NO_CONTENT, allowed).into_response());
        }
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let host = head.headers.get(HOST).and_then(|host| host.to_str().ok());
        let base = host.map_or_else(|| self.processor.base(), |host| format!("http://{host}"));
        let path = path.strip_prefix('/').unwrap_or(path);
        let request =
            wire::Request { method: &head.method, path, query, headers: &head.headers, body, base };
        match wire::answer(&self.processor, &request).await {
            wire::Answer::Given { status, body: shown, headers } => {
                Answered::Http(processor_response(status, &shown, headers))
            }
            wire::Answer::Silence => Answered::Script(Script::nothing(End::Hang)),
            wire::Answer::Closed => Answered::Script(Script::nothing(End::Close)),
        }
    }
}

/// The answer of the payment processor's API as HTTP carries it. Pages of other origins may ask it too.
fn processor_response(status: u16, body: &Value, headers: Vec<(&'static str, String)>) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = json_response(status, body);
    for (name, value) in
        headers.into_iter().chain([("access-control-allow-origin", "*".to_owned())])
    {
        if let Ok(value) = HeaderValue::from_str(&value) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

/// What was uploaded, byte by byte.
fn file(service: &Service, sha256: &str) -> Response {
    for mount in &service.mounts {
        match mount.file(sha256) {
            Ok(Some(bytes)) => return bytes.into_response(),
            Ok(None) => {}
            Err(error) => return storage(&error),
        }
    }
    json_response(StatusCode::NOT_FOUND, &json!({"error": "no such file"}))
}

fn storage(error: &std::io::Error) -> Response {
    tracing::error!(%error, "the data folder cannot be used");
    json_response(StatusCode::INTERNAL_SERVER_ERROR, &json!({"error": "storage"}))
}

/// `/platform_alpha/users/me?x=1` is `platform_alpha` and `/users/me?x=1`.
fn first_segment(target: &str) -> (&str, &str) {
    let path = target.strip_prefix('/').unwrap_or(target);
    match path.find(['/', '?']) {
        Some(end) => path.split_at(end),
        None => (path, "/"),
    }
}

fn http(status: StatusCode, body: &Value) -> Answered {
    Answered::Http(json_response(status, body))
}

fn json_response(status: StatusCode, body: &Value) -> Response {
    (status, [(CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}
