//! Which connections are used again, and which never are.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::time::Duration;

use domain::method::Method;
use domain::platform::Platform;
use platform_client::{CallErrorKind, PlatformClient, PlatformTarget, UpstreamSettings};

use crate::support::{
    PlatformStep, ScriptedPlatform, always, answer, assert_bad_response, call, get, get_text, ok,
    settings, target, upstream,
};

#[tokio::test]
async fn calls_one_after_the_other_share_a_connection() {
    let wire = ScriptedPlatform::start(always(ok("fine")));
    let (upstream, target) = (upstream(), target(&wire.url()));

    for _ in 0..5 {
        assert_eq!(get_text(&upstream.clone(), &target).await, "fine");
    }

    assert_eq!(wire.connections(), [0; 5]);
}

#[tokio::test]
async fn a_connection_with_bytes_behind_its_answer_is_not_used_again() {
    let poison = [ok("own"), ok("of somebody else")].concat();
    let wire = ScriptedPlatform::start(always(poison));
    let (upstream, target) = (upstream(), target(&wire.url()));

    for _ in 0..20 {
        assert_eq!(get_text(&upstream, &target).await, "own");
    }

    assert_eq!(wire.connections(), (0..20).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_connection_with_a_refused_answer_is_not_used_again() {
    for refused in [
        answer("999 Odd", ""),
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
            .to_vec(),
        [b"HTTP/1.1 103 Early\r\n\r\n".repeat(9), ok("")].concat(),
    ] {
        let wire = ScriptedPlatform::start_each(move |connection| match connection {
            0 => always(refused.clone()),
            _ => always(ok("fine")),
        });
        let (upstream, target) = (upstream(), target(&wire.url()));

        assert_bad_response(&get(&upstream, &target).await.unwrap_err());

        assert_eq!(get_text(&upstream, &target).await, "fine");
        assert_eq!(wire.connections(), [0, 1]);
    }
}

#[tokio::test]
async fn a_connection_whose_body_was_not_read_to_its_end_is_not_used_again() {
    let begun = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc".to_vec();
    let wire = ScriptedPlatform::start_each(move |connection| match connection {
        0 => vec![PlatformStep::Read, PlatformStep::Write(begun.clone()), PlatformStep::Hang],
        _ => always(ok("fine")),
    });
    let (upstream, target) = (upstream(), target(&wire.url()));

    drop(get(&upstream, &target).await.unwrap());

    assert_eq!(get_text(&upstream, &target).await, "fine");
    assert_eq!(wire.connections(), [0, 1]);
}

#[tokio::test]
async fn a_platform_that_closes_is_connected_to_anew() {
    let closing = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\nfine".to_vec();
    let wire = ScriptedPlatform::start([PlatformStep::Read, PlatformStep::Write(closing)]);
    let (upstream, target) = (upstream(), target(&wire.url()));

    for _ in 0..3 {
        assert_eq!(get_text(&upstream, &target).await, "fine");
    }

    assert_eq!(wire.connections(), [0, 1, 2]);
}

#[tokio::test]
async fn a_connection_that_nobody_needs_is_closed_although_no_call_comes_by() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (say, closed) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
        while lines.next().unwrap().unwrap() != "" {}
        stream.write_all(&ok("fine")).unwrap();
        say.send(lines.next().is_none()).unwrap();
    });
    let idle = Duration::from_millis(50);
    let upstream = PlatformClient::new(&UpstreamSettings { idle, ..UpstreamSettings::default() });

    assert_eq!(get_text(&upstream, &target(&url)).await, "fine");

    let was_closed = tokio::time::timeout(Duration::from_secs(20), closed).await;
    assert!(was_closed.unwrap().unwrap());
    drop(upstream);
}

#[tokio::test]
async fn no_more_connections_are_kept_than_may_be() {
    let wire = ScriptedPlatform::start(always(ok("fine")));
    let settings = UpstreamSettings { idle_connections_max: 1, ..UpstreamSettings::default() };
    let (upstream, target) = (PlatformClient::new(&settings), target(&wire.url()));

    for _ in 0..2 {
        let (one, other) = tokio::join!(get_text(&upstream, &target), get_text(&upstream, &target));
        assert_eq!((one.as_str(), other.as_str()), ("fine", "fine"));
    }

    let connections: BTreeSet<_> = wire.connections().into_iter().collect();
    assert_eq!(connections, BTreeSet::from([0, 1, 2]));
}

#[tokio::test]
async fn platforms_do_not_share_connections_even_at_one_address() {
    let wire = ScriptedPlatform::start(always(ok("fine")));
    let upstream = upstream();

    for platform in [Platform::ALPHA, Platform::BETA, Platform::GAMMA, Platform::DELTA] {
        let mut settings = settings(&wire.url());
        settings.platform = platform;
        let target = PlatformTarget::new(&settings).unwrap();
        assert_eq!(get_text(&upstream, &target).await, "fine");
        assert_eq!(get_text(&upstream, &target).await, "fine");
    }

    assert_eq!(wire.connections(), [0, 0, 1, 1, 2, 2, 3, 3]);
}

#[tokio::test]
async fn connections_of_one_target_carry_nothing_of_another_with_other_settings() {
    let wire = ScriptedPlatform::start(always(ok("fine")));
    let upstream = upstream();
    assert_eq!(get_text(&upstream, &target(&wire.url())).await, "fine");
    let mut other = settings(&wire.url());
    other.timeouts.connect *= 2;

    let error = get(&upstream, &PlatformTarget::new(&other).unwrap()).await.unwrap_err();

    assert_eq!((error.kind, error.sent), (CallErrorKind::Build, false));
    assert_eq!(wire.seen().len(), 1);
}

#[tokio::test]
async fn a_write_is_never_sent_twice_whatever_becomes_of_its_connection() {
    let wire = ScriptedPlatform::start([PlatformStep::Read, PlatformStep::Write(ok("fine"))]);
    let (upstream, target) = (upstream(), target(&wire.url()));

    // The platform gives up each connection behind its answer, which the next write finds out late.
    for number in 0..100 {
        let body = format!("write {number}.");
        match call(&upstream, &target, Method::Post, "x", &body).await {
            Ok(mut answer) => while answer.body.next().await.unwrap().is_some() {},
            Err(error) => assert_eq!(error.kind, CallErrorKind::Closed, "{error:?}"),
        }
    }

    let seen = wire.seen();
    for number in 0..100 {
        let body = format!("\r\n\r\nwrite {number}.");
        assert!(seen.iter().filter(|seen| seen.text.ends_with(&body)).count() <= 1);
    }
    assert!(seen.len() >= 50, "{}", seen.len());
}
