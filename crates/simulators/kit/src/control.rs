//! `/control`: the requests of tests and the sandbox to the simulators themselves.

use bytes::Bytes;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::clock::{ClockMistake, seconds_ahead};
use crate::faults::{FaultTarget, FieldMistake};
use crate::pairs::parse_pairs;
use crate::script::WireReply;
use crate::service::{SimulatorService, json_response};
use crate::simulator::SimulatorRequest;

/// One control request: method, path, and what it does.
pub type ControlEntry = (&'static str, &'static str, &'static str);

/// The control requests that do not belong to a single simulator.
const INDEX: [ControlEntry; 8] = [
    ("GET", "/control", "this list"),
    ("GET", "/control/health", "says that the simulators run"),
    ("GET", "/control/faults", "lists the active faults, and the catalogue of all kinds"),
    (
        "POST",
        "/control/faults",
        "adds a fault: `kind`, the requests that it applies to, and its fields",
    ),
    ("DELETE", "/control/faults/{id}", "removes a fault"),
    ("DELETE", "/control/faults", "removes all faults"),
    (
        "POST",
        "/control/clock",
        "moves the clock of all simulators `to` a second, or by `advance_s`, `advance_days` or `advance_months`",
    ),
    ("POST", "/control/reset", "forgets all requests, emails, everything written, and all faults"),
];

/// A request to the control interface.
#[derive(Clone, Debug)]
pub struct ControlRequest<'a> {
    /// Its method.
    pub method: &'a Method,
    /// Its path after `/control`.
    pub path: &'a str,
    /// Its query, decoded, in order.
    pub query: Vec<(String, String)>,
    /// Its body.
    pub body: &'a Bytes,
}

/// The result of a control request.
pub type ControlOutcome = Result<Value, ControlProblem>;

/// Why a control request failed.
#[derive(Clone, Debug)]
pub struct ControlProblem {
    status: StatusCode,
    message: String,
    /// The invalid field.
    field: Option<String>,
}

impl ControlProblem {
    /// A failure with this status.
    pub fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), field: None }
    }

    /// 400 for this field; its name precedes the message.
    pub fn of_field(field: &str, message: impl Into<String>) -> Self {
        Self::from(FieldMistake::new(field, message))
    }
}

impl From<FieldMistake> for ControlProblem {
    fn from(FieldMistake { field, problem }: FieldMistake) -> Self {
        let message = format!("{field} {problem}");
        Self { status: StatusCode::BAD_REQUEST, message, field: Some(field) }
    }
}

impl From<ClockMistake> for ControlProblem {
    fn from(ClockMistake { field, message }: ClockMistake) -> Self {
        let (status, field) = (StatusCode::BAD_REQUEST, Some(field.to_owned()));
        Self { status, message, field }
    }
}

impl From<std::io::Error> for ControlProblem {
    fn from(error: std::io::Error) -> Self {
        tracing::error!(%error, "the data folder cannot be used");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "storage")
    }
}

impl ControlRequest<'_> {
    /// The first query parameter with this name.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The query parameter with this name, which must be a whole number.
    pub fn number(&self, name: &str) -> Result<Option<u64>, ControlProblem> {
        let parse = |text: &str| {
            text.parse().map_err(|_| ControlProblem::of_field(name, "must be a number"))
        };
        self.value(name).map(parse).transpose()
    }
}

/// The response for the result of a control request.
pub fn control_response(outcome: ControlOutcome) -> WireReply {
    let ControlProblem { status, message, field } = match outcome {
        Ok(done) => return json_response(StatusCode::OK, &done),
        Err(problem) => problem,
    };
    match field {
        None => json_response(status, &json!({"error": message})),
        Some(field) => json_response(status, &json!({"error": message, "field": field})),
    }
}

/// Responds to a request below `/control`.
pub(crate) async fn answer(service: &SimulatorService, request: &SimulatorRequest) -> WireReply {
    let target = &request.path_and_query;
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let (method, body) = (&request.method, &request.body);
    let asked = ControlRequest { method, path, query: parse_pairs(query), body };
    let response = match common(service, &asked) {
        Some(outcome) => control_response(outcome),
        None => of_simulators(service, &asked).await,
    };
    // Ports are opened and closed as the faults require before the response is sent.
    if let Some(ports) = service.ports.get().filter(|_| method != Method::GET) {
        ports.follow(&service.faults).await;
    }
    response
}

/// Passes the request to the simulator that it belongs to.
async fn of_simulators(service: &SimulatorService, request: &ControlRequest<'_>) -> WireReply {
    for simulator in &service.simulators {
        if let Some(response) = simulator.control(request).await {
            return response;
        }
    }
    let missing = "no such control request; GET /control lists all of them";
    control_response(Err(ControlProblem::new(StatusCode::NOT_FOUND, missing)))
}

/// Handles the requests that do not belong to a single simulator.
fn common(service: &SimulatorService, request: &ControlRequest<'_>) -> Option<ControlOutcome> {
    Some(match (request.method.as_str(), request.path) {
        ("GET", "" | "/") => Ok(index(service)),
        ("GET", "/health") => Ok(json!({"ok": true})),
        ("GET", "/faults") => Ok(service.faults.shown()),
        ("POST", "/faults") => add_fault(service, request.body),
        ("DELETE", "/faults") => Ok(json!({"removed": service.faults.clear()})),
        ("DELETE", path) if path.starts_with("/faults/") => remove_fault(service, path),
        ("POST", "/clock") => move_clock(service, request.body),
        ("POST", "/reset") => reset(service),
        _ => return None,
    })
}

fn index(service: &SimulatorService) -> Value {
    let own = service.simulators.iter().flat_map(|simulator| simulator.control_index());
    let shown = INDEX
        .iter()
        .chain(own)
        .map(|(method, path, says)| json!({"method": method, "path": path, "says": says}));
    json!({"controls": shown.collect::<Vec<_>>()})
}

fn add_fault(service: &SimulatorService, body: &Bytes) -> ControlOutcome {
    let read = serde_json::from_slice::<Value>(body);
    let not_json = |error| ControlProblem::of_field("body", format!("is not JSON: {error}"));
    let Value::Object(fields) = read.map_err(not_json)? else {
        return Err(ControlProblem::of_field("body", "must be an object with `kind`"));
    };
    let simulators = service.simulators.iter();
    let targets: Vec<&dyn FaultTarget> =
        simulators.flat_map(|simulator| simulator.fault_targets()).collect();
    Ok(service.faults.add(fields, &targets)?)
}

fn remove_fault(service: &SimulatorService, path: &str) -> ControlOutcome {
    let id = path.trim_start_matches("/faults/").parse();
    let id = id.map_err(|_| ControlProblem::of_field("id", "must be a number"))?;
    if service.faults.remove(id) {
        Ok(json!({"removed": 1}))
    } else {
        Err(ControlProblem::new(StatusCode::NOT_FOUND, "no fault has this id"))
    }
}

/// Moves the clock of all simulators, and lets each of them do what has fallen due.
fn move_clock(service: &SimulatorService, body: &Bytes) -> ControlOutcome {
    let now_s = || service.clock.now_ms().div_euclid(1_000);
    let body = serde_json::from_slice(body).unwrap_or_default();
    service.clock.advance_ms(seconds_ahead(now_s(), &body)? * 1_000);
    let mut shown = serde_json::Map::new();
    shown.insert("now".to_owned(), json!(now_s()));
    for simulator in &service.simulators {
        shown.extend(simulator.clock_moved());
    }
    Ok(Value::Object(shown))
}

fn reset(service: &SimulatorService) -> ControlOutcome {
    service.faults.clear();
    for simulator in &service.simulators {
        simulator.reset()?;
    }
    Ok(json!({"ok": true}))
}
