//! One connection. hyper serves HTTP until a fault needs the socket: then hyper is detached, the
//! script is played, and hyper continues if the script leaves the connection usable.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::script::{ConnectionEnd, ScriptStep, SocketReply, SocketScript};
use crate::service::{SimulatorService, json_response};
use crate::simulator::SimulatorRequest;

/// The largest request body, in bytes: a file of 512 MiB and the form around it.
const BODY_BYTES_MAX: usize = 513 * 1024 * 1024;

/// Serves the connection until either side ends it. After a stop, the running request still gets
/// its response.
pub(super) async fn serve(
    service: &Arc<SimulatorService>,
    stream: TcpStream,
    stop: &CancellationToken,
) {
    let mut usable = stream;
    while let Some((script, taken)) = until_script(service, usable, stop).await {
        usable = taken;
        let played = stop.run_until_cancelled(play(script, &mut usable)).await;
        if played != Some(ScriptOutcome::InOrder) {
            return;
        }
    }
}

/// Serves requests until one needs a script on the socket; `None` if the connection ended first.
async fn until_script(
    service: &Arc<SimulatorService>,
    stream: TcpStream,
    stop: &CancellationToken,
) -> Option<(SocketScript, TcpStream)> {
    let (hand_over, mut handed_over) = mpsc::channel(1);
    let answer = service_fn(move |request: http::Request<Incoming>| {
        let (service, hand_over) = (Arc::clone(service), hand_over.clone());
        Box::pin(async move {
            match answer(&service, request).await {
                SocketReply::Whole(reply) => {
                    let mut response = http::Response::new(Full::new(reply.body));
                    (*response.status_mut(), *response.headers_mut()) =
                        (reply.status, reply.headers);
                    Ok::<_, std::convert::Infallible>(response)
                }
                SocketReply::Script(script) => {
                    drop(hand_over.send(script).await);
                    // The script sends the response, not hyper.
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
    // Bytes of a request that arrived too early would be lost, so the connection ends.
    let whole = parts.read_buf.is_empty();
    whole.then(|| (script, parts.io.into_inner()))
}

/// Reads the whole request and responds to it.
async fn answer(service: &SimulatorService, request: http::Request<Incoming>) -> SocketReply {
    let (head, body) = request.into_parts();
    match Limited::new(body, BODY_BYTES_MAX).collect().await {
        Ok(body) => service.answer(SimulatorRequest::new(head, body.to_bytes())).await,
        Err(_) => SocketReply::Whole(json_response(
            StatusCode::PAYLOAD_TOO_LARGE,
            &json!({"error": "body_too_large"}),
        )),
    }
}

/// How a script ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ScriptOutcome {
    InOrder,
    Ended,
}

async fn play(script: SocketScript, stream: &mut TcpStream) -> ScriptOutcome {
    for step in script.steps {
        if take(step, stream).await.is_err() {
            // The peer has disconnected.
            return ScriptOutcome::Ended;
        }
    }
    match script.end {
        ConnectionEnd::Keep => ScriptOutcome::InOrder,
        ConnectionEnd::Close => {
            drop(stream.shutdown().await);
            ScriptOutcome::Ended
        }
        ConnectionEnd::Reset => {
            drop(stream.set_zero_linger());
            ScriptOutcome::Ended
        }
        ConnectionEnd::Hang => {
            let mut ignored = [0; 1024];
            while stream.read(&mut ignored).await.is_ok_and(|read| read > 0) {}
            ScriptOutcome::Ended
        }
    }
}

async fn take(step: ScriptStep, stream: &mut TcpStream) -> std::io::Result<()> {
    match step {
        ScriptStep::Send(bytes) => stream.write_all(&bytes).await,
        ScriptStep::Repeat { bytes, times } => {
            for _ in 0..times {
                stream.write_all(&bytes).await?;
            }
            Ok(())
        }
        ScriptStep::Drip { bytes, size, pause } => {
            for piece in bytes.chunks(size.max(1)) {
                stream.write_all(piece).await?;
                wait(pause).await;
            }
            Ok(())
        }
        ScriptStep::Wait(pause) => {
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
