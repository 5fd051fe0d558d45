//! The interface of a simulator to the service that serves it.

use std::future::Future;
use std::io;
use std::pin::Pin;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Method};
use serde_json::{Map, Value};

use crate::control::{ControlEntry, ControlRequest};
use crate::faults::{FaultRules, FaultTarget};
use crate::script::{SocketReply, WireReply};

/// One part of the simulators: the platforms, the payment processor, or the mail server.
pub trait Simulator: Send + Sync {
    /// Whether paths that start with this segment belong to it.
    fn serves(&self, first_segment: &str) -> bool;

    /// Responds to a request below one of its paths.
    fn answer<'a>(
        &'a self,
        request: SimulatorRequest,
        faults: &'a FaultRules,
    ) -> BoxFuture<'a, SocketReply>;

    /// The names of its ports besides the common one.
    fn port_names(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// The targets of faults.
    fn fault_targets(&self) -> Vec<&dyn FaultTarget> {
        Vec::new()
    }

    /// Its requests below `/control`.
    fn control_index(&self) -> &'static [ControlEntry];

    /// Responds to a request below `/control`; `None` if the path is not one of its own.
    fn control<'a>(&'a self, request: &'a ControlRequest<'a>) -> BoxFuture<'a, Option<WireReply>>;

    /// Called after the clock has moved. Returns fields to add to the response.
    fn clock_moved(&self) -> Map<String, Value> {
        Map::new()
    }

    /// Forgets everything written and requested.
    fn reset(&self) -> io::Result<()>;
}

/// The future of a simulator's work.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A request to a simulator, with its whole body.
#[derive(Clone, Debug)]
pub struct SimulatorRequest {
    /// The first segment of its path.
    pub first_segment: String,
    /// Path and query after that segment, byte by byte as received, with a leading slash.
    pub path_and_query: String,
    /// Its method.
    pub method: Method,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
}

impl SimulatorRequest {
    /// Splits the path, `/platform_alpha/users/me?x=1`, into `platform_alpha` and `/users/me?x=1`.
    pub(crate) fn new(head: Parts, body: Bytes) -> Self {
        let target = head.uri.path_and_query().map_or("/", |target| target.as_str());
        let path = target.strip_prefix('/').unwrap_or(target);
        let (first, rest) = match path.find(['/', '?']) {
            Some(end) => path.split_at(end),
            None => (path, "/"),
        };
        Self {
            first_segment: first.to_owned(),
            path_and_query: rest.to_owned(),
            method: head.method,
            headers: head.headers,
            body,
        }
    }
}
