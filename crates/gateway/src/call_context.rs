//! What every phase of a call knows about it.

use std::sync::Arc;

use domain::platform::Platform;
use domain::time::Timestamp;
use platform_client::PlatformTarget;
use tokio::time::Instant;

use super::account_entry::AccountEntry;
use super::admit::{CallPlan, Whole};
use super::inbound::InboundRequest;
use super::limits::PassedLimits;
use crate::state::GatewayState;

/// Everything that is decided about a call once it is admitted.
pub(super) struct CallContext<'a> {
    pub(super) gateway: &'a GatewayState,
    pub(super) target: &'a PlatformTarget,
    pub(super) whole: &'a Whole,
    pub(super) account: &'a Arc<AccountEntry>,
    pub(super) plan: &'a CallPlan,
    pub(super) passed: &'a PassedLimits,
    pub(super) inbound: &'a InboundRequest,
    /// When it was admitted.
    pub(super) now: Timestamp,
}

/// Milliseconds between two moments, with fractions.
pub(super) fn milliseconds(from: Instant, to: Instant) -> f64 {
    to.saturating_duration_since(from).as_secs_f64() * 1_000.0
}

impl CallContext<'_> {
    /// The platform of the account.
    pub(super) fn platform(&self) -> Platform {
        self.account.platform
    }
}
