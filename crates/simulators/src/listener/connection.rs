//! One connection. HTTP is hyper's until a fault needs the socket: then hyper is taken off it, the
//! script is played, and hyper goes on if the script leaves the connection in order.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::faults::Script;
use crate::faults::script::{End, Step};
use crate::service::{Answered, Service};

/// Serves the connection until either side ends it. Once told to stop, the running request is still
/// answered.
pub(super) async fn serve(service: &Arc<Service>, stream: TcpStream, stop: &CancellationToken) {
    let mut usable = stream;
    while let Some((script, taken)) = until_script(service, usable, stop).await {
        usable = taken;
        let played = stop.run_until_cancelled(play(script, &mut usable)).await;
        if played != Some(Played::InOrder) {
            return;
        }
    }
}

/// Serves requests until one is to be answered by a script on the socket; `None` when the
/// connection ended before.
async fn until_script(
    service: &Arc<Service>,
    stream: TcpStream,
    stop: &CancellationToken,
) -> Option<(Script, TcpStream)> {
    let (hand_over, mut handed_over) = mpsc::channel(1);
    let answer = service_fn(move |request: http::Request<Incoming>| {
        let (service, hand_over) = (Arc::clone(service), hand_over.clone());
        Box::pin(async move {
            match service.answer(request.map(Body::new)).await {
                Answered::Http(response) => Ok::<_, std::convert::Infallible>(response),
                Answered::Script(script) => {
                    drop(hand_over.send(script).await);
                    // The script answers; hyper is not to.
                    std::future::pending().await
                }
            }
        })
    });
    let mut http = http1::Builder::new().serve_connection(TokioIo::new(stream), answer);
    let mut stopping = false;
    let script = loop {
        tokio::select! {
            _ = poll_fn(|context| http.poll_without_shutdown(context)) => return None,
            script = handed_over.recv() => break script?,
            () = stop.cancelled(), if !stopping => {
                stopping = true;
                std::pin::Pin::new(&mut http).graceful_shutdown();
            }
        }
    };
    let parts = http.into_parts();
    // Bytes of another request that came too early would be lost: the connection ends.
    let whole = parts.read_buf.is_empty();
    whole.then(|| (script, parts.io.into_inner()))
}

/// What a script leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Played {
    InOrder,
    Ended,
}

async fn play(script: Script, stream: &mut TcpStream) -> Played {
    for step in script.steps {
        if take(step, stream).await.is_err() {
            // The other side has left.
            return Played::Ended;
        }
    }
    match script.end {
        End::Keep => Played::InOrder,
        End::Close => {
            drop(stream.shutdown().await);
            Played::Ended
        }
        End::Reset => {
            drop(stream.set_zero_linger());
            Played::Ended
        }
        End::Hang => {
            let mut ignored = [0; 1024];
            while stream.read(&mut ignored).await.is_ok_and(|read| read > 0) {}
            Played::Ended
        }
    }
}

async fn take(step: Step, stream: &mut TcpStream) -> std::io::Result<()> {
    match step {
        Step::Send(bytes) => stream.write_all(&bytes).await,
        Step::Repeat { bytes, times } => {
            for _ in 0..times {
                stream.write_all(&bytes).await?;
            }
            Ok(())
        }
        Step::Drip { bytes, size, pause } => {
            for piece in bytes.chunks(size.max(1)) {
                stream.write_all(piece).await?;
                wait(pause).await;
            }
            Ok(())
        }
        Step::Wait(pause) => {
            wait(pause).await;
            Ok(())
        }
    }
}

async fn wait(pause: Duration) {
    if !pause.is_zero() {
        tokio::time::sleep(pause).await;
    }
}
