//! A route under its name in receipts, logs and metrics, and whether a call to it has ever
//! succeeded.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::HeaderValue;

/// What is known of a route; all its calls on one core share it.
#[derive(Debug)]
pub struct KnownRoute {
    name: Arc<str>,
    header: HeaderValue,
    /// Whether a call to it has succeeded, or the specification says that one did.
    is_verified: AtomicBool,
}

impl KnownRoute {
    /// A route with this name, and whether a call to it has succeeded.
    pub fn new(name: &str, is_verified: bool) -> Self {
        Self {
            name: Arc::from(name),
            header: HeaderValue::from_str(name)
                .unwrap_or_else(|_| HeaderValue::from_static("unprintable")),
            is_verified: AtomicBool::new(is_verified),
        }
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

    /// Whether no call to it is known to have succeeded.
    pub fn is_unverified(&self) -> bool {
        !self.is_verified.load(Ordering::Relaxed)
    }

    /// Records a success; true for the first on this core.
    pub fn is_news(&self) -> bool {
        !self.is_verified.swap(true, Ordering::Relaxed)
    }
}
