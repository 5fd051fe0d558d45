//! TLS for the public listener: 1.2 and 1.3, with certificate and key from PEM files that are read
//! again when they are renewed.

use std::io;
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::RwLock;
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::pair_files::{PairBytes, PairReader, TlsFiles, unusable};
use super::validity::CertificateValidity;

/// The TLS handshakes of new connections.
#[derive(Clone)]
pub(crate) struct TlsServing {
    acceptor: TlsAcceptor,
    certificates: Arc<CertificateSource>,
}

/// The certificate for new connections, and the files that it came from. Open connections keep the
/// certificate with which they started.
pub struct CertificateSource {
    reader: PairReader,
    provider: Arc<CryptoProvider>,
    current: RwLock<LoadedCertificate>,
}

/// A certificate with its key.
struct LoadedCertificate {
    key: Arc<CertifiedKey>,
    validity: CertificateValidity,
    /// A digest of the bytes of both files.
    digest: [u8; 32],
}

/// The result of reading the files again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CertificateRenewal {
    /// The files have not changed.
    Unchanged,
    /// Another certificate is in use from now on.
    Renewed,
}

impl std::fmt::Debug for TlsServing {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Tls")
    }
}

impl std::fmt::Debug for CertificateSource {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Certificates")
            .field("files", &self.reader.files)
            .finish_non_exhaustive()
    }
}

impl TlsServing {
    /// Reads both files. Errors name the file, never its content. Blocks for at most ten seconds.
    pub(crate) fn load(files: &TlsFiles) -> io::Result<Self> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let reader = PairReader::new(files);
        let loaded = LoadedCertificate::parse(files, &reader.read()?, &provider)?;
        let certificates = Arc::new(CertificateSource {
            reader,
            provider: Arc::clone(&provider),
            current: RwLock::new(loaded),
        });
        let shown: Arc<dyn ResolvesServerCert> = Arc::<CertificateSource>::clone(&certificates);
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_no_client_auth()
            .with_cert_resolver(shown);
        // The strongest suite that both know, whatever the client prefers.
        config.ignore_client_order = true;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)), certificates })
    }

    /// The certificate in use.
    pub(crate) fn certificates(&self) -> Arc<CertificateSource> {
        Arc::clone(&self.certificates)
    }

    /// Completes the handshake on a new connection.
    pub(crate) async fn accept<T>(&self, stream: T) -> io::Result<TlsStream<T>>
    where
        T: AsyncRead + AsyncWrite + Unpin,
    {
        self.acceptor.accept(stream).await
    }
}

impl CertificateSource {
    /// Reads the files again. A pair that differs is checked as a whole (both files are readable,
    /// the key belongs to the certificate, the certificate is valid now) before it replaces the one
    /// in use. Blocks for at most ten seconds.
    pub fn renew(&self, now: Timestamp) -> io::Result<CertificateRenewal> {
        let bytes = self.reader.read()?;
        let digest = bytes.digest();
        if self.current.read().digest == digest {
            return Ok(CertificateRenewal::Unchanged);
        }
        let loaded = LoadedCertificate::parse(&self.reader.files, &bytes, &self.provider)?;
        if !loaded.validity.holds_at(now) {
            let CertificateValidity { begins, ends } = loaded.validity;
            let problem = format!("it is valid only from {begins} to {ends}");
            return Err(unusable(&self.reader.files.certificate_file, problem));
        }
        *self.current.write() = loaded;
        Ok(CertificateRenewal::Renewed)
    }

    /// The validity of the certificate in use.
    pub fn validity(&self) -> CertificateValidity {
        self.current.read().validity
    }
}

impl ResolvesServerCert for CertificateSource {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.current.read().key))
    }
}

impl LoadedCertificate {
    fn parse(files: &TlsFiles, bytes: &PairBytes, provider: &CryptoProvider) -> io::Result<Self> {
        let in_certificate = |error: String| unusable(&files.certificate_file, error);
        let chain = CertificateDer::pem_slice_iter(&bytes.certificate)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| in_certificate(error.to_string()))?;
        let validity = chain.first().and_then(|own| CertificateValidity::of(own));
        let validity =
            validity.ok_or_else(|| in_certificate("it has no certificate".to_owned()))?;
        let key = PrivateKeyDer::from_pem_slice(&bytes.key)
            .map_err(|error| unusable(&files.key_file, error))?;
        let key = CertifiedKey::from_der(chain, key, provider)
            .map_err(|error| in_certificate(error.to_string()))?;
        Ok(Self { key: Arc::new(key), validity, digest: bytes.digest() })
    }
}
