//! A port that can be closed: meanwhile the system refuses connections to it, and no other process
//! can bind it.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::connection;
use crate::port_set::PortHandle;
use crate::service::SimulatorService;

/// Connections that wait to be accepted.
const BACKLOG: u32 = 1024;

/// One port.
#[derive(Debug)]
pub(crate) struct Port {
    listener: TcpListener,
    address: SocketAddr,
    /// The requested state, and the actual one.
    wanted: watch::Receiver<bool>,
    want: watch::Sender<bool>,
    is_shut: watch::Sender<bool>,
}

impl Port {
    /// Listens on this address; port 0 takes a free one.
    pub(super) fn open(address: SocketAddr) -> io::Result<Self> {
        let listener = bound(address)?.listen(BACKLOG)?;
        let found = listener.local_addr()?;
        let (want, wanted) = watch::channel(false);
        let (is_shut, _) = watch::channel(false);
        Ok(Self { listener, address: found, wanted, want, is_shut })
    }

    pub(super) fn handle(&self) -> PortHandle {
        let (address, want) = (self.address, self.want.clone());
        PortHandle::new(address, want, self.is_shut.subscribe())
    }

    /// Serves until `stop` is cancelled; returns once the connections have ended.
    pub(super) async fn serve(self, service: Arc<SimulatorService>, stop: CancellationToken) {
        let Self { mut listener, address, mut wanted, want: _open, is_shut } = self;
        let connections = TaskTracker::new();
        loop {
            let cut = CancellationToken::new();
            tokio::select! {
                () = stop.cancelled() => break,
                () = accept(&listener, &connections, &service, &stop, &cut) => {}
                () = becomes(&mut wanted, true) => {}
            }
            drop(listener);
            let Ok(held) = bound(address) else {
                tracing::error!(%address, "another process has bound the port that was to be closed");
                return;
            };
            cut.cancel();
            connections.close();
            connections.wait().await;
            connections.reopen();
            is_shut.send_replace(true);
            tokio::select! {
                () = stop.cancelled() => return,
                () = becomes(&mut wanted, false) => {}
            }
            listener = match held.listen(BACKLOG) {
                Ok(open) => open,
                Err(error) => {
                    tracing::error!(%address, %error, "a closed port cannot be opened again");
                    return;
                }
            };
            is_shut.send_replace(false);
        }
        connections.close();
        connections.wait().await;
    }
}

/// Waits until this state is requested. The sender cannot be gone: the port itself holds one.
async fn becomes(wanted: &mut watch::Receiver<bool>, shut: bool) {
    drop(wanted.wait_for(|wanted| *wanted == shut).await);
}

/// Accepts connections forever; each is served until `stop` lets it end, or `cut` ends it.
async fn accept(
    listener: &TcpListener,
    connections: &TaskTracker,
    service: &Arc<SimulatorService>,
    stop: &CancellationToken,
    cut: &CancellationToken,
) {
    loop {
        if let Some(stream) = usable(listener.accept().await) {
            let (service, stop, cut) = (Arc::clone(service), stop.clone(), cut.clone());
            connections.spawn(async move {
                let served = connection::serve(&service, stream, &stop);
                let _ended = cut.run_until_cancelled(served).await;
            });
        }
    }
}

/// A socket bound to this address that does not listen yet.
fn bound(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

fn usable(accepted: io::Result<(TcpStream, SocketAddr)>) -> Option<TcpStream> {
    match accepted {
        Ok((stream, _)) => {
            // Small responses must not be delayed.
            drop(stream.set_nodelay(true));
            Some(stream)
        }
        Err(error) => {
            tracing::warn!(%error, "a connection was not accepted");
            None
        }
    }
}
