//! A platform made of a script: it reads requests, writes the bytes it was told, and remembers what
//! came.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use clients::platform::{
    AccountCredentials, CallErrorKind, CallFault, CallTimeouts, ClientError, NativeCall,
    PlatformClient, PlatformResponse, PlatformTarget, ReadLimits, ReadUpTo, SigningInput,
    TargetSettings, UpstreamSettings, VerifySettings,
};
use domain::method::Method;
use domain::platform::Platform;
use domain::time::Timestamp;
use http::HeaderMap;
use zeroize::Zeroizing;

/// The secret that must reach its platform and nobody else.
pub(crate) const TOKEN: &str = "canary-7f3a";

/// The longest that anything here waits for what should come at once.
const GENEROUS: Duration = Duration::from_secs(20);

/// What a scripted platform does next on a connection; it closes the connection after the last
/// step.
#[derive(Debug, Clone)]
pub(crate) enum PlatformStep {
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
pub(crate) trait WireStream: Read + Write {}
impl<S: Read + Write> WireStream for S {}

/// Turns an accepted connection into what the script reads and writes, or gives it up.
type StreamSecuring = dyn Fn(TcpStream) -> Option<Box<dyn WireStream>> + Send + Sync;

/// A scripted platform on a port of its own.
pub(crate) struct ScriptedPlatform {
    port: u16,
    seen: Arc<Mutex<Vec<SeenRequest>>>,
}

/// A request as it came.
#[derive(Debug, Clone)]
pub(crate) struct SeenRequest {
    /// Which connection it came on, counted from zero.
    pub(crate) connection: usize,
    /// Its bytes, head and body.
    pub(crate) text: String,
}

impl ScriptedPlatform {
    /// Every connection follows the same script.
    pub(crate) fn start(script: impl Into<Vec<PlatformStep>>) -> Self {
        let script = script.into();
        Self::start_each(move |_| script.clone())
    }

    /// Every connection follows the script for its number.
    pub(crate) fn start_each(script: impl Fn(usize) -> Vec<PlatformStep> + Send + 'static) -> Self {
        Self::start_over(script, Box::new(|tcp| Some(Box::new(tcp))))
    }

    pub(crate) fn start_over(
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

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(crate) fn https_url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// The requests so far, in the order in which they were read.
    pub(crate) fn seen(&self) -> Vec<SeenRequest> {
        self.seen.lock().unwrap().clone()
    }

    /// The only request so far.
    pub(crate) fn only(&self) -> String {
        let seen = self.seen();
        assert_eq!(seen.len(), 1, "{seen:?}");
        seen[0].text.clone()
    }

    /// The connections of the requests so far.
    pub(crate) fn connections(&self) -> Vec<usize> {
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
pub(crate) fn ok(body: &str) -> Vec<u8> {
    answer("200 OK", body)
}

pub(crate) fn answer(status: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// A script that answers every request with the same bytes.
pub(crate) fn always(bytes: impl Into<Vec<u8>>) -> Vec<PlatformStep> {
    vec![PlatformStep::Read, PlatformStep::Write(bytes.into()), PlatformStep::Again]
}

/// A platform at this address that wants a bearer token and waits long for everything.
pub(crate) fn settings(base_url: &str) -> TargetSettings {
    TargetSettings {
        platform: Platform::ALPHA,
        credential_fields: Vec::new(),
        base_url: base_url.to_owned(),
        path_prefix: "/api/".to_owned(),
        headers: vec![("authorization".to_owned(), "Bearer {token}".to_owned())],
        version_header: None,
        signing: None,
        envelope: false,
        envelope_pointers: None,
        query: Vec::new(),
        response_headers: Vec::new(),
        user_agent: "creator-gateway".to_owned(),
        verify: VerifySettings {
            path: "users/me".to_owned(),
            id_pointer: Some("/id".to_owned()),
            equals_field: Some("user_id".to_owned()),
            accepted_statuses: Vec::new(),
            ..VerifySettings::default()
        },
        oauth: None,
        timeouts: CallTimeouts {
            connect: GENEROUS,
            tls: GENEROUS,
            first_byte: GENEROUS,
            between_bytes: GENEROUS,
            stream_idle: GENEROUS,
        },
        ca_file: None,
        client_certificate_file: None,
        client_key_file: None,
        proxy: Zeroizing::default(),
        private_proxies: false,
        hosts: Vec::new(),
    }
}

pub(crate) fn target(base_url: &str) -> PlatformTarget {
    PlatformTarget::new(&settings(base_url)).unwrap()
}

pub(crate) fn upstream() -> PlatformClient {
    PlatformClient::new(&UpstreamSettings::default())
}

pub(crate) fn credentials() -> AccountCredentials {
    let json = format!(r#"{{"token":"{TOKEN}","user_id":"17"}}"#);
    AccountCredentials::from_json(json.as_bytes()).unwrap()
}

pub(crate) const SIGNING: SigningInput =
    SigningInput { now: Timestamp::from_unix_micros(1_769_904_000_123_456), nonce: [0xab; 16] };

/// Calls with the credentials above.
pub(crate) async fn call(
    upstream: &PlatformClient,
    target: &PlatformTarget,
    method: Method,
    path: &str,
    body: &str,
) -> Result<PlatformResponse, ClientError> {
    let account = target.headers_of(&credentials())?;
    let request = target.request(&NativeCall {
        call_id: &"call_1",
        method,
        path,
        query: "",
        caller_headers: &HeaderMap::new(),
        body: Bytes::copy_from_slice(body.as_bytes()),
        account: &account,
        signing: SIGNING,
    })?;
    upstream.send(target, request).await
}

pub(crate) async fn get(
    upstream: &PlatformClient,
    target: &PlatformTarget,
) -> Result<PlatformResponse, ClientError> {
    call(upstream, target, Method::Get, "users/me", "").await
}

/// Calls and reads the whole answer.
pub(crate) async fn get_text(upstream: &PlatformClient, target: &PlatformTarget) -> String {
    let mut answer = get(upstream, target).await.unwrap();
    let ReadUpTo::Whole(body) = answer.body.read_up_to(ReadLimits::bytes(1_000_000)).await.unwrap()
    else {
        panic!("the answer is larger than a test's")
    };
    // The task of the connection runs before the next call looks for an idle one.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    String::from_utf8(body.to_vec()).unwrap()
}

/// What an error says for those who decide by it.
pub(crate) fn facts(error: &ClientError) -> (CallFault, CallErrorKind, bool, bool) {
    (error.fault, error.kind, error.sent, error.retryable)
}

/// Asserts an answer that must not be passed on: the platform's fault, sent, and not to be
/// repeated.
#[track_caller]
pub(crate) fn assert_bad_response(error: &ClientError) {
    assert!(matches!(error.kind, CallErrorKind::BadResponse(_)), "{error:?}");
    assert_eq!(
        (error.fault, error.sent, error.retryable),
        (CallFault::Theirs, true, false),
        "{error:?}"
    );
}
