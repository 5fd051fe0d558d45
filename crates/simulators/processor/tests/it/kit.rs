//! A shop that uses the processor, and an endpoint that receives its events.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use simulator_kit::{RunningService, SimulatorClock, SimulatorEnvironment, SimulatorService};
use simulator_processor::{ProcessorSettings, ProcessorSimulator};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

pub(crate) const NOW_MS: i64 = 1_795_262_400_000;

/// A running processor and its client.
pub(crate) struct Shop {
    pub(crate) processor: Arc<ProcessorSimulator>,
    pub(crate) settings: ProcessorSettings,
    pub(crate) clock: SimulatorClock,
    running: RunningService,
}

/// Status, headers in lower case, and JSON.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) text: String,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

impl Shop {
    pub(crate) fn open() -> Self {
        Self::with(ProcessorSettings::default())
    }

    /// A processor with these settings, without a data folder.
    pub(crate) fn with(settings: ProcessorSettings) -> Self {
        Self::on(None, SimulatorClock::manual(NOW_MS), settings)
    }

    /// A processor with this data folder.
    pub(crate) fn on_folder(folder: &Path, clock: SimulatorClock) -> Self {
        Self::on(Some(folder), clock, ProcessorSettings::default())
    }

    fn on(folder: Option<&Path>, clock: SimulatorClock, settings: ProcessorSettings) -> Self {
        let data = folder.map(Into::into);
        let environment =
            SimulatorEnvironment { data, clock: clock.clone(), ..SimulatorEnvironment::default() };
        let processor = Arc::new(ProcessorSimulator::open(&environment, &settings).unwrap());
        let service = SimulatorService::new(vec![Arc::clone(&processor) as Arc<_>], clock.clone());
        let running = service.listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
        processor.run(&running);
        Self { processor, settings, clock, running }
    }

    /// A request with exactly these headers.
    pub(crate) async fn raw(&self, request: &str, headers: &str, body: &str) -> Reply {
        let address = self.processor.url();
        let address = address.strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(address).await.unwrap();
        let sent = format!(
            "{request} HTTP/1.1\r\nHost: {address}\r\nContent-Length: {}\r\nConnection: close\r\n{headers}\r\n{body}",
            body.len()
        );
        stream.write_all(sent.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        let answer = String::from_utf8(answer).unwrap();
        let (head, text) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        let head = head.lines().map(|line| match line.split_once(':') {
            Some((name, value)) => format!("{}:{value}\n", name.to_ascii_lowercase()),
            None => String::new(),
        });
        Reply { status, head: head.collect(), text: text.to_owned() }
    }

    pub(crate) fn key(&self) -> String {
        format!("Authorization: Bearer {}\r\n", self.settings.secret_key)
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.raw(&format!("GET /v1/{path}"), &self.key(), "").await
    }

    pub(crate) async fn delete(&self, path: &str) -> Reply {
        self.raw(&format!("DELETE /v1/{path}"), &self.key(), "").await
    }

    /// Posts a form.
    pub(crate) async fn post(&self, path: &str, form: &str) -> Reply {
        self.post_with(path, form, "").await
    }

    /// Posts a form with additional headers.
    pub(crate) async fn post_with(&self, path: &str, form: &str, more: &str) -> Reply {
        let headers =
            format!("{}Content-Type: application/x-www-form-urlencoded\r\n{more}", self.key());
        self.raw(&format!("POST /v1/{path}"), &headers, form).await
    }

    /// The response to a post that must succeed.
    pub(crate) async fn done(&self, path: &str, form: &str) -> Value {
        let reply = self.post(path, form).await;
        assert_eq!(reply.status, 200, "POST {path} {form}: {}", reply.text);
        reply.json()
    }

    pub(crate) async fn read(&self, path: &str) -> Value {
        let reply = self.get(path).await;
        assert_eq!(reply.status, 200, "GET {path}: {}", reply.text);
        reply.json()
    }

    /// The error of a post that must be refused with this status.
    pub(crate) async fn refused(&self, path: &str, form: &str, status: u16) -> Value {
        let reply = self.post(path, form).await;
        assert_eq!(reply.status, status, "POST {path} {form}: {}", reply.text);
        reply.json()["error"].clone()
    }

    /// The response to a control request, even if it fails.
    pub(crate) async fn controlled(&self, path: &str, body: &Value) -> Reply {
        self.raw(&format!("POST /control/processor/{path}"), "", &body.to_string()).await
    }

    pub(crate) async fn control(&self, path: &str, body: &Value) -> Value {
        let reply = self.controlled(path, body).await;
        assert_eq!(reply.status, 200, "POST {path} {body}: {}", reply.text);
        reply.json()
    }

    /// A customer, and a card that pays the customer's invoices.
    pub(crate) async fn customer(&self, card: &str) -> (String, String) {
        let customer =
            id(&self.done("customers", "email=ada@example.com&metadata[customer_id]=c1").await);
        let attached = self
            .done(&format!("payment_methods/{card}/attach"), &format!("customer={customer}"))
            .await;
        let method = id(&attached);
        let form = format!("invoice_settings[default_payment_method]={method}");
        self.done(&format!("customers/{customer}"), &form).await;
        (customer, method)
    }

    /// The types of all events so far, oldest first.
    pub(crate) async fn events(&self) -> Vec<String> {
        let reply = self.raw("GET /control/processor/events", "", "").await.json();
        reply["events"]
            .as_array()
            .unwrap()
            .iter()
            .map(|event| event["type"].as_str().unwrap().to_owned())
            .collect()
    }

    pub(crate) async fn close(self) {
        self.running.stop().await;
    }
}

/// The id of an object.
pub(crate) fn id(object: &Value) -> String {
    object["id"].as_str().unwrap_or_else(|| panic!("no id: {object}")).to_owned()
}

/// An endpoint that records what is posted to it: (head, body).
pub(crate) struct Endpoint {
    pub(crate) url: String,
    pub(crate) taken: Arc<Mutex<Vec<(String, String)>>>,
    /// The statuses of its next responses; 200 when none is left.
    pub(crate) answers: Arc<Mutex<Vec<u16>>>,
    _accepting: tokio::task::JoinSet<()>,
}

impl Endpoint {
    pub(crate) async fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let (taken, answers) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
        let (into, from) = (Arc::clone(&taken), Arc::clone(&answers));
        let mut accepting = tokio::task::JoinSet::new();
        accepting.spawn(async move {
            let mut tasks = tokio::task::JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tasks.spawn(take(stream, Arc::clone(&into), Arc::clone(&from)));
            }
        });
        Self { url, taken, answers, _accepting: accepting }
    }

    pub(crate) fn bodies(&self) -> Vec<Value> {
        let taken = self.taken.lock().unwrap();
        taken.iter().map(|(_, body)| serde_json::from_str(body).unwrap()).collect()
    }
}

async fn take(
    mut stream: TcpStream,
    taken: Arc<Mutex<Vec<(String, String)>>>,
    answers: Arc<Mutex<Vec<u16>>>,
) {
    let mut read = Vec::new();
    let (head, body) = loop {
        let mut piece = [0; 4096];
        let count = stream.read(&mut piece).await.unwrap();
        read.extend_from_slice(&piece[..count]);
        let text = String::from_utf8_lossy(&read).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.to_ascii_lowercase();
        let length =
            length.split("content-length: ").nth(1).unwrap().lines().next().unwrap().to_owned();
        if body.len() >= length.parse().unwrap() {
            break (head.to_owned(), body.to_owned());
        }
        assert!(count > 0, "cut: {text}");
    };
    taken.lock().unwrap().push((head, body));
    let status = answers.lock().unwrap().pop().unwrap_or(200);
    let answer =
        format!("HTTP/1.1 {status} Answer\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
    stream.write_all(answer.as_bytes()).await.unwrap();
}

/// An empty body, for control requests without one.
pub(crate) fn nothing() -> Value {
    json!({})
}
