//! TLS on the public listener.

use std::net::SocketAddr;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::default_provider;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use transport::{BoundListener, ListenerSettings, TlsFiles};

use super::support::{
    GET_OK, HTTP2_GET_ENDLESS, HTTP2_START, SHORT, closed, connect, final_counts, read_to,
    settings, start,
};

fn tls_files() -> TlsFiles {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/edge");
    TlsFiles {
        certificate_file: folder.join("localhost.pem"),
        key_file: folder.join("localhost.key.pem"),
    }
}

/// A client that trusts only the test's certificate and offers one protocol.
async fn tls_client(address: SocketAddr, protocol: &[u8]) -> impl AsyncRead + AsyncWrite + Unpin {
    tls_client_with(default_provider(), address, protocol).await
}

/// The same with this cryptography.
async fn tls_client_with(
    provider: CryptoProvider,
    address: SocketAddr,
    protocol: &[u8],
) -> TlsStream<TcpStream> {
    use rustls::pki_types::pem::PemObject;
    let mut roots = rustls::RootCertStore::empty();
    let certificate =
        rustls::pki_types::CertificateDer::from_pem_file(tls_files().certificate_file).unwrap();
    roots.add(certificate).unwrap();
    let mut config = rustls::ClientConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.to_vec()];
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let name = "localhost".try_into().unwrap();
    let stream = connector.connect(name, connect(address).await).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(protocol));
    stream
}

#[tokio::test]
async fn http1_and_http2_work_over_tls() {
    let (running, _) = start(&ListenerSettings { tls: Some(tls_files()), ..settings() });

    let mut http1 = tls_client(running.address(), b"http/1.1").await;
    http1.write_all(GET_OK.replace("/ok", "/peer").as_bytes()).await.unwrap();
    let answer = read_to(&mut http1, "}").await;
    let mut http2 = tls_client(running.address(), b"h2").await;
    http2.write_all(&[HTTP2_START, HTTP2_GET_ENDLESS].concat()).await.unwrap();
    read_to(&mut http2, "xxxxxxxx").await;

    assert!(answer.ends_with("Peer { ip: 127.0.0.1, tls: true }"), "{answer}");
    drop((http1, http2));
    running.stop().await;
}

#[tokio::test]
async fn the_strongest_suite_is_taken_whatever_the_client_prefers() {
    let (running, _) = start(&ListenerSettings { tls: Some(tls_files()), ..settings() });
    let mut provider = default_provider();
    provider.cipher_suites.sort_by_key(|suite| format!("{:?}", suite.suite()).contains("AES_256"));

    let client = tls_client_with(provider, running.address(), b"http/1.1").await;

    let chosen = client.get_ref().1.negotiated_cipher_suite().unwrap().suite();
    assert_eq!(chosen, rustls::CipherSuite::TLS13_AES_256_GCM_SHA384);
    drop(client);
    running.stop().await;
}

#[tokio::test]
async fn a_client_that_sends_no_tls_handshake_is_closed() {
    let settings = ListenerSettings { tls: Some(tls_files()), head_timeout: SHORT, ..settings() };
    let (running, _) = start(&settings);

    closed(&mut connect(running.address()).await).await;

    assert_eq!(final_counts(running).await.closed_idle, 1);
}

#[test]
fn an_unusable_certificate_is_named_in_the_error() {
    let files = TlsFiles { certificate_file: "/nowhere.pem".into(), ..tls_files() };

    let error =
        BoundListener::bind(&ListenerSettings { tls: Some(files), ..settings() }).unwrap_err();

    assert!(error.to_string().starts_with("/nowhere.pem: "), "{error}");
}
