//! Says what is wrong where hyper refuses a request by itself, which it does with a bare 400.
//!
//! Such a request never becomes one for the service: its first line or a header line cannot be read, for example because
//! its query holds a character that no target may hold. The response is the last on its connection.
//!
//! Only the first bytes on a connection are looked at: later ones may be part of a body, which is nobody's to change.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::middleware::framing::FrameProblem;

/// How hyper's response begins.
const BARE: &[u8] = b"HTTP/1.1 400 Bad Request\r\n";
/// What every response of the service itself has.
const OURS: &[u8] = b"x-request-id:";

/// A stream that writes a problem's body in place of a bare 400.
pub(super) struct Explained<T> {
    stream: T,
    /// Nothing was written yet.
    is_fresh: bool,
    /// What is left to be written of the explanation.
    rest: Bytes,
    /// The bytes that it is written for.
    replaced: usize,
}

impl<T> Explained<T> {
    pub(super) const fn new(stream: T) -> Self {
        Self { stream, is_fresh: true, rest: Bytes::new(), replaced: 0 }
    }

    /// Whether these bytes, which are about to be written, are to be replaced. True until that is done.
    fn replaces(&mut self, bytes: &[u8]) -> bool {
        if self.is_fresh && !bytes.is_empty() {
            self.is_fresh = false;
            if is_bare(bytes) {
                self.rest = explanation();
                self.replaced = bytes.len();
            }
        }
        self.replaced > 0
    }
}

impl<T: AsyncWrite + Unpin> Explained<T> {
    /// Writes the explanation to its end; then the bytes that it replaces count as written.
    fn poll_explain(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        while self.rest.has_remaining() {
            let written = ready!(Pin::new(&mut self.stream).poll_write(context, &self.rest))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.rest.advance(written);
        }
        Poll::Ready(Ok(std::mem::take(&mut self.replaced)))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Explained<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Explained<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.replaces(bytes) {
            return self.poll_explain(context);
        }
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        // A head is in one piece, and the bare one is all that its write holds.
        if slices.first().is_some_and(|first| self.replaces(first)) {
            return self.poll_explain(context);
        }
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// Whether this is hyper's own refusal: no response of the service is without its id.
fn is_bare(bytes: &[u8]) -> bool {
    bytes.starts_with(BARE)
        && bytes.ends_with(b"\r\n\r\n")
        && !bytes.windows(OURS.len()).any(|window| window.eq_ignore_ascii_case(OURS))
}

fn explanation() -> Bytes {
    let problem = FrameProblem::Malformed;
    let body = serde_json::json!({
        "type": format!("/docs/errors#{}", problem.code()),
        "title": problem.title(),
        "status": problem.status().as_u16(),
        "code": problem.code(),
        "detail": problem.to_string(),
        "retryable": false,
    })
    .to_string();
    let head = format!(
        "content-type: application/problem+json\r\ncontent-length: {}\r\nx-error-source: gateway\r\n\
         cache-control: no-store\r\nx-content-type-options: nosniff\r\nconnection: close\r\n\r\n",
        body.len()
    );
    Bytes::from([BARE, head.as_bytes(), body.as_bytes()].concat())
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// What arrives of these bytes, through a pipe that takes few at a time.
    async fn arrives(bytes: &[u8]) -> String {
        let (near, mut far) = tokio::io::duplex(7);
        let mut explained = Explained::new(near);
        let writing = async {
            explained.write_all(bytes).await.unwrap();
            explained.shutdown().await.unwrap();
        };
        let mut arrived = String::new();
        let ((), read) = tokio::join!(writing, far.read_to_string(&mut arrived));
        read.unwrap();
        arrived
    }

    #[tokio::test]
    async fn a_bare_400_is_explained_whole() {
        let bare = b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

        let arrived = arrives(bare).await;

        let (head, body) = arrived.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{head}");
        assert!(head.contains(&format!("content-length: {}", body.len())), "{head}");
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(body["code"], "malformed_request");
        assert!(body["detail"].as_str().unwrap().contains("query"), "{body}");
    }

    #[tokio::test]
    async fn everything_else_passes_byte_for_byte() {
        for text in [
            "HTTP/1.1 200 OK\r\n\r\n",
            "HTTP/1.1 400 Bad Request\r\nX-Request-Id: req_1\r\n\r\n",
            "HTTP/1.1 400 Bad Request\r\ncontent-length: 2\r\n\r\nno",
            "",
        ] {
            assert_eq!(arrives(text.as_bytes()).await, text);
        }
    }

    #[tokio::test]
    async fn a_body_that_looks_like_a_bare_400_passes() {
        let bare = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n";
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", bare.len());
        let (near, mut far) = tokio::io::duplex(4096);
        let mut explained = Explained::new(near);

        explained.write_all(head.as_bytes()).await.unwrap();
        explained.write_all(bare).await.unwrap();
        drop(explained);

        let mut arrived = Vec::new();
        far.read_to_end(&mut arrived).await.unwrap();
        assert_eq!(arrived, [head.as_bytes(), bare].concat());
    }
}
