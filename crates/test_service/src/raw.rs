//! A client that sends exactly the given bytes, for requests that no valid client sends.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The time after which a test fails if expected bytes have not arrived.
const PATIENCE: Duration = Duration::from_mins(3);

/// A connection to the service without a client library.
pub struct RawConnection {
    stream: TcpStream,
    unread: Vec<u8>,
}

/// A response as received.
#[derive(Debug)]
pub struct RawAnswer {
    /// The status.
    pub status: u16,
    /// The status line and the headers, in lower case.
    pub head: String,
    /// The body, as far as it arrived.
    pub body: Vec<u8>,
    /// Whether it arrived to the end announced by its framing.
    pub is_whole: bool,
}

impl RawConnection {
    /// Connects to this address.
    pub async fn open(address: SocketAddr) -> Self {
        Self { stream: TcpStream::connect(address).await.unwrap(), unread: Vec::new() }
    }

    /// Sends bytes; a service that has closed the connection does not receive them.
    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        drop(self.stream.write_all(bytes.as_ref()).await);
    }

    /// The next response, or `None` if the connection ends without one.
    pub async fn answer(&mut self) -> Option<RawAnswer> {
        loop {
            let head = self.until(b"\r\n\r\n").await?;
            let head = String::from_utf8_lossy(&head).to_ascii_lowercase();
            let status: u16 = head.split(' ').nth(1).unwrap().parse().unwrap();
            // `100 Continue` is not the final response.
            if status == 100 {
                continue;
            }
            let (body, is_whole) = self.body(&head, status).await;
            return Some(RawAnswer { status, head, body, is_whole });
        }
    }

    /// The head of the next response; its body is left unread.
    pub async fn head(&mut self) -> String {
        let head = self.until(b"\r\n\r\n").await.expect("no response arrived");
        String::from_utf8_lossy(&head).to_ascii_lowercase()
    }

    /// The next `count` bytes of a body; panics if the connection ends before.
    pub async fn bytes(&mut self, count: usize) -> Vec<u8> {
        while self.unread.len() < count {
            assert!(self.more().await, "the response broke off");
        }
        self.take(count)
    }

    /// Whether the service closes the connection without sending anything more.
    pub async fn is_closed(&mut self) -> bool {
        self.unread.is_empty() && !self.more().await
    }

    async fn body(&mut self, head: &str, status: u16) -> (Vec<u8>, bool) {
        if status == 204 || status == 304 {
            return (Vec::new(), true);
        }
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        if let Some(length) = length {
            let length = length.parse().unwrap();
            while self.unread.len() < length {
                if !self.more().await {
                    return (std::mem::take(&mut self.unread), false);
                }
            }
            return (self.take(length), true);
        }
        assert!(head.contains("transfer-encoding: chunked"), "no framing: {head}");
        let mut body = Vec::new();
        loop {
            let Some(line) = self.until(b"\r\n").await else { return (body, false) };
            let size = String::from_utf8_lossy(&line);
            let size = usize::from_str_radix(size.trim(), 16).unwrap();
            while self.unread.len() < size + 2 {
                if !self.more().await {
                    body.append(&mut self.unread);
                    return (body, false);
                }
            }
            let chunk = self.take(size + 2);
            body.extend_from_slice(&chunk[..size]);
            if size == 0 {
                return (body, true);
            }
        }
    }

    async fn until(&mut self, end: &[u8]) -> Option<Vec<u8>> {
        loop {
            let found = self.unread.windows(end.len()).position(|window| window == end);
            if let Some(at) = found {
                return Some(self.take(at + end.len()));
            }
            if !self.more().await {
                return None;
            }
        }
    }

    fn take(&mut self, count: usize) -> Vec<u8> {
        let rest = self.unread.split_off(count);
        std::mem::replace(&mut self.unread, rest)
    }

    /// Reads more; false when the connection has ended.
    async fn more(&mut self) -> bool {
        let read = self.stream.read_buf(&mut self.unread);
        let read = tokio::time::timeout(PATIENCE, read).await;
        let read = read.expect("the service neither responds nor closes the connection");
        read.is_ok_and(|count| count > 0)
    }
}

impl RawAnswer {
    /// The stable code of a failure; empty if there is none.
    pub fn code(&self) -> String {
        let body: serde_json::Value = serde_json::from_slice(&self.body).unwrap_or_default();
        body["code"].as_str().unwrap_or_default().to_owned()
    }
}
