//! One request to the admin listener of a service on this machine.
//!
//! A single HTTP/1.0 exchange on loopback that ends with the connection: not worth a client library
//! in this crate, which opens no other connection.

use anyhow::Context as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The service's response.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

const ANSWER_BYTES_MAX: u64 = 1_048_576;

/// Posts JSON and reads the whole response.
pub(crate) async fn post(
    address: &str,
    path: &str,
    token: &str,
    json: &[u8],
) -> anyhow::Result<Answer> {
    let mut stream = TcpStream::connect(address)
        .await
        .with_context(|| format!("the service's admin listener at {address} does not respond"))?;
    let head = format!(
        "POST {path} HTTP/1.0\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        json.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(json).await?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).await?;
    parse(&answer).context("the service's response is malformed")
}

/// An HTTP/1.0 response ends with the connection, so everything after the head is the body.
fn parse(answer: &[u8]) -> Option<Answer> {
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n")?;
    let (head, rest) = answer.split_at(end);
    let status = std::str::from_utf8(head).ok()?.split(' ').nth(1)?.parse().ok()?;
    Some(Answer { status, body: rest.get(4..)?.to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_and_body_are_parsed() {
        let answer = parse(b"HTTP/1.0 409 Conflict\r\nA: b\r\n\r\n{\"error\":\"x\"}").unwrap();

        assert_eq!((answer.status, answer.body.as_slice()), (409, &b"{\"error\":\"x\"}"[..]));
    }

    #[test]
    fn a_truncated_response_is_refused() {
        assert!(parse(b"HTTP/1.0 200 OK\r\n").is_none());
        assert!(parse(b"").is_none());
    }
}
