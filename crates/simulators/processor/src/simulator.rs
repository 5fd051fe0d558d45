//! The payment processor as a simulator: its API below `/v1/`, its pages below `/processor/`, and
//! its control requests below `/control/processor`.

use std::io;
use std::sync::Arc;

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN, HOST,
};
use http::{HeaderName, Method, StatusCode};
use serde_json::{Map, Value, json};
use simulator_kit::control::{ControlEntry, ControlRequest};
use simulator_kit::faults::FaultRules;
use simulator_kit::script::{ConnectionEnd, SocketReply, SocketScript, WireReply};
use simulator_kit::service::json_response;
use simulator_kit::simulator::{BoxFuture, SimulatorRequest};
use simulator_kit::{RunningService, Simulator};

use crate::{ProcessorSimulator, control, delivery, pages, wire};

/// The name of its port.
const PORT: &str = "processor";

impl ProcessorSimulator {
    /// Starts sending events, and uses the port on which the service serves it as its address.
    pub fn run(self: &Arc<Self>, service: &RunningService) {
        if let Some(own) = service.port_address(PORT) {
            // A service listens only once.
            let _known = self.address.set(own);
        }
        service.spawn(|stop| delivery::run(Arc::clone(self), stop));
    }

    /// The base URL of its API on its own port, such as `http://127.0.0.1:9005`.
    pub fn url(&self) -> String {
        self.base()
    }

    /// The script that replaces the processor's on the pages of a console.
    pub fn js_url(&self) -> String {
        format!("{}/processor/js", self.base())
    }

    /// Sends its events to this URL, which must start with `http://`, from now on.
    pub fn set_webhook(&self, url: &str) {
        self.outbox.change(|endpoint| endpoint.url = Some(url.to_owned()));
    }

    async fn api_answer(&self, request: &SimulatorRequest) -> SocketReply {
        if request.method == Method::OPTIONS {
            let allowed = "authorization, content-type, stripe-version, idempotency-key";
            let reply = WireReply::new(StatusCode::NO_CONTENT)
                .header(ACCESS_CONTROL_ALLOW_ORIGIN, "*")
                .header(ACCESS_CONTROL_ALLOW_METHODS, "GET, POST")
                .header(ACCESS_CONTROL_ALLOW_HEADERS, allowed);
            return SocketReply::Whole(reply);
        }
        let target = &request.path_and_query;
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let host = request.headers.get(HOST).and_then(|host| host.to_str().ok());
        let asked = wire::ApiRequest {
            method: &request.method,
            path: path.strip_prefix('/').unwrap_or(path),
            query,
            headers: &request.headers,
            body: &request.body,
            base: host.map_or_else(|| self.base(), |host| format!("http://{host}")),
        };
        match wire::answer(self, &asked).await {
            wire::ApiAnswer::Given { status, body, headers } => {
                SocketReply::Whole(api_response(status, &body, headers))
            }
            wire::ApiAnswer::Silence => {
                SocketReply::Script(SocketScript::nothing(ConnectionEnd::Hang))
            }
            wire::ApiAnswer::Closed => {
                SocketReply::Script(SocketScript::nothing(ConnectionEnd::Close))
            }
        }
    }
}

impl Simulator for ProcessorSimulator {
    fn serves(&self, first_segment: &str) -> bool {
        ["v1", "processor"].contains(&first_segment)
    }

    fn answer<'a>(
        &'a self,
        request: SimulatorRequest,
        _faults: &'a FaultRules,
    ) -> BoxFuture<'a, SocketReply> {
        Box::pin(async move {
            if request.first_segment == "v1" {
                return self.api_answer(&request).await;
            }
            let SimulatorRequest { method, path_and_query, body, .. } = &request;
            SocketReply::Whole(pages::answer(self, method, path_and_query, body))
        })
    }

    fn port_names(&self) -> Vec<&'static str> {
        vec![PORT]
    }

    fn control_index(&self) -> &'static [ControlEntry] {
        &control::INDEX
    }

    fn control<'a>(&'a self, request: &'a ControlRequest<'a>) -> BoxFuture<'a, Option<WireReply>> {
        Box::pin(async move {
            let path = request.path.strip_prefix("/processor")?;
            let (status, shown) = control::answer(self, request.method, path, request.body).await;
            Some(json_response(status, &shown))
        })
    }

    fn clock_moved(&self) -> Map<String, Value> {
        self.note_time();
        Map::from_iter([("processor_now".to_owned(), json!(self.now_s()))])
    }

    fn reset(&self) -> io::Result<()> {
        self.forget()
    }
}

impl std::fmt::Debug for ProcessorSimulator {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ProcessorSimulator").finish_non_exhaustive()
    }
}

/// The API's response in HTTP. Cross-origin requests are allowed.
fn api_response(status: u16, body: &Value, headers: Vec<(&'static str, String)>) -> WireReply {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let reply = json_response(status, body);
    let reply = headers
        .into_iter()
        .fold(reply, |reply, (name, value)| reply.header(HeaderName::from_static(name), &value));
    reply.header(ACCESS_CONTROL_ALLOW_ORIGIN, "*")
}
