//! Steps for every request to the public listener: its id, the rules for its head, and the final
//! headers and body of its response.

use axum::Router;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use domain::id::RequestId;
use http::header::CONNECTION;
use http::{HeaderMap, HeaderValue, StatusCode, Version};
use runtime::metrics;
use tower::ServiceExt;
use transport::{ArrivedRequest, ConnectionPeer};
use web::auth;
use web::error::render::written;
use web::error::{ApiError, HarmlessFailure, PendingFailure};
use web::idempotency;
use web::middleware::real_ip::ClientAddress;
use web::middleware::request_id::RequestLabel;
use web::middleware::{framing, real_ip, security_headers};
use web::request_log::LineOnDrop;

use crate::failure_page::FailureReader;
use crate::state::{CoreState, NodeState};
use crate::unread_body::{self, BodyWatch};

/// Serves one request: gives it an id, checks its head, routes it, and renders a failure.
pub(crate) async fn serve(core: CoreState, control: Router, arrived: ArrivedRequest) -> Response {
    let (peer, (parts, incoming)) = (arrived.peer, arrived.request.into_parts());
    let (body, watch) = unread_body::watched(incoming);
    let mut request = Request::from_parts(parts, body);
    let awaits_continue = request.headers().contains_key(http::header::EXPECT);
    let is_http1 = request.version() <= Version::HTTP_11;
    let label = RequestLabel::of(request.headers(), || {
        RequestId::new(core.node.clock.now(), core.node.random.bytes())
    });
    let is_safe = request.method().is_safe();
    let is_metered = gateway::is_metered(request.method(), request.uri().path());
    let reader = FailureReader::of(&core.node.pages, &request);
    let client = real_ip::client(peer.ip, peer.tls, request.headers(), &core.node.trusted_proxies);
    let response = match framing::admit(&request, &core.node.frame_rules) {
        Ok(()) if core.node.needs_https && is_bare(&core.node, peer, &request) => {
            let mut line = LineOnDrop::new(&mut request, &label, client.ip);
            let response = ApiError::HttpsRequired.into_response();
            line.respond(&response);
            response
        }
        Ok(()) if gateway::is_native(request.uri().path()) => {
            gateway::proxy_call(core.gateway.clone(), request, label.clone(), client.ip).await
        }
        // Boxed, so that the future of a native call does not include the size of the router's.
        Ok(()) => Box::pin(controlled(control, request, &label, client)).await,
        Err(problem) => {
            let mut line = LineOnDrop::new(&mut request, &label, client.ip);
            let response = refused(problem);
            line.respond(&response);
            response
        }
    };
    let mut response = rendered(response, label.as_str(), is_safe, &reader);
    if is_metered && !response.headers().contains_key("x-credits-cost") {
        idempotency::put_free(response.headers_mut(), None);
    }
    if is_http1 && watch.is_watching() {
        // Boxed: most requests have no body.
        response = Box::pin(closing(response, watch, awaits_continue)).await;
    }
    label.put(response.headers_mut());
    security_headers::put(response.headers_mut(), core.node.config.http.is_public_https());
    metrics::request_answered(response.status().as_u16());
    response
}

/// Says that the connection is closed after the response, if the request's body is still to come.
async fn closing(mut response: Response, watch: BodyWatch, awaits_continue: bool) -> Response {
    if watch.finds_rest(awaits_continue).await {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// The headers and body of the response to a head that hyper refused with this status. There is no
/// request, so the log line has neither method nor route.
pub(crate) fn unread(
    node: &NodeState,
    peer: ConnectionPeer,
    refused_with: StatusCode,
) -> Option<Bytes> {
    let problem = node.frame_rules.refused_unread(refused_with)?;
    let id = RequestId::new(node.clock.now(), node.random.bytes()).to_string();
    let (status, mut headers, body) = written(&ApiError::from(problem), &id, true);
    let label = RequestLabel::of(&HeaderMap::new(), || id);
    label.put(&mut headers);
    idempotency::put_free(&mut headers, None);
    security_headers::put(&mut headers, node.config.http.is_public_https());
    headers.insert(http::header::CONTENT_LENGTH, HeaderValue::from(body.len()));
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    tracing::info!(
        request.id = label.as_str(), client.ip = %peer.ip, status = status.as_u16(), code = problem.code(),
        "a request could not be read"
    );
    metrics::request_answered(status.as_u16());
    let mut text = Vec::new();
    for (name, value) in &headers {
        text.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
    }
    text.extend(b"\r\n");
    text.extend(body);
    Some(text.into())
}

/// Whether a key, or something that may be a password, crossed a network in the clear.
fn is_bare<B>(node: &NodeState, peer: ConnectionPeer, request: &http::Request<B>) -> bool {
    let (ConnectionPeer { ip, tls }, headers) = (peer, request.headers());
    let has_secret = !request.method().is_safe() || auth::carries_key(headers);
    has_secret && real_ip::came_in_the_clear(ip, tls, headers, &node.trusted_proxies)
}

/// Serves a request to the control plane.
async fn controlled(
    control: Router,
    mut request: Request,
    label: &RequestLabel,
    client: ClientAddress,
) -> Response {
    let mut line = LineOnDrop::new(&mut request, label, client.ip);
    request.extensions_mut().insert(client);
    request.extensions_mut().insert(label.clone());
    let response = match control.oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    };
    line.respond(&response);
    response
}

/// A head that can be read in two ways makes the rest of the connection untrustworthy, so it is
/// closed.
fn refused(problem: framing::FrameProblem) -> Response {
    let mut response = ApiError::from(problem).into_response();
    if problem == framing::FrameProblem::Method {
        response.headers_mut().insert(http::header::ALLOW, framing::METHODS);
    }
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(CONNECTION, close);
    response
}

/// Writes the body of a failure; other headers of the response, such as a receipt, stay. `is_safe`:
/// the request's method changes nothing.
fn rendered(mut response: Response, id: &str, is_safe: bool, reader: &FailureReader) -> Response {
    let Some(PendingFailure(failure)) = response.extensions_mut().remove::<PendingFailure>() else {
        return response;
    };
    let is_harmless = is_safe || response.extensions_mut().remove::<HarmlessFailure>().is_some();
    let mut rendered = reader.response(&failure, id, is_harmless);
    response.headers_mut().remove(http::header::CONTENT_LENGTH);
    for (name, value) in response.headers() {
        if !rendered.headers().contains_key(name) {
            rendered.headers_mut().insert(name.clone(), value.clone());
        }
    }
    rendered
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size_of_future<A, B, C, F>(_: impl Fn(A, B, C) -> F) -> usize {
        size_of::<F>()
    }

    /// The future is moved several times before it is polled, so rarely needed parts must be boxed.
    #[test]
    fn the_future_of_a_request_stays_small() {
        let bytes = size_of_future(serve);

        assert!(bytes <= 800, "{bytes}");
    }
}
