//! A route as receipts, logs and metrics name it, and whether a call to it is known to have succeeded.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::HeaderValue;

/// What is known of a route, shared by all its calls on one core.
#[derive(Debug)]
pub struct KnownRoute {
    name: Arc<str>,
    header: HeaderValue,
    /// A call to it has succeeded before, or the specification says that one did.
    is_verified: AtomicBool,
}

impl KnownRoute {
    /// A route of that name, with which a call has succeeded or not.
    pub fn new(name: &str, is_verified: bool) -> Self {
        Self {
            name: Arc::from(name),
            header: HeaderValue::from_str(name)
                .unwrap_or_else(|_| HeaderValue::from_static("unprintable")),
            is_verified: AtomicBool::new(is_verified),
        }
    }

    /// One that the catalogue does not list: calls are counted under the name, and are told that it is unlisted.
    pub fn unlisted(name: &str) -> Self {
        Self { header: HeaderValue::from_static("unlisted"), ..Self::new(name, true) }
    }

    /// Its name in the catalogue, or its shape.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The same for `X-Route`.
    pub fn header(&self) -> HeaderValue {
        self.header.clone()
    }

    /// Whether nothing is known yet of a call that succeeded.
    pub fn is_unverified(&self) -> bool {
        !self.is_verified.load(Ordering::Relaxed)
    }

    /// Notes a success; true for the first on this core.
    pub fn is_news(&self) -> bool {
        !self.is_verified.swap(true, Ordering::Relaxed)
    }
}
