//! A platform that answers exactly the bytes it is told to: for answers that no decent platform gives.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// What to do with one request.
#[derive(Clone)]
pub(crate) enum Script {
    /// Answer these bytes and keep the connection.
    Answer(Vec<u8>),
    /// Answer these bytes and close the connection.
    AnswerAndClose(Vec<u8>),
    /// Answer these bytes and stay silent.
    AnswerAndHang(Vec<u8>),
}

/// A platform on a socket of its own, and every request head and body that it has seen.
pub(crate) struct RawPlatform {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Vec<String>>>,
}

impl RawPlatform {
    /// Answers each request as `script` says, given the request's number from 0.
    pub(crate) async fn start(script: impl Fn(usize) -> Script + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (log, script) = (Arc::clone(&seen), Arc::new(script));
        spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                spawn(serve(stream, Arc::clone(&log), Arc::clone(&script)));
            }
        });
        Self { address, seen }
    }

    /// Always the same answer.
    pub(crate) async fn answering(bytes: &[u8]) -> Self {
        let bytes = bytes.to_vec();
        Self::start(move |_| Script::Answer(bytes.clone())).await
    }

    /// The requests so far, head and body as they came.
    pub(crate) fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }

    /// Configuration that puts it in the place of a platform.
    pub(crate) fn as_platform(&self, platform: &str) -> String {
        format!("[platforms.{platform}]\nbase_url = \"http://{}\"\n", self.address)
    }
}

#[expect(clippy::disallowed_methods, reason = "the test's runtime ends these tasks with itself")]
fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    drop(tokio::spawn(task));
}

async fn serve(
    mut stream: TcpStream,
    log: Arc<Mutex<Vec<String>>>,
    script: Arc<impl Fn(usize) -> Script>,
) {
    while let Some(request) = read_request(&mut stream).await {
        let number = {
            let mut log = log.lock().unwrap();
            log.push(request);
            log.len() - 1
        };
        let (bytes, stays, hangs) = match script(number) {
            Script::Answer(bytes) => (bytes, true, false),
            Script::AnswerAndClose(bytes) => (bytes, false, false),
            Script::AnswerAndHang(bytes) => (bytes, true, true),
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

/// Reads a head and a body with a length; nothing when the connection ended.
async fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    let head_end = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8_lossy(&bytes[..head_end]).to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    while bytes.len() < head_end + length.unwrap_or(0) {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
