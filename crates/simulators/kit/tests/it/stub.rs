//! Two simulated platforms that answer everything with the same body, and what is said to them.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::{Method, StatusCode};
use serde_json::{Map, Value, json};
use simulator_kit::control::{ControlEntry, ControlRequest, control_response};
use simulator_kit::faults::{FaultCandidate, FaultRules, FaultTarget};
use simulator_kit::script::{SocketReply, WireReply};
use simulator_kit::simulator::{BoxFuture, Simulator, SimulatorRequest};
use simulator_kit::{RunningService, SimulatorClock, SimulatorService};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The body of every response that is not spoiled.
pub(crate) const BODY: &str = r#"{"id":1}"#;
/// When the clock of the stub starts.
pub(crate) const NOW_S: i64 = 1_800_000_000;

/// A platform of the stub.
struct StubPlatform(&'static str);

impl FaultTarget for StubPlatform {
    fn name(&self) -> &'static str {
        self.0
    }

    fn has_route(&self, method: Option<&Method>, path: &str) -> bool {
        let is_known =
            method.is_none_or(|method| *method == Method::GET || *method == Method::POST);
        is_known && (path == "items/{id}" || path.starts_with("items/"))
    }
}

/// Both platforms.
pub(crate) struct Stub {
    platforms: [StubPlatform; 2],
    body: Bytes,
    carried_out: AtomicUsize,
    moved: AtomicUsize,
    resets: AtomicUsize,
}

impl Stub {
    pub(crate) fn with_body(body: &str) -> Self {
        Self {
            platforms: ["platform_alpha", "platform_beta"].map(StubPlatform),
            body: Bytes::from(body.to_owned()),
            carried_out: AtomicUsize::default(),
            moved: AtomicUsize::default(),
            resets: AtomicUsize::default(),
        }
    }

    fn reply(&self, request: &SimulatorRequest, faults: &FaultRules) -> SocketReply {
        let path = request.path_and_query.split('?').next().unwrap().trim_start_matches('/');
        let asked = FaultCandidate {
            platform: &request.first_segment,
            method: &request.method,
            path,
            template: path.starts_with("items/").then_some("items/{id}"),
        };
        let reply = |status| WireReply::new(status).content("application/json", self.body.clone());
        let Some(fault) = faults.choose(&asked) else {
            self.carried_out.fetch_add(1, Ordering::SeqCst);
            return SocketReply::Whole(reply(StatusCode::OK));
        };
        if fault.carried_out {
            self.carried_out.fetch_add(1, Ordering::SeqCst);
            return fault.spoil(reply(StatusCode::OK), path);
        }
        fault.spoil(reply(fault.refusal_status()), path)
    }
}

impl Simulator for Stub {
    fn serves(&self, first_segment: &str) -> bool {
        self.platforms.iter().any(|platform| platform.0 == first_segment)
    }

    fn answer<'a>(
        &'a self,
        request: SimulatorRequest,
        faults: &'a FaultRules,
    ) -> BoxFuture<'a, SocketReply> {
        Box::pin(std::future::ready(self.reply(&request, faults)))
    }

    fn port_names(&self) -> Vec<&'static str> {
        self.platforms.iter().map(|platform| platform.0).collect()
    }

    fn fault_targets(&self) -> Vec<&dyn FaultTarget> {
        self.platforms.iter().map(|platform| platform as &dyn FaultTarget).collect()
    }

    fn control_index(&self) -> &'static [ControlEntry] {
        &[("GET", "/control/stub", "says what was asked for")]
    }

    fn control<'a>(&'a self, request: &'a ControlRequest<'a>) -> BoxFuture<'a, Option<WireReply>> {
        let outcome = (request.path == "/stub").then(|| {
            let size = request.number("size")?;
            Ok(json!({"size": size, "word": request.value("word")}))
        });
        Box::pin(std::future::ready(outcome.map(control_response)))
    }

    fn clock_moved(&self) -> Map<String, Value> {
        let times = self.moved.fetch_add(1, Ordering::SeqCst) + 1;
        Map::from_iter([("moved".to_owned(), json!(times))])
    }

    fn reset(&self) -> std::io::Result<()> {
        self.resets.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

/// The stub in process.
pub(crate) struct StubService {
    pub(crate) service: SimulatorService,
    stub: Arc<Stub>,
}

impl StubService {
    pub(crate) fn new() -> Self {
        Self::with_body(BODY)
    }

    pub(crate) fn with_body(body: &str) -> Self {
        let stub = Arc::new(Stub::with_body(body));
        let clock = SimulatorClock::manual(NOW_S * 1_000);
        let service = SimulatorService::new(vec![Arc::clone(&stub) as Arc<_>], clock);
        Self { service, stub }
    }

    /// How many requests were carried out.
    pub(crate) fn carried_out(&self) -> usize {
        self.stub.carried_out.load(Ordering::SeqCst)
    }

    /// How often everything was forgotten.
    pub(crate) fn resets(&self) -> usize {
        self.stub.resets.load(Ordering::SeqCst)
    }

    pub(crate) async fn reply(&self, method: &str, path: &str, body: &str) -> WireReply {
        let request = http::Request::builder().method(method).uri(path);
        self.service.respond(request.body(Bytes::from(body.to_owned())).unwrap()).await
    }

    /// The status and the JSON of a response.
    pub(crate) async fn ask(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let reply = self.reply(method, path, &body).await;
        let json = serde_json::from_slice(&reply.body).unwrap_or(Value::Null);
        (reply.status.as_u16(), json)
    }

    /// Adds a fault that must be accepted; returns it as it is shown.
    pub(crate) async fn add(&self, fault: &Value) -> Value {
        let (status, shown) = self.ask("POST", "/control/faults", fault).await;
        assert_eq!(status, 200, "{fault}: {shown}");
        shown
    }

    /// Listens on free ports of this machine.
    pub(crate) fn listen(self) -> RunningService {
        self.service.listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap()
    }
}

/// Sends a request on a connection of its own, and reads to its end.
pub(crate) async fn to_the_end(
    address: SocketAddr,
    method: &str,
    path: &str,
    body: &str,
) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let text = format!(
        "{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}
