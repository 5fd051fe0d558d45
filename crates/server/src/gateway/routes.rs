//! A route as receipts, logs and metrics name it, and whether a call to it is known to have succeeded.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::HeaderValue;

/// What is known of a route, shared by all its calls on one core.
#[derive(Debug)]
pub(crate) struct KnownRoute {
    name: Arc<str>,
    header: HeaderValue,
    /// A call to it has succeeded before, or the specification says that one did.
    is_verified: AtomicBool,
}

impl KnownRoute {
    pub(crate) fn new(name: &str, is_verified: bool) -> Self {
        Self {
            name: Arc::from(name),
            header: HeaderValue::from_str(name)
                .unwrap_or_else(|_| HeaderValue::from_static("unprintable")),
            is_verified: AtomicBool::new(is_verified),
        }
    }

    /// One that the catalogue does not list: calls are counted under the name, and are told that it is unlisted.
    pub(crate) fn unlisted(name: &str) -> Self {
        Self { header: HeaderValue::from_static("unlisted"), ..Self::new(name, true) }
    }

    /// Its name in the catalogue, or its shape.
    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The same for `X-Route`.
    pub(crate) fn header(&self) -> HeaderValue {
        self.header.clone()
    }

    /// Whether nothing is known yet of a call that succeeded.
    pub(crate) fn is_unverified(&self) -> bool {
        !self.is_verified.load(Ordering::Relaxed)
    }

    /// Notes a success; true for the first on this core.
    pub(crate) fn is_news(&self) -> bool {
        !self.is_verified.swap(true, Ordering::Relaxed)
    }
}
