//! A renewed certificate: used for new connections once the pair is valid, while open connections
//! continue.
#![expect(clippy::unwrap_used, clippy::panic, reason = "this file contains only tests")]

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use node::start::CertificateReload;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use test_service::{Client, TestApp};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// An authority that clients trust.
struct Authority(rcgen::CertifiedIssuer<'static, rcgen::KeyPair>);

/// A certificate and its key, as PEM.
struct Pair {
    certificate: String,
    key: String,
}

impl Authority {
    fn new() -> Self {
        let mut parameters = rcgen::CertificateParams::new(Vec::new()).unwrap();
        parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = rcgen::KeyPair::generate().unwrap();
        Self(rcgen::CertifiedIssuer::self_signed(parameters, key).unwrap())
    }

    /// A certificate for this name, valid until the first day of the year `until`.
    fn issue(&self, name: &str, until: i32) -> Pair {
        let mut parameters = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap();
        parameters.not_before = rcgen::date_time_ymd(2020, 1, 1);
        parameters.not_after = rcgen::date_time_ymd(until, 1, 1);
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = parameters.signed_by(&key, &self.0).unwrap();
        let key = pem("PRIVATE KEY", &key.serialize_der());
        Pair { certificate: pem("CERTIFICATE", certificate.der()), key }
    }

    /// Connects over TLS; fails if the certificate is not for this name.
    async fn connect(
        &self,
        address: SocketAddr,
        name: &str,
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let stream = TcpStream::connect(address).await.unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    }
}

fn pem(kind: &str, der: &[u8]) -> String {
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    format!("-----BEGIN {kind}-----\n{text}\n-----END {kind}-----\n")
}

impl Pair {
    fn put(&self, folder: &Path) {
        std::fs::write(folder.join("own.pem"), &self.certificate).unwrap();
        std::fs::write(folder.join("own.key.pem"), &self.key).unwrap();
    }
}

/// The service with the pair in this folder. It checks the files only when a test asks for it.
async fn start(folder: &Path) -> TestApp {
    let overrides = format!(
        "[http.tls]\ncertificate_file = '{0}/own.pem'\nkey_file = '{0}/own.key.pem'\ncheck_every_s = 0",
        folder.display()
    );
    TestApp::on_sqlite(&overrides).await
}

/// One request on an open connection.
async fn health(stream: &mut TlsStream<TcpStream>) {
    stream.write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut head = [0; 15];
    stream.read_exact(&mut head).await.unwrap();
    assert_eq!(&head, b"HTTP/1.1 200 OK");
}

/// The value of a gauge, as text.
async fn gauge(app: &TestApp, name: &str) -> String {
    let text = Client::new(app.running().admin_address()).get("/metrics").await.text();
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
    line.unwrap_or_else(|| panic!("{name}: {text}")).to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_connections_get_the_renewed_certificate_and_open_ones_continue() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    authority.issue("old.example.com", 2030).put(folder.path());
    let app = start(folder.path()).await;
    let (address, running) = (app.running().address(), app.running());
    let mut open = authority.connect(address, "old.example.com").await.unwrap();
    assert_eq!(running.reload_certificate().await, CertificateReload::Unchanged);
    assert_eq!(gauge(&app, "creator_gateway_tls_certificate_expiry_seconds").await, "1893456000");

    authority.issue("new.example.com", 2031).put(folder.path());
    assert_eq!(running.reload_certificate().await, CertificateReload::Renewed);

    assert!(authority.connect(address, "old.example.com").await.is_err());
    let mut new = authority.connect(address, "new.example.com").await.unwrap();
    health(&mut new).await;
    health(&mut open).await;
    assert_eq!(running.reload_certificate().await, CertificateReload::Unchanged);
    assert_eq!(gauge(&app, "creator_gateway_tls_certificate_expiry_seconds").await, "1924992000");
    app.end().await;
}

/// Half of a pair, nonsense, an expired certificate, a missing file: the last valid pair stays
/// until there is a valid new one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unusable_files_keep_the_last_valid_pair_in_use() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let authority = Authority::new();
    authority.issue("old.example.com", 2030).put(folder);
    let app = start(folder).await;
    let (address, running) = (app.running().address(), app.running());
    let (good, expired) =
        (authority.issue("new.example.com", 2030), authority.issue("x.example.com", 2026));
    let nonsense = "nonsense".to_owned();
    let other_key = rcgen::KeyPair::generate().unwrap().serialize_der();
    let other_key = pem("PRIVATE KEY", &other_key);
    for pair in [
        Pair { certificate: good.certificate.clone(), key: other_key },
        Pair { certificate: nonsense.clone(), key: good.key.clone() },
        Pair { certificate: good.certificate.clone(), key: nonsense },
        Pair { certificate: String::new(), key: String::new() },
        expired,
    ] {
        pair.put(folder);
        assert_eq!(running.reload_certificate().await, CertificateReload::Kept);
        let mut stream = authority.connect(address, "old.example.com").await.unwrap();
        health(&mut stream).await;
    }
    std::fs::remove_file(folder.join("own.key.pem")).unwrap();
    assert_eq!(running.reload_certificate().await, CertificateReload::Kept);
    // A pipe that has no writer, and a file without an end.
    let pipe = folder.join("own.key.pem");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    assert_eq!(running.reload_certificate().await, CertificateReload::Kept);
    std::fs::remove_file(&pipe).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &pipe).unwrap();
    assert_eq!(running.reload_certificate().await, CertificateReload::Kept);
    std::fs::remove_file(&pipe).unwrap();
    assert_eq!(gauge(&app, "creator_gateway_tls_certificate_refused").await, "1");

    good.put(folder);

    assert_eq!(running.reload_certificate().await, CertificateReload::Renewed);
    authority.connect(address, "new.example.com").await.unwrap();
    assert_eq!(gauge(&app, "creator_gateway_tls_certificate_refused").await, "0");
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_tls_there_is_no_certificate_to_reload() {
    let app = TestApp::on_sqlite("").await;

    assert_eq!(app.running().reload_certificate().await, CertificateReload::NoTls);
    app.end().await;
}
