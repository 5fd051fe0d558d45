//! A connection's socket that reports its progress.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::activity::ConnectionActivity;

/// Bytes discarded in one read while a connection closes.
const DISCARD_BYTES: usize = 4096;

/// A socket that reports to [`ConnectionActivity`] when its peer accepts bytes and when it does
/// not, and that closes in a way that lets the peer read the last response.
#[derive(Debug)]
pub(crate) struct WatchedSocket<T> {
    socket: T,
    activity: Arc<ConnectionActivity>,
    closing: ClosingState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClosingState {
    /// Not closing.
    No,
    /// The write side is closed; as far as is known, the peer has sent everything.
    Quiet,
    /// The write side is closed; the peer is still sending.
    PeerSends,
}

impl<T> WatchedSocket<T> {
    pub(crate) const fn new(socket: T, activity: Arc<ConnectionActivity>) -> Self {
        Self { socket, activity, closing: ClosingState::No }
    }

    fn note(&self, written: &Poll<io::Result<usize>>) {
        match written {
            Poll::Ready(Ok(bytes)) => self.activity.wrote(*bytes),
            Poll::Ready(Err(_)) => {}
            Poll::Pending => self.activity.blocked(),
        }
    }
}

impl<T: AsyncRead + Unpin> WatchedSocket<T> {
    /// Reads and discards what the peer still sends. The kernel resets a socket that is closed with
    /// unread bytes, and discards the response that is in transit.
    fn poll_discard(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            let mut space = [0; DISCARD_BYTES];
            let mut buffer = ReadBuf::new(&mut space);
            match Pin::new(&mut self.socket).poll_read(context, &mut buffer) {
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {
                    self.closing = ClosingState::PeerSends;
                }
                Poll::Pending if self.closing == ClosingState::PeerSends => return Poll::Pending,
                Poll::Pending | Poll::Ready(_) => return Poll::Ready(()),
            }
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for WatchedSocket<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(context, buffer)
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncWrite for WatchedSocket<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write(context, bytes);
        self.note(&written);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write_vectored(context, slices);
        self.note(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.closing == ClosingState::No {
            ready!(Pin::new(&mut self.socket).poll_shutdown(context))?;
            let sends = self.activity.linger();
            self.closing = if sends { ClosingState::PeerSends } else { ClosingState::Quiet };
        }
        self.poll_discard(context).map(Ok)
    }
}
