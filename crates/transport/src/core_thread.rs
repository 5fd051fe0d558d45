//! One core: a thread, its runtime, its socket, and the loop that accepts connections.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;

use super::balancer::{AcceptedConnection, ConnectionBalancer, CoreAssignment, CoreInbox};
use super::connection::{self, HttpServing};
use super::connection_limits::ConnectionLimits;
use super::running::{CoreThread, StopCommand};
use super::tls::TlsServing;
use super::{ListenerSettings, RequestHandler};

/// How long accepting pauses after the system ran out of resources. Otherwise the loop would spin:
/// the connection that cannot be accepted stays in the queue.
const PAUSE_WITHOUT_RESOURCES: Duration = Duration::from_millis(100);

/// How long a core's shutdown waits for blocking work that was started on its runtime.
const BLOCKING_END: Duration = Duration::from_secs(1);

/// What the cores of a listener share.
#[derive(Debug)]
pub(crate) struct SharedCores {
    pub(crate) settings: ListenerSettings,
    pub(crate) tls: Option<TlsServing>,
    pub(crate) stop: Arc<StopCommand>,
    pub(crate) limits: Arc<ConnectionLimits>,
    pub(crate) balancer: Arc<ConnectionBalancer>,
}

/// Where a core gets its connections from.
#[derive(Debug)]
pub(crate) struct ConnectionSources {
    /// The core's number.
    pub(crate) core: usize,
    pub(crate) socket: StdListener,
    pub(crate) inbox: CoreInbox,
}

/// Starts the thread of a core. The runtime is created here, so that the caller sees a failure.
pub(crate) fn start<S, M>(
    sources: ConnectionSources,
    shared: SharedCores,
    make: M,
) -> io::Result<CoreThread>
where
    S: RequestHandler,
    M: FnOnce(usize) -> S + Send + 'static,
{
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let (say_drained, drained) = oneshot::channel();
    let (end, ended) = oneshot::channel::<()>();
    let index = sources.core;
    let body = move || {
        let serving = async move {
            let service = make(index);
            if let Err(error) = serve(sources, shared, service).await {
                tracing::error!(core = index, %error, "a core cannot listen");
            }
            // The receiver is gone if the listener was dropped instead of drained.
            say_drained.send(()).ok();
            // Calls that outlive their connections keep running until the other end is dropped.
            std::future::pending::<()>().await;
        };
        runtime.block_on(async move {
            tokio::select! {
                _ = ended => {}
                () = serving => {}
            }
        });
        shut(runtime);
    };
    let thread = thread::Builder::new().name(format!("core-{index}")).spawn(body)?;
    Ok(CoreThread { drained, end, thread })
}

fn shut(runtime: Runtime) {
    runtime.shutdown_timeout(BLOCKING_END);
}

/// Serves connections until the listener stops and none is left.
async fn serve<S: RequestHandler>(
    sources: ConnectionSources,
    shared: SharedCores,
    service: S,
) -> io::Result<()> {
    let ConnectionSources { core, socket, mut inbox } = sources;
    let listener = TcpListener::from_std(socket)?;
    let served = ServedConnections {
        connections: TaskTracker::new(),
        http: Arc::new(HttpServing::new(&shared, service)),
    };
    let stopped = shared.stop.given();
    tokio::pin!(stopped);
    loop {
        let accepted = tokio::select! {
            () = &mut stopped => break,
            Some(passed_on) = inbox.recv() => {
                served.take(passed_on);
                continue;
            }
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => admit(&shared, core, &served, stream, peer),
            Err(error) if concerns_one_connection(&error) => {}
            Err(error) => {
                tracing::error!(%error, "connections cannot be accepted at the moment");
                tokio::time::sleep(PAUSE_WITHOUT_RESOURCES).await;
            }
        }
    }
    drop(listener);
    inbox.close();
    while let Some(passed_on) = inbox.recv().await {
        served.take(passed_on);
    }
    served.connections.close();
    served.connections.wait().await;
    Ok(())
}

/// Admits a connection, for this core or another, or closes it immediately if there are too many.
fn admit<S: RequestHandler>(
    shared: &SharedCores,
    core: usize,
    served: &ServedConnections<S>,
    stream: TcpStream,
    peer: SocketAddr,
) {
    let ip = peer.ip().to_canonical();
    let permit = shared.limits.enter(ip);
    let Some(assignment) = permit.and_then(|permit| shared.balancer.assign(core, permit)) else {
        return;
    };
    if assignment.is_at(core) {
        return served.begin(stream, ip, assignment);
    }
    match stream.into_std() {
        Ok(stream) => {
            let passed_on = AcceptedConnection { stream, ip, assignment }.pass_on();
            passed_on.unwrap_or_else(|accepted| served.take(accepted));
        }
        Err(error) => tracing::error!(%error, "a connection cannot be passed on to another core"),
    }
}

/// The connections of a core, and how they are served.
struct ServedConnections<S> {
    connections: TaskTracker,
    http: Arc<HttpServing<S>>,
}

impl<S: RequestHandler> ServedConnections<S> {
    /// Serves a connection that another core has accepted.
    fn take(&self, accepted: AcceptedConnection) {
        let AcceptedConnection { stream, ip, assignment } = accepted;
        match TcpStream::from_std(stream) {
            Ok(stream) => self.begin(stream, ip, assignment),
            Err(error) => {
                tracing::error!(%error, "a connection from another core cannot be served");
            }
        }
    }

    fn begin(&self, stream: TcpStream, ip: IpAddr, assignment: CoreAssignment) {
        let connection = connection::run(Arc::clone(&self.http), stream, ip, assignment);
        drop(self.connections.spawn(connection));
    }
}

/// Whether `accept` failed because of the connection that it would have returned, so that later
/// ones are unaffected.
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
    fn accepting_pauses_without_descriptors_or_memory_but_not_for_a_broken_connection() {
        const EMFILE: i32 = 24;
        const ENOMEM: i32 = 12;
        const ECONNABORTED: i32 = 103;

        assert!(!concerns_one_connection(&io::Error::from_raw_os_error(EMFILE)));
        assert!(!concerns_one_connection(&io::Error::from_raw_os_error(ENOMEM)));
        assert!(concerns_one_connection(&io::Error::from_raw_os_error(ECONNABORTED)));
    }
}
