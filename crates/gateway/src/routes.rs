//! A route under its name in receipts, logs and metrics, and whether a call to it has ever
//! succeeded.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use accounts::drift::DriftRoute;
use catalog::Route;
use http::HeaderValue;

/// What is known of a route; all its calls on one core share it.
#[derive(Debug)]
pub struct KnownRoute {
    name: Arc<str>,
    header: HeaderValue,
    /// Whether a call to it has succeeded, or the specification says that one did.
    is_verified: AtomicBool,
    /// Where its responses are counted.
    drift: DriftRoute,
    /// Whether its bodies carry details that nothing should keep.
    is_sensitive: bool,
}

impl KnownRoute {
    /// A route with this name, and whether a call to it has succeeded.
    pub fn new(name: &str, is_verified: bool) -> Self {
        Self {
            name: Arc::from(name),
            header: HeaderValue::from_str(name)
                .unwrap_or_else(|_| HeaderValue::from_static("unprintable")),
            is_verified: AtomicBool::new(is_verified),
            drift: DriftRoute::OTHER,
            is_sensitive: false,
        }
    }

    /// A route of the catalogue, which has this index there.
    pub fn listed(route: &Route, index: usize, is_verified: bool) -> Self {
        let drift = DriftRoute::listed(index);
        Self { drift, is_sensitive: route.sensitive, ..Self::new(&route.name, is_verified) }
    }

    /// A route that the catalogue does not list. Calls are counted under the name; `X-Route` says
    /// `unlisted`.
    pub fn unlisted(name: &str) -> Self {
        Self { header: HeaderValue::from_static("unlisted"), ..Self::new(name, true) }
    }

    /// Its name in the catalogue, or its shape.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Its value for `X-Route`.
    pub fn header(&self) -> HeaderValue {
        self.header.clone()
    }

    /// Where its responses are counted.
    pub const fn drift(&self) -> DriftRoute {
        self.drift
    }

    /// Whether its bodies carry details that nothing should keep.
    pub const fn is_sensitive(&self) -> bool {
        self.is_sensitive
    }

    /// Whether no call to it is known to have succeeded.
    pub fn is_unverified(&self) -> bool {
        !self.is_verified.load(Ordering::Relaxed)
    }

    /// Records a success; true for the first on this core.
    pub fn is_news(&self) -> bool {
        !self.is_verified.swap(true, Ordering::Relaxed)
    }
}
