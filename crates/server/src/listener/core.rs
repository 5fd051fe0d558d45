//! One core: a thread, its runtime, its socket, and the loop that accepts connections.

use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;

use super::connection::{self, Http};
use super::limits::ConnectionLimits;
use super::shutdown::{CoreThread, Stop};
use super::tls::Tls;
use super::{Answers, ListenerSettings};

/// How long no connection is accepted after the system had no room for one. The loop would spin otherwise:
/// the connection that cannot be accepted stays in the queue.
const PAUSE_WITHOUT_RESOURCES: Duration = Duration::from_millis(100);

/// How long a core's end waits for blocking work that was started on its runtime.
const BLOCKING_END: Duration = Duration::from_secs(1);

/// What the cores of a listener have in common.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) settings: ListenerSettings,
    pub(super) tls: Option<Tls>,
    pub(super) stop: Arc<Stop>,
    pub(super) limits: Arc<ConnectionLimits>,
}

/// Starts the thread of core `index`. The runtime is made here, so that a failure is seen by the caller.
pub(super) fn start<S, M>(
    index: usize,
    socket: StdListener,
    shared: Shared,
    make: M,
) -> io::Result<CoreThread>
where
    S: Answers,
    M: FnOnce(usize) -> S + Send + 'static,
{
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let (say_drained, drained) = oneshot::channel();
    let (end, ended) = oneshot::channel::<()>();
    let body = move || {
        runtime.block_on(async move {
            let service = make(index);
            if let Err(error) = serve(socket, shared, service).await {
                tracing::error!(core = index, %error, "a core cannot listen");
            }
            // Nobody listens if the listener was dropped instead of drained.
            say_drained.send(()).ok();
            // Calls that outlive their connections run on, until the other end is dropped.
            ended.await.ok();
        });
        shut(runtime);
    };
    let thread = thread::Builder::new().name(format!("core-{index}")).spawn(body)?;
    Ok(CoreThread { drained, end, thread })
}

fn shut(runtime: Runtime) {
    runtime.shutdown_timeout(BLOCKING_END);
}

/// Serves the socket until the word to stop is given and no connection is left.
async fn serve<S: Answers>(socket: StdListener, shared: Shared, service: S) -> io::Result<()> {
    let listener = TcpListener::from_std(socket)?;
    let connections = TaskTracker::new();
    let http = Arc::new(Http::new(&shared, service));
    let stopped = shared.stop.given();
    tokio::pin!(stopped);
    loop {
        let accepted = tokio::select! {
            () = &mut stopped => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => admit(&shared, &http, &connections, (stream, peer)),
            Err(error) if concerns_one_connection(&error) => {}
            Err(error) => {
                tracing::error!(%error, "no connection can be accepted at present");
                tokio::time::sleep(PAUSE_WITHOUT_RESOURCES).await;
            }
        }
    }
    drop(listener);
    connections.close();
    connections.wait().await;
    Ok(())
}

/// Takes a connection in, or closes it at once if there are too many.
fn admit<S: Answers>(
    shared: &Shared,
    http: &Arc<Http<S>>,
    connections: &TaskTracker,
    (stream, peer): (TcpStream, SocketAddr),
) {
    let ip = peer.ip().to_canonical();
    if let Some(place) = shared.limits.enter(ip) {
        let connection = connection::run(Arc::clone(http), stream, ip, place);
        drop(connections.spawn(connection));
    }
}

/// Whether `accept` failed for the one connection it would have returned, and not for any that follows.
fn concerns_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
            | io::ErrorKind::WouldBlock
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lack_of_descriptors_or_memory_pauses_and_a_broken_connection_does_not() {
        const EMFILE: i32 = 24;
        const ENOMEM: i32 = 12;
        const ECONNABORTED: i32 = 103;

        assert!(!concerns_one_connection(&io::Error::from_raw_os_error(EMFILE)));
        assert!(!concerns_one_connection(&io::Error::from_raw_os_error(ENOMEM)));
        assert!(concerns_one_connection(&io::Error::from_raw_os_error(ECONNABORTED)));
    }
}
