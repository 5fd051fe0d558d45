//! Only a platform that proves who it is gets credentials.

use std::io::Write;
use std::time::Duration;

use platform_client::{
    CallErrorKind, CallFault, CallPhase, ClientError, PlatformTarget, ReadLimits,
};
use rcgen::{CertificateParams, KeyPair};
use scripted_peer::{TestAuthority, pem, secured, server};
use tempfile::NamedTempFile;

use crate::support::{
    PlatformStep, ScriptedPlatform, TOKEN, always, get, get_text, ok, settings, target, upstream,
};

fn trusting(base_url: &str, authority: &TestAuthority) -> PlatformTarget {
    let mut settings = settings(base_url);
    settings.ca_file = Some(authority.file.path().to_owned());
    PlatformTarget::new(&settings).unwrap()
}

/// Asserts that the handshake failed and that no request came through.
#[track_caller]
fn assert_nothing_sent(error: &ClientError, wire: &ScriptedPlatform) {
    assert_eq!((error.fault, error.kind), (CallFault::Theirs, CallErrorKind::Tls), "{error:?}");
    assert!(!error.sent && !error.retryable, "{error:?}");
    assert_eq!(wire.seen().len(), 0);
}

#[tokio::test]
async fn a_configured_authority_is_trusted() {
    let authority = TestAuthority::new();
    let wire = secured(authority.server("127.0.0.1", |_| {}), always(ok("fine")));
    let (upstream, target) = (upstream(), trusting(&wire.https_url(), &authority));

    for _ in 0..3 {
        assert_eq!(get_text(&upstream, &target).await, "fine");
    }

    assert_eq!(wire.connections(), [0, 0, 0]);
    assert!(wire.seen()[0].text.contains(TOKEN));
}

#[tokio::test]
async fn an_authority_that_is_not_configured_gets_nothing() {
    let authority = TestAuthority::new();
    let wire = secured(authority.server("127.0.0.1", |_| {}), always(ok("fine")));

    let with_public_roots = target(&wire.https_url());
    let with_another = trusting(&wire.https_url(), &TestAuthority::new());

    for target in [with_public_roots, with_another] {
        assert_nothing_sent(&get(&upstream(), &target).await.unwrap_err(), &wire);
    }
}

#[tokio::test]
async fn a_certificate_of_its_own_making_gets_nothing() {
    let key = KeyPair::generate().unwrap();
    let certificate =
        CertificateParams::new(["127.0.0.1".to_owned()]).unwrap().self_signed(&key).unwrap();
    let wire = secured(server(certificate.der().clone(), &key), always(ok("fine")));

    let target = trusting(&wire.https_url(), &TestAuthority::new());

    assert_nothing_sent(&get(&upstream(), &target).await.unwrap_err(), &wire);
}

#[tokio::test]
async fn a_certificate_for_another_host_gets_nothing() {
    let authority = TestAuthority::new();
    for host in ["platform.example", "127.0.0.2", "localhost"] {
        let wire = secured(authority.server(host, |_| {}), always(ok("fine")));

        let target = trusting(&wire.https_url(), &authority);

        assert_nothing_sent(&get(&upstream(), &target).await.unwrap_err(), &wire);
    }
}

#[tokio::test]
async fn a_certificate_out_of_its_time_gets_nothing() {
    let authority = TestAuthority::new();
    for (from, to) in [(2019, 2020), (3019, 3020)] {
        let config = authority.server("127.0.0.1", |params| {
            params.not_before = rcgen::date_time_ymd(from, 1, 1);
            params.not_after = rcgen::date_time_ymd(to, 1, 1);
        });
        let wire = secured(config, always(ok("fine")));

        let target = trusting(&wire.https_url(), &authority);

        assert_nothing_sent(&get(&upstream(), &target).await.unwrap_err(), &wire);
    }
}

#[tokio::test]
async fn a_platform_without_tls_gets_nothing() {
    let wire = ScriptedPlatform::start([PlatformStep::Write(ok("not TLS")), PlatformStep::Read]);

    let error = get(&upstream(), &target(&wire.https_url())).await.unwrap_err();

    assert_nothing_sent(&error, &wire);
}

#[tokio::test]
async fn a_handshake_without_an_end_is_a_timeout_that_sent_nothing() {
    let wire = ScriptedPlatform::start([PlatformStep::Hang]);
    let mut settings = settings(&wire.https_url());
    settings.timeouts.tls = Duration::from_millis(50);

    let error = get(&upstream(), &PlatformTarget::new(&settings).unwrap()).await.unwrap_err();

    assert_eq!(
        (error.kind, error.sent),
        (CallErrorKind::Timeout(CallPhase::Tls), false),
        "{error:?}"
    );
}

#[tokio::test]
async fn an_answer_cut_without_a_farewell_is_no_clean_end() {
    let authority = TestAuthority::new();
    let script = vec![
        PlatformStep::Read,
        PlatformStep::Write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nabc".to_vec()),
    ];
    let wire = secured(authority.server("127.0.0.1", |_| {}), script);

    let mut answer = get(&upstream(), &trusting(&wire.https_url(), &authority)).await.unwrap();
    let error = answer.body.read_up_to(ReadLimits::bytes(1_000)).await.unwrap_err();

    assert!(matches!(error.kind, CallErrorKind::BadResponse(_)), "{error:?}");
}

#[test]
fn a_file_of_authorities_that_cannot_be_used_is_a_problem_of_its_key() {
    let empty = NamedTempFile::new().unwrap();
    let mut broken = NamedTempFile::new().unwrap();
    broken.write_all(pem(b"no certificate").as_bytes()).unwrap();
    for file in [empty.path(), broken.path(), "/nowhere/at/all.pem".as_ref()] {
        let mut settings = settings("https://platform.example");
        settings.ca_file = Some(file.to_owned());

        let problems = PlatformTarget::new(&settings).unwrap_err();

        let keys: Vec<_> = problems.iter().map(|problem| problem.key.as_str()).collect();
        assert_eq!(keys, ["ca_file"], "{problems:?}");
    }
}
