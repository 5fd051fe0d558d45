//! Authorities and peers over TLS: trusted by those who know the authority, and by nobody else.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use scripted_peer::{ScriptedPlatform, TestAuthority, always, ok, pem, secured, secured_by};

type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// Asks a peer at `localhost` for its answer, trusting one authority.
fn ask(
    platform: &ScriptedPlatform,
    trusted: &TestAuthority,
    identity: Option<Identity>,
) -> std::io::Result<String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap();
    let verifier = WebPkiServerVerifier::builder_with_provider(roots(trusted), provider).build();
    let builder = builder.with_webpki_verifier(verifier.unwrap());
    let config = match identity {
        None => builder.with_no_client_auth(),
        Some((chain, key)) => builder.with_client_auth_cert(chain, key).unwrap(),
    };
    let name = ServerName::try_from("localhost").unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let tcp = TcpStream::connect(platform.url().strip_prefix("http://").unwrap())?;
    let mut stream = StreamOwned::new(connection, tcp);
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n")?;
    let mut answer = vec![0; ok("yes").len()];
    stream.read_exact(&mut answer)?;
    Ok(String::from_utf8(answer).unwrap())
}

fn roots(trusted: &TestAuthority) -> Arc<RootCertStore> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.certificate()).unwrap();
    Arc::new(roots)
}

#[test]
fn a_peer_is_trusted_by_those_who_know_its_authority_and_by_nobody_else() {
    let (authority, other) = (TestAuthority::new(), TestAuthority::new());
    let platform = secured(authority.server("localhost", |_| {}), always(ok("yes")));

    assert!(ask(&platform, &authority, None).unwrap().ends_with("yes"));
    assert!(ask(&platform, &other, None).is_err());
    assert_eq!(platform.seen().len(), 1);
}

#[test]
fn a_certificate_can_be_changed_before_it_is_signed() {
    let authority = TestAuthority::new();
    let elsewhere = secured(authority.server("other.example", |_| {}), always(ok("yes")));
    let expired = authority.server("localhost", |params| {
        params.not_before = rcgen::date_time_ymd(2000, 1, 1);
        params.not_after = rcgen::date_time_ymd(2001, 1, 1);
    });

    for platform in [elsewhere, secured(expired, always(ok("yes")))] {
        assert!(ask(&platform, &authority, None).is_err());
        assert!(platform.seen().is_empty());
    }
}

#[test]
fn a_peer_that_wants_to_see_who_calls_answers_those_of_its_authority_alone() {
    let (authority, other) = (TestAuthority::new(), TestAuthority::new());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier =
        WebPkiClientVerifier::builder_with_provider(roots(&authority), provider).build().unwrap();
    let platform = secured(secured_by(&authority, "localhost", verifier), always(ok("yes")));
    let identity = |of: &TestAuthority| -> Identity {
        let (certificate, key) = of.client();
        let chain = CertificateDer::pem_file_iter(certificate.path()).unwrap();
        (chain.map(Result::unwrap).collect(), PrivateKeyDer::from_pem_file(key.path()).unwrap())
    };

    assert!(ask(&platform, &authority, Some(identity(&authority))).unwrap().ends_with("yes"));
    assert!(ask(&platform, &authority, Some(identity(&other))).is_err());
    assert!(ask(&platform, &authority, None).is_err());
    assert_eq!(platform.seen().len(), 1);
}

#[test]
fn a_certificate_is_written_as_a_pem_file_that_is_read_back() {
    let authority = TestAuthority::new();

    let text = pem(&authority.certificate());

    assert_eq!(std::fs::read_to_string(authority.file.path()).unwrap(), text);
    assert_eq!(CertificateDer::from_pem_slice(text.as_bytes()).unwrap(), authority.certificate());
}
