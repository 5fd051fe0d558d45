//! Listening simulators, and exact bytes to and from them.

use std::net::SocketAddr;

use http::Method;
use serde_json::{Value, json};
use simulator_kit::RunningService;
use simulator_platforms::{PlatformSettings, demo_accounts};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::kit::listening;

/// Simulators on sockets.
pub(crate) struct Sockets {
    pub(crate) running: RunningService,
}

impl Sockets {
    pub(crate) fn open() -> Self {
        Self { running: listening() }
    }

    /// Sends a request to the control interface; returns status and body.
    pub(crate) async fn control(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let length = body.len();
        let request = format!(
            "{method} /control{path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        let mut socket = TcpStream::connect(self.running.address()).await.unwrap();
        socket.write_all(request.as_bytes()).await.unwrap();
        let answer = to_end(&mut socket).await.unwrap();
        let (head, shown) = split(&answer);
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_slice(shown).unwrap())
    }

    /// Adds a fault; returns it as the control interface shows it.
    pub(crate) async fn fault(&self, fault: Value) -> Value {
        let (status, shown) = self.control("POST", "/faults", &fault).await;
        assert_eq!(status, 200, "{shown}");
        shown
    }

    pub(crate) async fn clear(&self) {
        self.control("DELETE", "/faults", &json!(null)).await;
    }

    /// The platform's own port.
    pub(crate) fn port_of(&self, platform: &str) -> SocketAddr {
        self.running.port_address(platform).unwrap()
    }

    pub(crate) async fn connect(&self, platform: &str) -> TcpStream {
        TcpStream::connect(self.port_of(platform)).await.unwrap()
    }

    /// A request of the demo account of `platform_alpha`, byte for byte.
    pub(crate) fn alpha(method: &Method, path: &str, body: &str) -> Vec<u8> {
        let accounts = demo_accounts(&PlatformSettings::default());
        let auth = &accounts.iter().find(|it| it.creator_id == "demo_alpha").unwrap().auth;
        let text = |name: &str| auth[name].as_str().unwrap();
        format!(
            "{method} /platform_alpha/{path} HTTP/1.1\r\nhost: x\r\nauthorization: Session {}\r\n\
             x-user-id: {}\r\nuser-agent: x\r\ncontent-length: {}\r\n\r\n{body}",
            text("session_token"),
            text("user_id"),
            body.len(),
        )
        .into_bytes()
    }

    /// The requests to the platform, oldest first.
    pub(crate) async fn log(&self, platform: &str) -> Vec<Value> {
        let path = format!("/requests?platform={platform}");
        let (_, log) = self.control("GET", &path, &json!(null)).await;
        log["requests"].as_array().unwrap().clone()
    }
}

/// All bytes until the peer closes; an error if it resets.
pub(crate) async fn to_end(socket: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    socket.read_to_end(&mut bytes).await?;
    Ok(bytes)
}

/// The next `count` bytes.
pub(crate) async fn exactly(socket: &mut TcpStream, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    socket.read_exact(&mut bytes).await.unwrap();
    bytes
}

/// Head and body of a response.
pub(crate) fn split(answer: &[u8]) -> (String, &[u8]) {
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
    (String::from_utf8(answer[..end].to_vec()).unwrap(), &answer[end..])
}
