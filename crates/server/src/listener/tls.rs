//! TLS for the public listener: 1.2 and 1.3, certificate and key from PEM files.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Where the certificate and its key are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TlsFiles {
    /// PEM: the server's certificate, then those between it and a root.
    pub(crate) certificate_file: PathBuf,
    /// PEM: the certificate's private key.
    pub(crate) key_file: PathBuf,
}

/// A loaded certificate.
#[derive(Clone)]
pub(super) struct Tls(TlsAcceptor);

impl std::fmt::Debug for Tls {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Tls")
    }
}

impl Tls {
    /// Reads both files. The error names the file, never its content.
    pub(super) fn load(files: &TlsFiles) -> io::Result<Self> {
        let certificates = CertificateDer::pem_file_iter(&files.certificate_file)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|error| unusable(&files.certificate_file, error))?;
        let key = PrivateKeyDer::from_pem_file(&files.key_file)
            .map_err(|error| unusable(&files.key_file, error))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_no_client_auth()
            .with_single_cert(certificates, key)
            .map_err(|error| unusable(&files.certificate_file, error))?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self(TlsAcceptor::from(Arc::new(config))))
    }

    /// Shakes hands on a new connection.
    pub(super) async fn accept<T>(&self, stream: T) -> io::Result<TlsStream<T>>
    where
        T: AsyncRead + AsyncWrite + Unpin,
    {
        self.0.accept(stream).await
    }
}

fn unusable(file: &Path, error: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("{}: {error}", file.display()))
}
