//! TLS: what is shown to clients, and what replaces it.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::Response;
use jiff::Timestamp;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use transport::{
    ArrivedRequest, BoundListener, CertificateRenewal, ListenerSettings, RunningListener, TlsFiles,
};

use crate::support::{Client, settings};

const NOW: &str = "2026-11-21T00:00:00Z";

/// A certificate of its own for `localhost`, and the files that hold it.
struct Pair {
    _folder: tempfile::TempDir,
    files: TlsFiles,
    der: CertificateDer<'static>,
}

/// What a certificate and its key are in PEM.
struct Written {
    certificate: String,
    key: String,
    der: CertificateDer<'static>,
}

fn written(years: std::ops::Range<i32>) -> Written {
    let mut params = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
    params.not_before = rcgen::date_time_ymd(years.start, 1, 1);
    params.not_after = rcgen::date_time_ymd(years.end, 1, 1);
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    Written {
        certificate: pem("CERTIFICATE", certificate.der()),
        key: pem("PRIVATE KEY", &key.serialize_der()),
        der: certificate.der().clone(),
    }
}

fn pem(label: &str, der: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for triple in der.chunks(3) {
        let byte = |place: usize| u32::from(triple.get(place).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let letter = char::from(LETTERS[(bits >> (18 - 6 * place) & 63) as usize]);
            text.push(if place > triple.len() { '=' } else { letter });
        }
    }
    format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n")
}

impl Pair {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let files = TlsFiles {
            certificate_file: folder.path().join("own.pem"),
            key_file: folder.path().join("own.key"),
        };
        let Written { der, .. } = Self::write(&files, written(2020..2090));
        Self { _folder: folder, files, der }
    }

    fn write(files: &TlsFiles, written: Written) -> Written {
        std::fs::write(&files.certificate_file, &written.certificate).unwrap();
        std::fs::write(&files.key_file, &written.key).unwrap();
        written
    }

    fn settings(&self) -> ListenerSettings {
        ListenerSettings { tls: Some(self.files.clone()), ..settings() }
    }
}

fn whether_secured() -> impl transport::RequestHandler {
    |arrived: ArrivedRequest| async move {
        let said = format!("{} {:?}", arrived.peer.tls, arrived.request.version());
        Response::builder().header("x-request-id", "req_1").body(said).unwrap()
    }
}

async fn handshake(
    listener: &RunningListener,
    trusted: &CertificateDer<'static>,
    protocols: &[&[u8]],
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    let tcp = TcpStream::connect(listener.address()).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, tcp).await
}

async fn get(stream: &mut TlsStream<TcpStream>) -> String {
    stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut read = Vec::new();
    while !read.ends_with(b"HTTP/1.1") || !read.windows(4).any(|four| four == b"\r\n\r\n") {
        read.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(read).unwrap()
}

#[tokio::test]
async fn a_client_that_trusts_the_certificate_is_served_and_known_to_be_secured() {
    let pair = Pair::new();
    let bound = BoundListener::bind(&pair.settings()).unwrap();
    assert!(bound.certificates().is_some());
    let listener = bound.run(|_| whether_secured()).unwrap();

    let mut stream = handshake(&listener, &pair.der, &[]).await.unwrap();

    assert!(get(&mut stream).await.ends_with("true HTTP/1.1"));
    listener.stop().await;
}

#[tokio::test]
async fn http_2_is_preferred_and_what_a_client_cannot_speak_is_not_chosen() {
    let pair = Pair::new();
    let listener =
        BoundListener::bind(&pair.settings()).unwrap().run(|_| whether_secured()).unwrap();

    for (offered, chosen) in [
        (&[&b"http/1.1"[..], b"h2"][..], Some(&b"h2"[..])),
        (&[b"http/1.1"], Some(b"http/1.1")),
        (&[], None),
    ] {
        let stream = handshake(&listener, &pair.der, offered).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), chosen);
    }
    assert!(handshake(&listener, &pair.der, &[b"spdy/1"]).await.is_err());
    listener.stop().await;
}

#[tokio::test]
async fn a_client_without_tls_gets_nothing_and_others_are_served_on() {
    let pair = Pair::new();
    let listener =
        BoundListener::bind(&pair.settings()).unwrap().run(|_| whether_secured()).unwrap();
    let mut plain = Client::connect(listener.address()).await;

    plain.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;

    let read = plain.rest().await;
    assert!(!read.starts_with(b"HTTP"), "{read:?}");
    let other = written(2020..2090);
    assert!(handshake(&listener, &other.der, &[]).await.is_err(), "nobody vouches for it");
    let mut stream = handshake(&listener, &pair.der, &[]).await.unwrap();
    assert!(get(&mut stream).await.ends_with("true HTTP/1.1"));
    listener.stop().await;
}

#[tokio::test]
async fn a_handshake_that_does_not_go_on_is_closed_as_idle() {
    let pair = Pair::new();
    let settings = ListenerSettings { head_timeout: Duration::from_millis(20), ..pair.settings() };
    let listener = BoundListener::bind(&settings).unwrap().run(|_| whether_secured()).unwrap();
    let mut silent = Client::connect(listener.address()).await;
    // The beginning of a record.
    silent.0.write_all(&[0x16, 3, 1]).await.unwrap();

    assert!(silent.rest().await.is_empty());

    while listener.limits().counts().open > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(listener.limits().counts().closed_idle, 1);
    listener.stop().await;
}

#[tokio::test]
async fn a_handshake_ends_with_the_listener() {
    let pair = Pair::new();
    let mut listener =
        BoundListener::bind(&pair.settings()).unwrap().run(|_| whether_secured()).unwrap();
    let waiting = Client::connect(listener.address()).await;
    while listener.limits().counts().open == 0 {
        tokio::task::yield_now().await;
    }

    listener.drain().await;

    assert!(waiting.rest().await.is_empty());
    listener.stop().await;
}

#[tokio::test]
async fn a_renewed_certificate_is_shown_to_new_connections_and_old_ones_go_on() {
    let pair = Pair::new();
    let bound = BoundListener::bind(&pair.settings()).unwrap();
    let certificates = bound.certificates().unwrap();
    let listener = bound.run(|_| whether_secured()).unwrap();
    let mut old = handshake(&listener, &pair.der, &[]).await.unwrap();
    let now: Timestamp = NOW.parse().unwrap();
    assert_eq!(certificates.renew(now).unwrap(), CertificateRenewal::Unchanged);

    let renewed = Pair::write(&pair.files, written(2021..2085));

    assert_eq!(certificates.renew(now).unwrap(), CertificateRenewal::Renewed);
    assert_eq!(certificates.renew(now).unwrap(), CertificateRenewal::Unchanged);
    assert_eq!(certificates.validity().ends, "2085-01-01T00:00:00Z".parse().unwrap());
    assert!(handshake(&listener, &pair.der, &[]).await.is_err());
    let mut new = handshake(&listener, &renewed.der, &[]).await.unwrap();
    for stream in [&mut old, &mut new] {
        assert!(get(stream).await.ends_with("true HTTP/1.1"));
    }
    listener.stop().await;
}

#[test]
fn a_pair_that_cannot_be_used_is_refused_and_the_one_in_use_stays() {
    let pair = Pair::new();
    let bound = BoundListener::bind(&pair.settings()).unwrap();
    let certificates = bound.certificates().unwrap();
    let TlsFiles { certificate_file, key_file } = &pair.files;
    let refused = |at: &str| certificates.renew(at.parse().unwrap()).unwrap_err().to_string();
    let says = |problem: &str, file: &Path, what: &str| {
        assert_eq!(problem, format!("{}: {what}", file.display()));
    };

    let of_the_past = Pair::write(&pair.files, written(2020..2026));
    let ended = "it is valid only from 2020-01-01T00:00:00Z to 2026-01-01T00:00:00Z";
    says(&refused(NOW), certificate_file, ended);
    says(&refused("2019-12-31T23:59:59Z"), certificate_file, ended);
    std::fs::write(key_file, written(2020..2090).key).unwrap();
    assert!(refused(NOW).starts_with(&certificate_file.display().to_string()), "another key");
    std::fs::write(key_file, "no key at all").unwrap();
    let no_key = refused(NOW);
    assert!(no_key.starts_with(&key_file.display().to_string()), "{no_key}");
    assert!(!no_key.contains("no key at all"), "nothing of a key file is repeated");
    std::fs::write(key_file, &of_the_past.key).unwrap();
    std::fs::write(certificate_file, "").unwrap();
    says(&refused(NOW), certificate_file, "it has no certificate");
    std::fs::write(certificate_file, "-----BEGIN CERTIFICATE-----\n!\n").unwrap();
    assert!(refused(NOW).starts_with(&certificate_file.display().to_string()));
    std::fs::remove_file(certificate_file).unwrap();
    assert!(refused(NOW).starts_with(&certificate_file.display().to_string()));

    assert_eq!(certificates.validity().ends, "2090-01-01T00:00:00Z".parse().unwrap());
    assert!(format!("{certificates:?}").contains("own.pem"));
}

#[test]
fn a_listener_does_not_start_with_files_that_cannot_be_used_and_names_them() {
    let pair = Pair::new();
    std::fs::remove_file(&pair.files.key_file).unwrap();

    let refused = BoundListener::bind(&pair.settings()).unwrap_err();

    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    assert!(refused.to_string().starts_with(&pair.files.key_file.display().to_string()));
}

/// As private authorities issue them (RFC 5280, 4.1.2.5).
#[tokio::test]
async fn a_certificate_without_an_end_serves() {
    let pair = Pair::new();
    let mut params = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
    params.not_after = rcgen::date_time_ymd(9999, 12, 31);
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let written = Written {
        certificate: pem("CERTIFICATE", certificate.der()),
        key: pem("PRIVATE KEY", &key.serialize_der()),
        der: certificate.der().clone(),
    };
    let written = Pair::write(&pair.files, written);

    let bound = BoundListener::bind(&pair.settings()).unwrap();

    assert_eq!(bound.certificates().unwrap().validity().ends, Timestamp::MAX);
    let listener = bound.run(|_| whether_secured()).unwrap();
    let mut stream = handshake(&listener, &written.der, &[]).await.unwrap();
    assert!(get(&mut stream).await.ends_with("true HTTP/1.1"));
    listener.stop().await;
}
