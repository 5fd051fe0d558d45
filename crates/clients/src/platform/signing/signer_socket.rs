//! The connections of one core to a process that signs. They are kept for a next question.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HOST};
use http::{HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::rt::{Executor as _, Read, Write};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::{TcpStream, UnixStream};

use super::external::{self, ExternalSigner, SignerAddress, SigningQuestion};
use crate::error::ClientError;
use crate::platform::body::RequestBody;

/// The longest response, in bytes.
const ANSWER_BYTES_MAX: usize = 65_536;
/// Connections that are kept while nothing is asked.
const IDLE_MAX: usize = 64;

/// The connections to one process. Cheap to clone; clones share them.
#[derive(Clone, Default)]
pub(in crate::platform) struct SignerConnections(Arc<Mutex<Vec<SignerConnection>>>);

type SignerConnection = SendRequest<Full<Bytes>>;

impl SignerConnections {
    /// Puts the headers on a request that its process signs it with. Fails where there is no
    /// signature in time.
    pub(in crate::platform) async fn sign(
        &self,
        signer: &ExternalSigner,
        request: &mut Request<RequestBody>,
    ) -> Result<(), ClientError> {
        let Some(question) = request.extensions_mut().remove::<SigningQuestion>() else {
            return Ok(());
        };
        let asked = tokio::time::timeout(signer.timeout, self.ask(signer, question)).await;
        let late = |_| ClientError::signing("the signer did not respond in time");
        let headers = external::headers(&asked.map_err(late)??)?;
        for (name, value) in headers {
            request.headers_mut().insert(name, value);
        }
        Ok(())
    }

    /// Asks on a kept connection and, where that turns out to be closed, on a new one.
    async fn ask(
        &self,
        signer: &ExternalSigner,
        question: SigningQuestion,
    ) -> Result<Bytes, ClientError> {
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
        let connection = connect(&signer.address)
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

impl ExternalSigner {
    fn request(&self, question: &SigningQuestion) -> Result<Request<Full<Bytes>>, ClientError> {
        let (host, path) = match &self.address {
            SignerAddress::Tcp { host, port, path } => {
                let is_v6 = host.contains(':');
                let host =
                    if is_v6 { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
                (host, path.as_str())
            }
            SignerAddress::Unix(_) => ("localhost".to_owned(), "/"),
        };
        let mut request = Request::new(Full::new(question.0.clone()));
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
