//! What stands at the other end in tests of outbound calls? A peer made of a script: it reads
//! requests, writes the bytes of its script, and remembers what came.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    clippy::new_without_default,
    reason = "only tests use it, and one that meets what it does not expect must fail"
)]

mod authority;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

pub use authority::{TestAuthority, pem, secured, secured_by, server};

/// What a scripted platform does next on a connection; it closes the connection after the last
/// step.
#[derive(Debug, Clone)]
pub enum PlatformStep {
    /// Reads one request to its end.
    Read,
    /// Writes bytes.
    Write(Vec<u8>),
    /// Does nothing until the caller closes.
    Hang,
    /// Begins again with the first step.
    Again,
}

/// What a connection runs over: TCP, or TLS on top of it.
pub trait WireStream: Read + Write {}
impl<S: Read + Write> WireStream for S {}

/// Turns an accepted connection into what the script reads and writes, or gives it up.
type StreamSecuring = dyn Fn(TcpStream) -> Option<Box<dyn WireStream>> + Send + Sync;

/// A scripted platform on a port of its own.
pub struct ScriptedPlatform {
    port: u16,
    seen: Arc<Mutex<Vec<SeenRequest>>>,
}

/// A request as it came.
#[derive(Debug, Clone)]
pub struct SeenRequest {
    /// Which connection it came on, counted from zero.
    pub connection: usize,
    /// Its bytes, head and body.
    pub text: String,
}

impl ScriptedPlatform {
    /// Every connection follows the same script.
    pub fn start(script: impl Into<Vec<PlatformStep>>) -> Self {
        let script = script.into();
        Self::start_each(move |_| script.clone())
    }

    /// Every connection follows the script for its number.
    pub fn start_each(script: impl Fn(usize) -> Vec<PlatformStep> + Send + 'static) -> Self {
        Self::start_over(script, Box::new(|tcp| Some(Box::new(tcp))))
    }

    /// Every connection follows the script for its number, over what `secured` makes of it.
    pub fn start_over(
        script: impl Fn(usize) -> Vec<PlatformStep> + Send + 'static,
        secured: Box<StreamSecuring>,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen: Arc<Mutex<Vec<SeenRequest>>> = Arc::default();
        let (secured, notes) = (Arc::new(secured), Arc::clone(&seen));
        thread::spawn(move || {
            for (number, tcp) in listener.incoming().flatten().enumerate() {
                let (script, secured, notes) =
                    (script(number), Arc::clone(&secured), Arc::clone(&notes));
                thread::spawn(move || {
                    let note =
                        |text| notes.lock().unwrap().push(SeenRequest { connection: number, text });
                    if let Some(stream) = secured(tcp) {
                        follow(&script, stream, &note);
                    }
                });
            }
        });
        Self { port, seen }
    }

    /// Its address without TLS.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Its address with TLS.
    pub fn https_url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// The requests so far, in the order in which they were read.
    pub fn seen(&self) -> Vec<SeenRequest> {
        self.seen.lock().unwrap().clone()
    }

    /// The only request so far.
    pub fn only(&self) -> String {
        let seen = self.seen();
        assert_eq!(seen.len(), 1, "{seen:?}");
        seen[0].text.clone()
    }

    /// The connections of the requests so far.
    pub fn connections(&self) -> Vec<usize> {
        self.seen().iter().map(|seen| seen.connection).collect()
    }
}

fn follow(script: &[PlatformStep], mut stream: Box<dyn WireStream>, note: &dyn Fn(String)) {
    let mut at = 0;
    while let Some(step) = script.get(at) {
        at += 1;
        match step {
            PlatformStep::Read => match read_request(&mut stream) {
                Some(text) => note(text),
                None => return,
            },
            PlatformStep::Write(bytes) => {
                if stream.write_all(bytes).and_then(|()| stream.flush()).is_err() {
                    return;
                }
            }
            PlatformStep::Hang => {
                while stream.read(&mut [0; 1_024]).is_ok_and(|count| count > 0) {}
            }
            PlatformStep::Again => at = 0,
        }
    }
}

/// One request, head and body; nothing when the connection ends before.
fn read_request(stream: &mut dyn WireStream) -> Option<String> {
    let mut bytes = Vec::new();
    while !is_whole(&bytes) {
        let mut byte = [0];
        if stream.read(&mut byte).ok()? == 0 {
            return None;
        }
        bytes.push(byte[0]);
    }
    String::from_utf8(bytes).ok()
}

fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request).to_ascii_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    if head.contains("transfer-encoding: chunked") {
        return body.ends_with("0\r\n\r\n");
    }
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    body.len() >= length.map_or(0, |length| length.parse().unwrap())
}

/// An answer of status 200 with a length.
pub fn ok(body: &str) -> Vec<u8> {
    answer("200 OK", body)
}

/// An answer with a status line and a length.
pub fn answer(status: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// A script that answers every request with the same bytes.
pub fn always(bytes: impl Into<Vec<u8>>) -> Vec<PlatformStep> {
    vec![PlatformStep::Read, PlatformStep::Write(bytes.into()), PlatformStep::Again]
}
