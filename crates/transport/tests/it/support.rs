//! A listener for one test, and clients that speak to it byte by byte.

use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body::{Body, Frame};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use transport::{
    ArrivedRequest, BodyError, BoundListener, ListenerSettings, RequestHandler, RunningListener,
};

/// A listener on a free port of this machine with one core and ample limits.
pub(crate) fn settings() -> ListenerSettings {
    ListenerSettings {
        listen: "127.0.0.1:0".parse().unwrap(),
        cores: 1,
        tls: None,
        head_timeout: Duration::from_mins(1),
        head_bytes_max: 16_384,
        headers_max: 64,
        write_stall_timeout: Duration::from_mins(1),
        drain_timeout: Duration::from_mins(1),
        connections_max: 10_000,
        connections_per_ip_max: 10_000,
        trusted_proxies: Vec::new(),
    }
}

/// Serves with a handler on every core.
pub(crate) fn run(settings: &ListenerSettings, handler: impl RequestHandler) -> RunningListener {
    BoundListener::bind(settings).unwrap().run(move |_| handler.clone()).unwrap()
}

/// A handler that answers with the target of each request.
pub(crate) fn echo() -> impl RequestHandler {
    |arrived: ArrivedRequest| async move {
        // A header of every response of the service itself: it is no refusal of the library.
        Response::builder()
            .header("x-request-id", "req_1")
            .body(arrived.request.uri().path().to_owned())
            .unwrap()
    }
}

/// A connection of a client.
pub(crate) struct Client(pub(crate) TcpStream);

impl Client {
    pub(crate) async fn connect(to: SocketAddr) -> Self {
        Self(TcpStream::connect(to).await.unwrap())
    }

    pub(crate) async fn send(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).await.unwrap();
    }

    /// Sends a GET and reads its response.
    pub(crate) async fn get(&mut self, path: &str) -> String {
        self.send(&format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n")).await;
        self.response().await
    }

    /// One response with a length.
    pub(crate) async fn response(&mut self) -> String {
        let head = self.until(b"\r\n\r\n").await;
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "))
            .map_or(0, |length| length.parse().unwrap());
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).await.unwrap();
        head + &String::from_utf8(body).unwrap()
    }

    /// Everything up to and with these bytes.
    pub(crate) async fn until(&mut self, end: &[u8]) -> String {
        let mut read = Vec::new();
        while !read.ends_with(end) {
            read.push(self.0.read_u8().await.unwrap());
        }
        String::from_utf8(read).unwrap()
    }

    /// Everything up to the end of the connection, also where the other side resets it.
    pub(crate) async fn rest(mut self) -> Vec<u8> {
        let mut read = Vec::new();
        let mut space = [0; 4_096];
        while let Ok(count) = self.0.read(&mut space).await {
            if count == 0 {
                break;
            }
            read.extend_from_slice(&space[..count]);
        }
        read
    }
}

/// A response whose parts a test sends, and that fails where the test says so.
pub(crate) struct SentBody(mpsc::UnboundedReceiver<Result<Bytes, BodyError>>);

pub(crate) type BodySender = mpsc::UnboundedSender<Result<Bytes, BodyError>>;

impl SentBody {
    pub(crate) fn new() -> (BodySender, Self) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (sender, Self(receiver))
    }
}

impl Body for SentBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        self.0.poll_recv(context).map(|part| part.map(|part| part.map(Frame::data)))
    }
}
