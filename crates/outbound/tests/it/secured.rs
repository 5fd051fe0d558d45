//! TLS: whom a connection trusts, what it shows, and what is wrong with files.

use std::path::Path;
use std::sync::Arc;

use outbound::{
    CallErrorKind, CallFault, ClientIdentity, ConnectionPool, ConnectionSettings, UpstreamSettings,
    client_config, client_config_with,
};
use scripted_peer::{TestAuthority, always, ok, secured};

use crate::support::{get, pool, settings, whole};

fn trusting(authority: &TestAuthority) -> ConnectionSettings {
    let file = authority.file.path();
    ConnectionSettings {
        ca_file: Some(file.to_owned()),
        tls: client_config(Some(file)).unwrap(),
        ..settings()
    }
}

fn pool_of(settings: &ConnectionSettings) -> ConnectionPool {
    ConnectionPool::new(settings, &UpstreamSettings::default())
}

#[tokio::test]
async fn a_configured_authority_is_trusted_besides_the_public_ones_and_no_other() {
    let (known, other) = (TestAuthority::new(), TestAuthority::new());
    let platform = secured(known.server("127.0.0.1", |_| {}), always(ok("yes")));
    let url = platform.https_url();

    assert_eq!(whole(&pool_of(&trusting(&known)), get(&url)).await.unwrap(), "yes");

    for pool in [pool_of(&trusting(&other)), pool()] {
        let error = whole(&pool, get(&url)).await.unwrap_err();
        assert_eq!((error.fault, error.kind), (CallFault::Theirs, CallErrorKind::Tls));
        assert!(!error.sent && !error.retryable);
    }
    assert_eq!(platform.seen().len(), 1, "nobody else was told anything");
}

#[tokio::test]
async fn a_certificate_for_another_name_is_not_accepted() {
    let authority = TestAuthority::new();
    let platform = secured(authority.server("other.example", |_| {}), always(ok("yes")));

    let error =
        whole(&pool_of(&trusting(&authority)), get(&platform.https_url())).await.unwrap_err();

    assert_eq!((error.kind, error.sent), (CallErrorKind::Tls, false));
    assert!(platform.seen().is_empty());
}

#[tokio::test]
async fn connections_with_tls_are_kept_like_others() {
    let authority = TestAuthority::new();
    let platform = secured(authority.server("127.0.0.1", |_| {}), always(ok("yes")));
    let (pool, url) = (pool_of(&trusting(&authority)), platform.https_url());

    for _ in 0..3 {
        assert_eq!(whole(&pool, get(&url)).await.unwrap(), "yes");
    }

    assert_eq!(platform.connections(), [0, 0, 0]);
}

#[test]
fn both_protocols_are_offered_and_http_2_first() {
    let config = client_config(None).unwrap();

    assert_eq!(config.alpn_protocols, [b"h2".to_vec(), b"http/1.1".to_vec()]);
}

#[test]
fn connections_serve_each_other_only_under_the_same_files_and_times() {
    let authority = TestAuthority::new();
    let (one, again) = (trusting(&authority), trusting(&authority));

    assert!(one.is_same(&one) && one.is_same(&again), "the same file, read twice");
    assert!(!one.is_same(&settings()));
    assert!(!one.is_same(&trusting(&TestAuthority::new())));
    let mut impatient = one.clone();
    impatient.timeouts.first_byte /= 2;
    assert!(!one.is_same(&impatient));
    let (certificate, key) = authority.client();
    let identity = ClientIdentity {
        certificate_file: certificate.path().to_owned(),
        key_file: key.path().to_owned(),
    };
    let tls = client_config_with(Some(authority.file.path()), Some(&identity)).unwrap();
    let shown = ConnectionSettings { identity: Some(identity), tls, ..one.clone() };
    assert!(!one.is_same(&shown) && shown.is_same(&shown.clone()));
    assert!(Arc::ptr_eq(&pool_of(&shown).settings().tls, &shown.tls));
}

#[test]
fn a_file_that_cannot_be_used_is_a_problem_of_its_key() {
    let authority = TestAuthority::new();
    let (certificate, key) = authority.client();
    let (_, other_key) = authority.client();
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let (empty, broken) = (
        file("empty", ""),
        file("broken", "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n"),
    );
    let no_certificate =
        file("none", "-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----\n");
    let missing = folder.path().join("missing");
    let problem = |ca_file: Option<&Path>, certificate_file: &Path, key_file: &Path| {
        let (certificate_file, key_file) = (certificate_file.to_owned(), key_file.to_owned());
        let identity = ClientIdentity { certificate_file, key_file };
        client_config_with(ca_file, Some(&identity)).unwrap_err()
    };
    let (certificate, key) = (certificate.path(), key.path());

    for (ca_file, says) in [
        (&empty, "holds no certificate"),
        (&broken, "cannot be read as a PEM file of certificates: "),
        (&missing, "cannot be read as a PEM file of certificates: "),
        (&no_certificate, "holds a certificate that is no authority: "),
    ] {
        let (name, message) = problem(Some(ca_file), certificate, key);
        assert!(name == "ca_file" && message.starts_with(says), "{name}: {message}");
        assert!(client_config(Some(ca_file)).unwrap_err().starts_with(says));
    }
    for (unusable, says) in [
        (&empty, "holds no certificate"),
        (&missing, "cannot be read as a PEM file of certificates: "),
    ] {
        let (name, message) = problem(None, unusable, key);
        assert!(name == "client_certificate_file" && message.starts_with(says), "{message}");
    }
    for (unusable, says) in [
        (empty.as_path(), "cannot be read as a PEM file of a private key: "),
        (missing.as_path(), "cannot be read as a PEM file of a private key: "),
        (other_key.path(), "does not belong to client_certificate_file: "),
    ] {
        let (name, message) = problem(None, certificate, unusable);
        assert!(name == "client_key_file" && message.starts_with(says), "{message}");
    }
}
