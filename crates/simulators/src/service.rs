//! The HTTP side: one listener for all platforms and for the control interface. Requests are taken
//! apart by hand and not by a router, because paths must reach the platforms byte by byte.

use std::sync::Arc;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use http::{Request as HttpRequest, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};

use crate::control;
use crate::mount::{Mount, Request};
use crate::platform::answer::Answer;

/// Uploads included, no request is larger than this many bytes.
const BODY_BYTES_MAX: usize = 512 * 1024 * 1024;

/// All platforms.
pub(crate) struct Service {
    pub(crate) mounts: Vec<Mount>,
}

impl Service {
    /// The platform with this name.
    pub(crate) fn mount(&self, name: &str) -> Option<&Mount> {
        self.mounts.iter().find(|mount| mount.platform.name() == name)
    }

    /// The router that answers everything.
    pub(crate) fn router(self: &Arc<Self>) -> axum::Router {
        let service = Arc::clone(self);
        axum::Router::new().fallback(move |request| serve(Arc::clone(&service), request))
    }
}

async fn serve(service: Arc<Service>, incoming: HttpRequest<Body>) -> Response {
    let (head, body) = incoming.into_parts();
    let Ok(body) = http_body_util::Limited::new(body, BODY_BYTES_MAX).collect().await else {
        return json_response(StatusCode::PAYLOAD_TOO_LARGE, &json!({"error": "body_too_large"}));
    };
    let target = head.uri.path_and_query().map_or("/", |target| target.as_str());
    let (first, rest) = first_segment(target);
    if first == "control" {
        let (status, answer) = control::answer(&service, &head.method, rest);
        return json_response(status, &answer);
    }
    let Some(mount) = service.mount(first) else {
        return json_response(StatusCode::NOT_FOUND, &json!({"error": "no_such_platform"}));
    };
    let request = Request {
        path_and_query: rest.to_owned(),
        method: head.method,
        headers: head.headers,
        body: body.to_bytes(),
    };
    match mount.pass(&request) {
        Ok(Answer { status, body: Some(answer) }) => json_response(status, &answer),
        Ok(Answer { status, body: None }) => status.into_response(),
        Err(error) => {
            tracing::error!(%error, "the data folder cannot be written");
            json_response(StatusCode::INTERNAL_SERVER_ERROR, &json!({"error": "storage"}))
        }
    }
}

/// `/platform_alpha/users/me?x=1` is `platform_alpha` and `/users/me?x=1`.
fn first_segment(target: &str) -> (&str, &str) {
    let path = target.strip_prefix('/').unwrap_or(target);
    match path.find(['/', '?']) {
        Some(end) => path.split_at(end),
        None => (path, "/"),
    }
}

fn json_response(status: StatusCode, body: &Value) -> Response {
    (status, [(CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}
