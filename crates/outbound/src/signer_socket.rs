//! The connections of one core to a process that signs. They are kept for a next question.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HOST};
use http::{HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::rt::{Executor as _, Read, Write};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::{TcpStream, UnixStream};

use crate::error::ClientError;

/// The longest response, in bytes.
const ANSWER_BYTES_MAX: usize = 65_536;
/// Connections that are kept while nothing is asked.
const IDLE_MAX: usize = 64;

/// Where a process that signs listens.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SignerAddress {
    /// HTTP over TCP.
    Tcp {
        /// A name or address of this machine.
        host: String,
        /// The port.
        port: u16,
        /// Path and query of requests.
        path: String,
    },
    /// HTTP over a socket in the file system; its path in requests is `/`.
    Unix(PathBuf),
}

/// The connections to one process. Cheap to clone; clones share them.
#[derive(Clone, Default)]
pub struct SignerConnections(Arc<Mutex<Vec<SignerConnection>>>);

type SignerConnection = SendRequest<Full<Bytes>>;

impl SignerConnections {
    /// Asks on a kept connection and, where that turns out to be closed, on a new one.
    pub async fn ask(&self, signer: &SignerAddress, question: Bytes) -> Result<Bytes, ClientError> {
        while let Some(mut kept) = self.idle() {
            if kept.ready().await.is_err() {
                continue;
            }
            match self.exchange(kept, signer.request(&question)?).await {
                Ok(answer) => return answer,
                // The process gave the connection up; a signature may be asked for twice.
                Err(_closed) => {}
            }
        }
        let connection = connect(signer)
            .await
            .map_err(|error| ClientError::signing("the signer cannot be reached").because(error))?;
        let answered = self.exchange(connection, signer.request(&question)?).await;
        answered.map_err(|error| {
            ClientError::signing("the signer closed the connection").because(error)
        })?
    }

    /// The outer error: no response began.
    async fn exchange(
        &self,
        mut connection: SignerConnection,
        request: Request<Full<Bytes>>,
    ) -> Result<Result<Bytes, ClientError>, hyper::Error> {
        let response = connection.send_request(request).await?;
        let status = response.status();
        let read = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
        let Ok(body) = read else {
            let what = "the signer's response is longer than 65,536 bytes or was cut short";
            return Ok(Err(ClientError::signing(what)));
        };
        self.keep(connection);
        Ok(if status == StatusCode::OK {
            Ok(body.to_bytes())
        } else {
            Err(ClientError::signing("the signer responded with another status than 200"))
        })
    }

    fn idle(&self) -> Option<SignerConnection> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    fn keep(&self, connection: SignerConnection) {
        let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|other| !other.is_closed());
        if idle.len() < IDLE_MAX {
            idle.push(connection);
        }
    }
}

impl SignerAddress {
    /// Reads `http://` with a port on this machine, or `unix:` with the absolute path of a socket.
    pub fn parse(url: &str) -> Option<Self> {
        if let Some(path) = url.strip_prefix("unix:") {
            let path = PathBuf::from(path);
            return path.is_absolute().then_some(Self::Unix(path));
        }
        let uri: Uri = url.parse().ok().filter(|_| !url.contains('#'))?;
        let (host, port) = (uri.host()?, uri.port_u16()?);
        let is_plain = uri.authority().is_some_and(|authority| !authority.as_str().contains('@'));
        let is_here = matches!(host, "127.0.0.1" | "[::1]" | "localhost");
        if uri.scheme_str() != Some("http") || !is_plain || !is_here {
            return None;
        }
        let path = uri.path_and_query()?.as_str().to_owned();
        Some(Self::Tcp { host: host.trim_matches(['[', ']']).to_owned(), port, path })
    }

    fn request(&self, question: &Bytes) -> Result<Request<Full<Bytes>>, ClientError> {
        let (host, path) = match self {
            Self::Tcp { host, port, path } => {
                let is_v6 = host.contains(':');
                let host =
                    if is_v6 { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
                (host, path.as_str())
            }
            Self::Unix(_) => ("localhost".to_owned(), "/"),
        };
        let mut request = Request::new(Full::new(question.clone()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = path.parse::<Uri>().map_err(ClientError::build)?;
        let headers = request.headers_mut();
        headers.insert(HOST, HeaderValue::try_from(host).map_err(ClientError::build)?);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        Ok(request)
    }
}

async fn connect(
    address: &SignerAddress,
) -> Result<SignerConnection, Box<dyn std::error::Error + Send + Sync>> {
    match address {
        SignerAddress::Tcp { host, port, .. } => {
            let stream = TcpStream::connect((host.as_str(), *port)).await?;
            stream.set_nodelay(true)?;
            Ok(open(TokioIo::new(stream)).await?)
        }
        SignerAddress::Unix(path) => {
            Ok(open(TokioIo::new(UnixStream::connect(path).await?)).await?)
        }
    }
}

async fn open<S>(stream: S) -> Result<SignerConnection, hyper::Error>
where
    S: Read + Write + Unpin + Send + 'static,
{
    let mut builder = http1::Builder::new();
    let (sender, connection) = builder.max_buf_size(ANSWER_BYTES_MAX).handshake(stream).await?;
    // It ends with the sender, or with the connection; whoever asks then learns why.
    TokioExecutor::new().execute(async move { drop(connection.await) });
    Ok(sender)
}

impl std::fmt::Debug for SignerConnections {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("SignerConnections")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signer_is_a_process_on_this_machine() {
        for url in ["http://127.0.0.1:9000/sign?v=1", "http://[::1]:9000", "http://localhost:1/"] {
            assert!(matches!(SignerAddress::parse(url), Some(SignerAddress::Tcp { .. })), "{url}");
        }
        assert!(matches!(SignerAddress::parse("unix:/run/s.sock"), Some(SignerAddress::Unix(_))));
        for url in [
            "",
            "unix:relative.sock",
            "http://10.0.0.7:9000",
            "http://signer.example:9000",
            "https://127.0.0.1:9000",
            "http://127.0.0.1",
            "http://user@127.0.0.1:9000",
        ] {
            assert!(SignerAddress::parse(url).is_none(), "{url}");
        }
    }
}
