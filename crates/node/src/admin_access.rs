//! What all routes of the admin listener share: its state, refusals, and the check of its token.

use std::sync::Arc;

use axum::http::HeaderMap;
use metrics_exporter_prometheus::PrometheusHandle;
use secrecy::ExposeSecret;
use sha2::{Digest, Sha256};
use transport::ConnectionLimits;

use crate::state::NodeState;

/// The state of the admin listener.
#[derive(Clone)]
pub(crate) struct AdminListener {
    pub(crate) state: NodeState,
    pub(crate) metrics: Option<PrometheusHandle>,
    pub(crate) connections: Arc<ConnectionLimits>,
}

/// Why a command was refused.
#[derive(serde::Serialize)]
pub(crate) struct Refused {
    pub(crate) error: String,
}

/// Compares hashes, so that the response time reveals nothing about the token.
pub(crate) fn is_staff(state: &NodeState, headers: &HeaderMap) -> bool {
    let sent = headers.get(http::header::AUTHORIZATION).map(http::HeaderValue::as_bytes);
    let Some(token) = sent.and_then(|value| value.strip_prefix(b"Bearer ")) else { return false };
    Sha256::digest(token) == Sha256::digest(state.admin_token.expose_secret().as_bytes())
}
