//! Explains what is wrong when hyper refuses a request by itself, which it does with a bare 400 or
//! 431.
//!
//! Such a request never reaches the service: its first line or a header line cannot be parsed, for
//! example because its query contains a character that no target may contain, or its head is too
//! large. The response is the last one on its connection.
//!
//! Only the first bytes on a connection are examined: later ones may be part of a body, which must
//! not be changed.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http::StatusCode;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A header of every response of the service itself.
const OURS: &[u8] = b"x-request-id:";

/// A stream that replaces a bare refusal by an explanation. `E` writes the explanation for a
/// status.
pub(crate) struct ExplainedStream<T, E> {
    stream: T,
    explain: E,
    /// Nothing has been written yet.
    is_fresh: bool,
    /// The rest of the explanation.
    rest: Bytes,
    /// The number of bytes that it replaces.
    replaced: usize,
}

impl<T, E: Fn(StatusCode) -> Option<Bytes>> ExplainedStream<T, E> {
    pub(crate) const fn new(stream: T, explain: E) -> Self {
        Self { stream, explain, is_fresh: true, rest: Bytes::new(), replaced: 0 }
    }

    /// Whether these bytes, which are about to be written, are to be replaced. True until the
    /// explanation is written.
    fn replaces(&mut self, bytes: &[u8]) -> bool {
        if self.is_fresh && !bytes.is_empty() {
            self.is_fresh = false;
            if let Some((status, first_lines)) = bare(bytes)
                && let Some(explanation) = (self.explain)(status)
            {
                self.rest = Bytes::from([&first_lines[..], &explanation].concat());
                self.replaced = bytes.len();
            }
        }
        self.replaced > 0
    }
}

impl<T: AsyncWrite + Unpin, E> ExplainedStream<T, E> {
    /// Writes the rest of the explanation; after that, the bytes that it replaces count as written.
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

impl<T: AsyncRead + Unpin, E: Unpin> AsyncRead for ExplainedStream<T, E> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<T, E> AsyncWrite for ExplainedStream<T, E>
where
    T: AsyncWrite + Unpin,
    E: Fn(StatusCode) -> Option<Bytes> + Unpin,
{
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
        // hyper writes a head in one piece, and a bare refusal is the only content of its write.
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

/// The status of hyper's own refusal, with its status line and date: every response of the service
/// has a request id.
fn bare(bytes: &[u8]) -> Option<(StatusCode, Vec<u8>)> {
    let is_ours = bytes.windows(OURS.len()).any(|window| window.eq_ignore_ascii_case(OURS));
    if is_ours || !bytes.ends_with(b"\r\n\r\n") {
        return None;
    }
    let text = std::str::from_utf8(bytes).ok()?;
    let mut lines = text.split_inclusive("\r\n");
    let status_line = lines.next()?;
    let status = status_line.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse::<StatusCode>().ok()?;
    let is_date =
        |line: &&str| line.get(..5).is_some_and(|name| name.eq_ignore_ascii_case("date:"));
    let date = lines.find(is_date).unwrap_or_default();
    status.is_client_error().then(|| (status, [status_line, date].concat().into_bytes()))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    fn explain(status: StatusCode) -> Option<Bytes> {
        let is_known = [400, 431].contains(&status.as_u16());
        is_known.then(|| Bytes::from_static(b"x-why: because\r\ncontent-length: 4\r\n\r\nwhy?"))
    }

    /// What the peer receives of these bytes, through a pipe that takes a few at a time.
    async fn arrives(bytes: &[u8]) -> String {
        let (near, mut far) = tokio::io::duplex(7);
        let mut explained = ExplainedStream::new(near, explain);
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
    async fn a_bare_refusal_is_explained_and_keeps_its_date() {
        for line in ["HTTP/1.1 400 Bad Request", "HTTP/1.1 431 Request Header Fields Too Large"] {
            let bare = format!(
                "{line}\r\nconnection: close\r\ncontent-length: 0\r\ndate: Sat, 21 Nov 2026\r\n\r\n"
            );

            let arrived = arrives(bare.as_bytes()).await;

            let rest = "date: Sat, 21 Nov 2026\r\nx-why: because\r\ncontent-length: 4\r\n\r\nwhy?";
            assert_eq!(arrived, format!("{line}\r\n{rest}"));
        }
    }

    #[tokio::test]
    async fn other_responses_pass_unchanged() {
        for text in [
            "HTTP/1.1 200 OK\r\n\r\n",
            "HTTP/1.1 408 Request Timeout\r\n\r\n",
            "HTTP/1.1 500 Internal Server Error\r\n\r\n",
            "HTTP/1.1 400 Bad Request\r\nX-Request-Id: req_1\r\n\r\n",
            "HTTP/1.1 400 Bad Request\r\ncontent-length: 2\r\n\r\nno",
            "",
        ] {
            assert_eq!(arrives(text.as_bytes()).await, text);
        }
    }

    #[tokio::test]
    async fn a_body_that_looks_like_a_bare_400_passes_unchanged() {
        let bare = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n";
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", bare.len());
        let (near, mut far) = tokio::io::duplex(4096);
        let mut explained = ExplainedStream::new(near, explain);

        explained.write_all(head.as_bytes()).await.unwrap();
        explained.write_all(bare).await.unwrap();
        drop(explained);

        let mut arrived = Vec::new();
        far.read_to_end(&mut arrived).await.unwrap();
        assert_eq!(arrived, [head.as_bytes(), bare].concat());
    }
}
