//! One request to the admin listener of a service on this machine.
//!
//! A single HTTP/1.0 exchange on loopback that ends with the connection: not worth a client library
//! in this crate, which opens no other connection.

use anyhow::Context as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The service's response.
pub(crate) struct ServiceResponse {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

/// Where a request goes, and who sends it.
pub(crate) struct Destination<'a> {
    pub(crate) address: &'a str,
    pub(crate) path: &'a str,
    pub(crate) token: &'a str,
    /// The name of the operator, if one was given.
    pub(crate) operator: Option<&'a str>,
}

const ANSWER_BYTES_MAX: u64 = 1_048_576;
/// The longest head of a response that is streamed.
const HEAD_BYTES_MAX: usize = 16_384;
/// How much of a streamed response is read in one piece.
const PIECE_BYTES: usize = 65_536;

/// Posts JSON and reads the whole response.
pub(crate) async fn post(to: &Destination<'_>, json: &[u8]) -> anyhow::Result<ServiceResponse> {
    let stream = send(to, json).await?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).await?;
    parse(&answer).context("the service's response is malformed")
}

/// Posts JSON and passes the body of a successful response on, piece by piece. Any other response
/// is returned.
pub(crate) async fn post_for_stream(
    to: &Destination<'_>,
    json: &[u8],
    mut write: impl FnMut(&[u8]) -> std::io::Result<()>,
) -> anyhow::Result<Option<ServiceResponse>> {
    let mut stream = send(to, json).await?;
    let mut answer = Vec::new();
    while parse(&answer).is_none() {
        let read = stream.read_buf(&mut answer).await?;
        anyhow::ensure!(
            read > 0 && answer.len() <= HEAD_BYTES_MAX + PIECE_BYTES,
            "the service's response is malformed"
        );
    }
    let begun = parse(&answer).context("the service's response is malformed")?;
    if begun.status != 200 {
        stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).await?;
        return Ok(parse(&answer));
    }
    write(&begun.body)?;
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let read = stream.read(&mut piece).await?;
        if read == 0 {
            return Ok(None);
        }
        write(piece.get(..read).unwrap_or_default())?;
    }
}

async fn send(to: &Destination<'_>, json: &[u8]) -> anyhow::Result<TcpStream> {
    let Destination { address, path, token, operator } = *to;
    let mut stream = TcpStream::connect(address)
        .await
        .with_context(|| format!("the service's admin listener at {address} does not respond"))?;
    let operator = operator.map_or_else(String::new, |name| format!("X-Operator: {name}\r\n"));
    let head = format!(
        "POST {path} HTTP/1.0\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n{operator}\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        json.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(json).await?;
    Ok(stream)
}

/// An HTTP/1.0 response ends with the connection, so everything after the head is the body.
fn parse(answer: &[u8]) -> Option<ServiceResponse> {
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n")?;
    let (head, rest) = answer.split_at(end);
    let status = std::str::from_utf8(head).ok()?.split(' ').nth(1)?.parse().ok()?;
    Some(ServiceResponse { status, body: rest.get(4..)?.to_vec() })
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
