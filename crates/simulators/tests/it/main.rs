//! All simulators together: one port serves all of them, and they share one clock.

#![expect(clippy::unwrap_used, reason = "a test should stop at the unexpected")]

mod data;
mod starting;

use std::net::SocketAddr;

use serde_json::Value;
use simulators::{SimulatorClock, SimulatorSettings};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Status and JSON of the response; `null` if it is not JSON.
async fn ask(address: SocketAddr, request: &str, body: &str) -> (u16, Value) {
    ask_with(address, request, "Accept: */*", body).await
}

/// The same with these headers.
async fn ask_with(address: SocketAddr, request: &str, headers: &str, body: &str) -> (u16, Value) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let length = body.len();
    let framing = format!("Host: x\r\nConnection: close\r\nContent-Length: {length}");
    let sent = format!("{request} HTTP/1.1\r\n{framing}\r\n{headers}\r\n\r\n{body}");
    stream.write_all(sent.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    let (first, shown) = text.split_once("\r\n\r\n").unwrap();
    let status = first.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(shown).unwrap_or_default())
}

#[tokio::test]
async fn one_port_serves_every_simulator_and_lists_all_control_requests() {
    let settings = SimulatorSettings {
        clock: SimulatorClock::manual(1_769_904_000_000),
        ..SimulatorSettings::default()
    };
    let running = simulators::start(settings).await.unwrap();
    let address = running.address();

    let (status, index) = ask(address, "GET /control", "").await;
    let controls: Vec<&str> = index["controls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|control| control["path"].as_str().unwrap())
        .collect();

    assert_eq!(status, 200);
    for path in ["/control/reset", "/control/lists", "/control/mail", "/control/processor"] {
        assert!(controls.contains(&path), "{path} is missing: {controls:?}");
    }
    for (path, expected) in [
        ("/platform_alpha/users/me", 401),
        ("/v1/customers", 401),
        ("/processor", 200),
        ("/mail", 200),
        ("/control/nothing", 404),
        ("/nothing", 404),
    ] {
        assert_eq!(ask(address, &format!("GET {path}"), "").await.0, expected, "{path}");
    }
    running.stop().await;
}

#[tokio::test]
async fn platforms_and_processor_share_the_clock() {
    let clock = SimulatorClock::manual(1_769_904_000_000);
    let settings = SimulatorSettings { clock: clock.clone(), ..SimulatorSettings::default() };
    let running = simulators::start(settings).await.unwrap();

    let (_, moved) = ask(running.address(), "POST /control/clock", r#"{"advance_s": 60}"#).await;
    ask(running.address(), "GET /platform_alpha/users/me", "").await;
    let path = "GET /control/requests?platform=platform_alpha";
    let (_, log) = ask(running.address(), path, "").await;

    assert_eq!(moved["now"], moved["processor_now"]);
    assert_eq!(clock.now_ms(), 1_769_904_060_000);
    assert_eq!(log["requests"][0]["at_ms"], 1_769_904_060_000_i64);
    running.stop().await;
}
