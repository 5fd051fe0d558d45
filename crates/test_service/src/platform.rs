//! A platform that sends exactly the given bytes, for responses that no valid platform sends.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::{AbortHandle, JoinSet};

/// The reaction to one request.
#[derive(Clone)]
pub enum Script {
    /// Send these bytes and keep the connection.
    Answer(Vec<u8>),
    /// Send these bytes and close the connection.
    AnswerAndClose(Vec<u8>),
    /// Send these bytes and then nothing more.
    AnswerAndHang(Vec<u8>),
    /// Send each part when the gate has a permit for it, and keep the connection.
    Gated(Arc<Semaphore>, Vec<Vec<u8>>),
}

/// A request as received.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The request line and the headers, as received.
    pub head: String,
    /// The body.
    pub body: Vec<u8>,
    /// The number of its connection, from 0.
    pub connection: usize,
}

/// A platform on its own socket, with all requests that it has received.
pub struct RawPlatform {
    /// Where it listens.
    pub address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    listening: AbortHandle,
}

/// A response with a length.
pub fn answer(status: u16, headers: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n{headers}\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// A JSON response with a length.
pub fn json_answer(status: u16, body: impl AsRef<[u8]>) -> Vec<u8> {
    answer(status, "content-type: application/json\r\n", body)
}

impl Script {
    /// Closes the connection without a response.
    pub const fn close() -> Self {
        Self::AnswerAndClose(Vec::new())
    }

    /// Never responds.
    pub const fn silence() -> Self {
        Self::AnswerAndHang(Vec::new())
    }

    /// A JSON response.
    pub fn json(status: u16, body: impl AsRef<[u8]>) -> Self {
        Self::Answer(json_answer(status, body))
    }
}

impl Seen {
    /// The method.
    pub fn method(&self) -> &str {
        self.head.split(' ').next().unwrap_or_default()
    }

    /// Path and query, byte for byte.
    pub fn target(&self) -> &str {
        self.head.split(' ').nth(1).unwrap_or_default()
    }

    /// The value of a header; panics if it is repeated.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers().filter(|(other, _)| other.eq_ignore_ascii_case(name));
        let value = values.next().map(|(_, value)| value);
        assert!(values.next().is_none(), "{name} is repeated: {}", self.head);
        value
    }

    /// The names of all headers, in lower case, sorted.
    pub fn header_names(&self) -> Vec<String> {
        let mut names: Vec<_> = self.headers().map(|(name, _)| name.to_ascii_lowercase()).collect();
        names.sort();
        names
    }

    fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.head.lines().skip(1).filter_map(|line| line.split_once(": "))
    }

    /// Whether this is the identity check and not a call.
    pub fn is_verification(&self) -> bool {
        self.header("x-call-id") == Some("verify")
    }

    /// A valid response to the identity check of any platform, whatever the credentials.
    pub fn confirmation(&self) -> Option<Script> {
        if !self.is_verification() {
            return None;
        }
        let last = self.target().rsplit('/').next().unwrap_or_default();
        let id = self.header("x-user-id").unwrap_or(last);
        let body = format!(
            r#"{{"id":"{id}","_id":"{id}","success":true,"response":{{"account":{{"id":"41"}}}}}}"#
        );
        // On a connection of its own, so that calls find no open connection.
        Some(Script::AnswerAndClose(answer(
            200,
            "content-type: application/json\r\nconnection: close\r\n",
            body,
        )))
    }
}

impl RawPlatform {
    /// Responds to each request as `script` says, given the request's number from 0.
    pub async fn start(script: impl Fn(usize) -> Script + Send + Sync + 'static) -> Self {
        Self::deciding(move |_, number| script(number)).await
    }

    /// Responds to each request as `script` says, given the request and its number from 0.
    pub async fn deciding(script: impl Fn(&Seen, usize) -> Script + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (log, script) = (Arc::clone(&seen), Arc::new(script));
        let listening = spawn(async move {
            let mut connections = JoinSet::new();
            let mut number = 0;
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, number, Arc::clone(&log), Arc::clone(&script)));
                number += 1;
            }
        });
        Self { address, seen, listening }
    }

    /// Closes its port and every connection.
    pub fn shut(&self) {
        self.listening.abort();
    }

    /// Confirms every identity check, and responds to calls as `script` says, numbered from 0.
    pub async fn playing(script: impl Fn(&Seen, usize) -> Script + Send + Sync + 'static) -> Self {
        let calls = AtomicUsize::new(0);
        Self::deciding(move |request, _| {
            request
                .confirmation()
                .unwrap_or_else(|| script(request, calls.fetch_add(1, Ordering::Relaxed)))
        })
        .await
    }

    /// Always sends the same response.
    pub async fn answering(bytes: &[u8]) -> Self {
        let bytes = bytes.to_vec();
        Self::start(move |_| Script::Answer(bytes.clone())).await
    }

    /// The requests so far, as received.
    pub fn seen(&self) -> Vec<String> {
        let written = |seen: &Seen| format!("{}{}", seen.head, String::from_utf8_lossy(&seen.body));
        self.seen.lock().unwrap().iter().map(written).collect()
    }

    /// All requests so far.
    pub fn seen_requests(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// The requests so far, without identity checks.
    pub fn calls(&self) -> Vec<Seen> {
        let seen = self.seen.lock().unwrap().clone();
        seen.into_iter().filter(|request| !request.is_verification()).collect()
    }

    /// The last call; panics when there was none.
    pub fn last_call(&self) -> Seen {
        self.calls().pop().expect("the platform saw no call")
    }

    /// Configuration that uses it as this platform.
    pub fn as_platform(&self, platform: &str) -> String {
        format!("[platforms.{platform}]\nbase_url = \"http://{}\"\n", self.address)
    }
}

#[expect(clippy::disallowed_methods, reason = "the test's runtime ends these tasks with itself")]
fn spawn(task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
    tokio::spawn(task).abort_handle()
}

async fn serve(
    mut stream: TcpStream,
    connection: usize,
    log: Arc<Mutex<Vec<Seen>>>,
    script: Arc<impl Fn(&Seen, usize) -> Script + Send + Sync>,
) {
    while let Some((head, body)) = read_request(&mut stream).await {
        let request = Seen { head, body, connection };
        let number = {
            let mut log = log.lock().unwrap();
            log.push(request.clone());
            log.len() - 1
        };
        let (bytes, stays, hangs) = match script(&request, number) {
            Script::Answer(bytes) => (bytes, true, false),
            Script::AnswerAndClose(bytes) => (bytes, false, false),
            Script::AnswerAndHang(bytes) => (bytes, true, true),
            Script::Gated(gate, parts) => {
                if pass_gate(&mut stream, &gate, parts).await.is_none() {
                    return;
                }
                continue;
            }
        };
        if stream.write_all(&bytes).await.is_err() {
            return;
        }
        if hangs {
            std::future::pending::<()>().await;
        }
        if !stays {
            return;
        }
    }
}

async fn pass_gate(stream: &mut TcpStream, gate: &Semaphore, parts: Vec<Vec<u8>>) -> Option<()> {
    for part in parts {
        gate.acquire().await.ok()?.forget();
        stream.write_all(&part).await.ok()?;
    }
    Some(())
}

/// The first byte of a connection that begins with TLS: the type of its records (RFC 8446, 5.1).
const TLS_HANDSHAKE: u8 = 22;

/// Reads a head and a body with a length; `None` when the connection has ended or begins with TLS.
async fn read_request(stream: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    let head_end = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 || bytes[0] == TLS_HANDSHAKE {
            return None;
        }
    };
    let head = String::from_utf8_lossy(&bytes[..head_end]).into_owned();
    let lower = head.to_ascii_lowercase();
    let length = lower.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    while bytes.len() < head_end + length.unwrap_or(0) {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    Some((head, bytes.split_off(head_end)))
}
