//! Certificates for tests, and peers that speak TLS.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;

use base64::Engine as _;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use tempfile::NamedTempFile;

use crate::{PlatformStep, ScriptedPlatform};

/// An authority of the tests.
pub struct TestAuthority {
    issuer: Issuer<'static, KeyPair>,
    /// Its certificate as a PEM file.
    pub file: NamedTempFile,
}

impl TestAuthority {
    /// With a key of its own.
    pub fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let mut file = NamedTempFile::new().unwrap();
        file.write_all(pem(certificate.der()).as_bytes()).unwrap();
        Self { issuer: Issuer::new(params, key), file }
    }

    /// Its certificate.
    pub fn certificate(&self) -> CertificateDer<'static> {
        CertificateDer::from_pem_file(self.file.path()).unwrap()
    }

    /// The files of a certificate for a client, and of its key.
    pub fn client(&self) -> (NamedTempFile, NamedTempFile) {
        let params = CertificateParams::new(vec!["client".to_owned()]).unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let file = |text: &str| {
            let mut file = NamedTempFile::new().unwrap();
            file.write_all(text.as_bytes()).unwrap();
            file
        };
        let key = pem(&key.serialize_der()).replace("CERTIFICATE", "PRIVATE KEY");
        (file(&pem(certificate.der())), file(&key))
    }

    /// What a server for this host presents.
    pub fn server(&self, host: &str, change: impl FnOnce(&mut CertificateParams)) -> ServerConfig {
        let mut params = CertificateParams::new([host.to_owned()]).unwrap();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        server(certificate.der().clone(), &key)
    }
}

/// What a server with this certificate presents.
pub fn server(certificate: CertificateDer<'static>, key: &KeyPair) -> ServerConfig {
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap()
}

/// A certificate in PEM.
pub fn pem(der: &[u8]) -> String {
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n")
}

/// What a server for this host presents that wants to see who calls.
pub fn secured_by(
    authority: &TestAuthority,
    host: &str,
    verifier: Arc<dyn ClientCertVerifier>,
) -> ServerConfig {
    let params = CertificateParams::new([host.to_owned()]).unwrap();
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, &authority.issuer).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap()
}

/// A platform over TLS.
pub fn secured(config: ServerConfig, script: Vec<PlatformStep>) -> ScriptedPlatform {
    let config = Arc::new(config);
    ScriptedPlatform::start_over(
        move |_| script.clone(),
        Box::new(move |tcp: TcpStream| {
            let mut stream =
                StreamOwned::new(ServerConnection::new(Arc::clone(&config)).unwrap(), tcp);
            stream.conn.complete_io(&mut stream.sock).ok()?;
            Some(Box::new(stream))
        }),
    )
}
