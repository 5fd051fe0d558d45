//! What all routes of the admin listener share: its state, refusals, and the check of its token.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{AUTHORIZATION, RETRY_AFTER};
use metrics_exporter_prometheus::PrometheusHandle;
use secrecy::ExposeSecret;
use sha2::{Digest, Sha256};
use transport::ConnectionLimits;
use web::middleware::rate_limit::{RateLimiter, RateQuota};

use crate::state::NodeState;

/// The state of the admin listener.
#[derive(Clone)]
pub(crate) struct AdminListener {
    pub(crate) state: NodeState,
    pub(crate) metrics: Option<PrometheusHandle>,
    pub(crate) connections: Arc<ConnectionLimits>,
    pub(crate) wrong_tokens: Arc<WrongTokens>,
}

/// The addresses whose wrong tokens are remembered.
const REMEMBERED_MAX: usize = 10_000;

/// Counts wrong tokens and keys by the address that they come from, on this node.
pub(crate) struct WrongTokens(RateLimiter<IpAddr>);

impl WrongTokens {
    pub(crate) fn new(per_minute: u32) -> Self {
        Self(RateLimiter::new(RateQuota::per_minute(per_minute), REMEMBERED_MAX))
    }
}

/// Refuses commands from an address that sent too many wrong tokens and keys. The admin token is
/// never refused: every caller on this machine has the same address, and could lock the operator
/// out. A key of staff is counted before it is looked up, so that trying many concurrently gains
/// nothing, and given back if it was right.
pub(crate) async fn limit_tries(
    State(admin): State<AdminListener>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
    next: Next,
) -> Response {
    let headers = request.headers();
    if !headers.contains_key(AUTHORIZATION) || is_staff(&admin.state, headers) {
        return next.run(request).await;
    }
    let (ip, clock) = (peer.ip().to_canonical(), &admin.state.clock);
    let WrongTokens(limiter) = &*admin.wrong_tokens;
    if let Some(wait_ms) = limiter.check(ip, 1, clock.now()).retry_after_ms {
        return too_many(wait_ms);
    }
    let response = next.run(request).await;
    if response.status() != StatusCode::UNAUTHORIZED {
        limiter.give_back(ip, 1, clock.now());
    }
    response
}

fn too_many(wait_ms: i64) -> Response {
    let seconds = wait_ms.saturating_add(999).max(1_000) / 1_000;
    let error = format!("too many wrong admin tokens came from this address; wait {seconds} s");
    let mut response =
        (StatusCode::TOO_MANY_REQUESTS, axum::Json(Refused { error })).into_response();
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    response
}

/// Why a command was refused.
#[derive(serde::Serialize)]
pub(crate) struct Refused {
    pub(crate) error: String,
}

/// Compares hashes, so that the response time reveals nothing about the token.
pub(crate) fn is_staff(state: &NodeState, headers: &HeaderMap) -> bool {
    let sent = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
    let Some(token) = sent.and_then(|value| value.strip_prefix(b"Bearer ")) else { return false };
    Sha256::digest(token) == Sha256::digest(state.admin_token.expose_secret().as_bytes())
}
