//! The simulators' own ports: closed and opened as the faults require, while all else goes on.

use std::io::ErrorKind;

use serde_json::json;
use simulator_kit::RunningService;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::stub::{BODY, StubService, to_the_end};

const PATH: &str = "/platform_alpha/items/1";

async fn control(running: &RunningService, method: &str, path: &str, body: &str) -> String {
    let answer = to_the_end(running.address(), method, path, body).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    answer
}

#[tokio::test]
async fn every_simulator_has_a_port_of_its_own_beside_the_common_one() {
    let running = StubService::new().listen();
    let alpha = running.port_address("platform_alpha").unwrap();
    let beta = running.port_address("platform_beta").unwrap();

    assert!(alpha != beta && alpha != running.address() && beta != running.address());
    assert_eq!(running.port_address("platform_gamma"), None);
    for address in [alpha, beta, running.address()] {
        let answer = to_the_end(address, "GET", PATH, "").await;
        assert!(answer.ends_with(BODY), "{answer}");
    }
    let shown = format!("{running:?}");
    assert!(shown.starts_with("RunningService { address: 127.0.0.1:"), "{shown}");
    running.stop().await;
}

#[tokio::test]
async fn a_refused_platform_refuses_connections_to_its_port_until_the_fault_is_removed() {
    let running = StubService::new().listen();
    let alpha = running.port_address("platform_alpha").unwrap();
    let beta = running.port_address("platform_beta").unwrap();
    let mut open = TcpStream::connect(alpha).await.unwrap();
    open.write_all(format!("GET {PATH} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).await.unwrap();
    let mut first = [0; 15];
    open.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 200 OK");

    let fault = json!({"kind": "refused", "platform": "platform_alpha"}).to_string();
    control(&running, "POST", "/control/faults", &fault).await;

    // In force when the request is answered: no waiting.
    assert_eq!(TcpStream::connect(alpha).await.unwrap_err().kind(), ErrorKind::ConnectionRefused);
    drop(open.read_to_end(&mut Vec::new()).await);
    assert!(to_the_end(beta, "GET", "/platform_beta/items/1", "").await.ends_with(BODY));
    assert_eq!(
        to_the_end(running.address(), "GET", PATH, "").await,
        "",
        "its requests are closed on"
    );

    control(&running, "DELETE", "/control/faults", "").await;

    assert!(to_the_end(alpha, "GET", PATH, "").await.ends_with(BODY), "it is the same port");
    running.stop().await;
}

#[tokio::test]
async fn without_a_platform_every_port_refuses_and_the_common_one_does_not() {
    let running = StubService::new().listen();
    let ports = ["platform_alpha", "platform_beta"].map(|name| running.port_address(name).unwrap());

    control(&running, "POST", "/control/faults", r#"{"kind":"refused"}"#).await;

    for port in ports {
        assert_eq!(
            TcpStream::connect(port).await.unwrap_err().kind(),
            ErrorKind::ConnectionRefused
        );
    }
    control(&running, "POST", "/control/reset", "").await;
    for port in ports {
        assert!(to_the_end(port, "GET", PATH, "").await.ends_with(BODY));
    }
    running.stop().await;
}

#[tokio::test]
async fn a_service_stops_while_a_port_is_closed() {
    let running = StubService::new().listen();
    control(&running, "POST", "/control/faults", r#"{"kind":"refused"}"#).await;

    running.stop().await;
}

#[tokio::test]
async fn after_a_stop_nothing_is_accepted() {
    let running = StubService::new().listen();
    let addresses = [running.address(), running.port_address("platform_alpha").unwrap()];

    running.stop().await;

    for address in addresses {
        let refused = TcpStream::connect(address).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    }
}

#[tokio::test]
async fn background_work_ends_before_a_stop_is_complete() {
    let running = StubService::new().listen();
    let (ended, has_ended) = tokio::sync::oneshot::channel();
    running.spawn(|stop| async move {
        stop.cancelled().await;
        ended.send(()).unwrap();
    });

    running.stop().await;

    assert_eq!(has_ended.await, Ok(()));
}

#[tokio::test]
async fn paths_reach_a_simulator_byte_by_byte() {
    let running = StubService::new().listen();
    for path in ["/platform_alpha/a%2Fb//c/../d", "/platform_alpha/%zz", "/platform_alpha/x?%"] {
        let answer = to_the_end(running.address(), "GET", path, "").await;

        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{path}: {answer}");
    }
    running.stop().await;
}
