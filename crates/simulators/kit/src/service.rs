//! The HTTP side: one service for all simulators and the control interface. Requests are parsed by
//! hand instead of by a router, because paths must reach the platforms byte by byte.

use std::io;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};

use crate::clock::SimulatorClock;
use crate::control;
use crate::faults::FaultRules;
use crate::port_set::PortSet;
use crate::script::{SocketReply, WireReply};
use crate::simulator::{Simulator, SimulatorRequest};

/// Several simulators and their faults.
pub struct SimulatorService {
    pub(crate) simulators: Vec<Arc<dyn Simulator>>,
    pub(crate) faults: FaultRules,
    pub(crate) clock: SimulatorClock,
    /// The simulators' own ports; unset until the service listens.
    pub(crate) ports: OnceLock<PortSet>,
}

impl SimulatorService {
    /// A service of these simulators, with the time of `clock`.
    pub fn new(simulators: Vec<Arc<dyn Simulator>>, clock: SimulatorClock) -> Self {
        Self { simulators, faults: FaultRules::default(), clock, ports: OnceLock::new() }
    }

    /// Responds to a request in process. A reply that needs a socket becomes a 501.
    pub async fn respond(&self, request: http::Request<Bytes>) -> WireReply {
        let (head, body) = request.into_parts();
        match self.answer(SimulatorRequest::new(head, body)).await {
            SocketReply::Whole(reply) => reply,
            SocketReply::Script(_) => {
                let problem = json!({"error": "this fault needs a socket"});
                json_response(StatusCode::NOT_IMPLEMENTED, &problem)
            }
        }
    }

    /// Responds to any request.
    pub(crate) async fn answer(&self, request: SimulatorRequest) -> SocketReply {
        if request.first_segment == "control" {
            return SocketReply::Whole(control::answer(self, &request).await);
        }
        let mut simulators = self.simulators.iter();
        match simulators.find(|simulator| simulator.serves(&request.first_segment)) {
            Some(simulator) => simulator.answer(request, &self.faults).await,
            None => {
                let problem = json!({"error": "no_such_platform"});
                SocketReply::Whole(json_response(StatusCode::NOT_FOUND, &problem))
            }
        }
    }
}

impl std::fmt::Debug for SimulatorService {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("SimulatorService").finish_non_exhaustive()
    }
}

/// A reply with this status and this JSON.
pub fn json_response(status: StatusCode, body: &Value) -> WireReply {
    WireReply::json(status, Some(body))
}

/// The reply if the data folder cannot be used.
pub fn storage_response(error: &io::Error) -> WireReply {
    tracing::error!(%error, "the data folder cannot be used");
    json_response(StatusCode::INTERNAL_SERVER_ERROR, &json!({"error": "storage"}))
}
