//! What a simulator is to the service that serves it.

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

/// One part of the simulators: the platforms, the payment processor, or the mail sink.
pub trait Simulator: Send + Sync {
    /// Whether paths that begin with this segment belong to it.
    fn serves(&self, first_segment: &str) -> bool;

    /// Responds to a request below one of its paths.
    fn answer<'a>(
        &'a self,
        request: SimulatorRequest,
        faults: &'a FaultRules,
    ) -> BoxFuture<'a, SocketReply>;

    /// The names of the ports that it has beside the common one.
    fn port_names(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// What faults can be asked for.
    fn fault_targets(&self) -> Vec<&dyn FaultTarget> {
        Vec::new()
    }

    /// What it can be asked below `/control`.
    fn control_index(&self) -> &'static [ControlEntry];

    /// Responds to a request below `/control`; `None` when the path is not one of its own.
    fn control<'a>(&'a self, request: &'a ControlRequest<'a>) -> BoxFuture<'a, Option<WireReply>>;

    /// Called after the clock was moved. Returns fields to show beside the new time.
    fn clock_moved(&self) -> Map<String, Value> {
        Map::new()
    }

    /// Forgets all that was written and asked.
    fn reset(&self) -> io::Result<()>;
}

/// Something that a simulator is still working on.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A request to a simulator, read whole.
#[derive(Clone, Debug)]
pub struct SimulatorRequest {
    /// The first segment of its path.
    pub first_segment: String,
    /// Path and query behind that segment, byte by byte as they were sent, with a leading slash.
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
