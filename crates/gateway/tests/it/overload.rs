//! Callers and platforms that exhaust the service (D1–D5, D8, E14, E23): their requests end early,
//! cost only what was delivered, and affect no one else. Timeouts are shortened by configuration,
//! and tests wait for events.

use std::io::Read as _;
use std::net::SocketAddr;
use std::time::Duration;

use test_service::platform::{Script, Seen, answer};
use test_service::raw::RawConnection;
use test_service::stage::{CREDITS, Stage, on_stage};
use test_service::{at_once, memory_peak_kib};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

fn decent(_: &Seen, _: usize) -> Script {
    Script::json(200, "{}")
}

/// A complete read of the platform.
fn get_lines(stage: &Stage) -> String {
    format!("GET {} HTTP/1.1\r\n{}\r\n", stage.path("users/me"), stage.host_and_key())
}

/// Sends `first` and then `drip` repeatedly, until the other side has closed the connection.
/// Returns what was received.
async fn drips_until_closed(address: SocketAddr, first: &str, drip: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(first.as_bytes()).await.unwrap();
    let (mut reader, mut writer) = stream.into_split();
    let mut ticks = tokio::time::interval(Duration::from_millis(5));
    let drips = async {
        while writer.write_all(drip).await.is_ok() {
            ticks.tick().await;
        }
    };
    let mut answer = Vec::new();
    let reading = reader.read_to_end(&mut answer);
    // A connection closed while bytes arrive may end with a reset; what arrived before still
    // counts.
    let (_end, ()) = tokio::join!(reading, drips);
    String::from_utf8(answer).unwrap()
}

/// D1, D2: a connection that sends nothing, or an endless head, is closed after a timeout.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_without_a_complete_head_is_closed_and_free() {
    on_stage("platform_alpha", "", decent, async |mut stage| {
        stage.restart_with(|config| config.http.timeouts.head_ms = 100).await;
        let started = get_lines(&stage);
        let in_headers = started.strip_suffix("\r\n").unwrap();

        let mut silent = stage.raw().await;
        let line = drips_until_closed(stage.app.running().address(), "GET /v1/", b"a").await;
        let headers =
            drips_until_closed(stage.app.running().address(), in_headers, b"a: b\r\n").await;
        assert!(silent.is_closed().await);

        // There is either no response, or one that says that the head is too large.
        for answer in [line, headers] {
            let status = answer.split(' ').nth(1).unwrap_or("none");
            assert!(matches!(status, "none" | "414" | "431"), "{answer}");
        }
        stage.restart_with(|_| ()).await;
        stage.is_unspent().await;
        stage
    })
    .await;
}

/// D3: a dripping body gets 408 after the grace period, on native routes and on our own; no credits
/// were held.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dripping_body_is_408_and_free() {
    on_stage("platform_alpha", "", decent, async |mut stage| {
        stage.restart_with(|config| config.http.timeouts.body_grace_ms = 100).await;
        for path in [stage.path("lists"), "/v1/auth/keys".to_owned()] {
            let head = format!(
                "POST {path} HTTP/1.1\r\n{}Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n",
                stage.host_and_key()
            );

            let answer = drips_until_closed(stage.app.running().address(), &head, b" ").await;

            assert!(answer.starts_with("HTTP/1.1 408 "), "{path}: {answer}");
            assert!(answer.contains("\"code\":\"body_timeout\""), "{answer}");
        }
        stage.is_unspent().await;
        stage
    })
    .await;
}

/// D5: idle connections are closed after a timeout, and those beyond the limit immediately.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_connections_are_limited_in_number_and_time() {
    const HEALTH: &str = "GET /health HTTP/1.1\r\nHost: gateway\r\n\r\n";
    on_stage("platform_alpha", "", decent, async |mut stage| {
        stage.restart_with(|config| config.http.limits.connections_max = 20).await;
        let mut open = Vec::new();
        for number in 0..40 {
            let mut connection = stage.raw().await;
            connection.send(HEALTH).await;
            let status = connection.answer().await.map(|answer| answer.status);
            assert_eq!(status, (number < 20).then_some(200), "connection {number}");
            open.push(connection);
        }
        drop(open);

        stage.restart_with(|config| config.http.timeouts.head_ms = 200).await;
        let address = stage.app.running().address();
        let idle = at_once((0..500).map(move |_| async move {
            let mut connection = RawConnection::open(address).await;
            connection.send(HEALTH).await;
            let status = connection.answer().await.map(|answer| answer.status);
            (status, connection.is_closed().await)
        }))
        .await;

        assert!(idle.iter().all(|idle| *idle == (Some(200), true)), "{idle:?}");
        stage.restart_with(|_| ()).await;
        stage.is_unspent().await;
        stage
    })
    .await;
}

/// D8: ten thousand pipelined requests on one connection are answered in order, within the key's
/// rate limit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pipelined_requests_are_answered_in_order_within_the_rate_limit() {
    const REQUESTS: usize = 10_000;
    let overrides = "[rate_limits]\nper_key_per_second = 1\nper_key_burst = 50";
    on_stage("platform_alpha", overrides, decent, async |stage| {
        let lines = get_lines(&stage);
        let lines = lines.strip_suffix("\r\n").unwrap();
        let request = |number: usize| {
            let last = if number + 1 == REQUESTS { "Connection: close\r\n" } else { "" };
            format!("{lines}X-Request-Id: n{number}\r\n{last}\r\n")
        };
        let all: String = (0..REQUESTS).map(request).collect();
        let stream = TcpStream::connect(stage.app.running().address()).await.unwrap();
        let (mut reader, mut writer) = stream.into_split();

        let mut answers = String::new();
        let (sent, read) =
            tokio::join!(writer.write_all(all.as_bytes()), reader.read_to_string(&mut answers));

        sent.unwrap();
        read.unwrap();
        let answers: Vec<&str> = answers.split("HTTP/1.1 ").skip(1).collect();
        assert_eq!(answers.len(), REQUESTS);
        for (number, answer) in answers.iter().enumerate() {
            let status = if number < 50 { "200" } else { "429" };
            assert!(answer.starts_with(status), "{number}: {answer}");
            assert!(answer.contains(&format!("x-request-id: n{number}\r\n")), "{number}: {answer}");
        }
        assert_eq!((stage.platform.calls().len(), stage.balance().await), (50, CREDITS - 50));
        stage
    })
    .await;
}

/// A gzip stream of one GiB of zeros, made of repeated compressed blocks of one MiB.
fn bomb() -> Vec<u8> {
    let mut encoder = flate2::Compress::new(flate2::Compression::best(), false);
    let nothing = vec![0; 1_048_576];
    let mut block = Vec::with_capacity(65_536);
    let flushed = encoder.compress_vec(&nothing, &mut block, flate2::FlushCompress::Full);
    assert_eq!(flushed.unwrap(), flate2::Status::Ok);
    let mut bomb = b"\x1f\x8b\x08\0\0\0\0\0\0\xff".to_vec();
    for _ in 0..1_024 {
        bomb.extend_from_slice(&block);
    }
    bomb
}

/// E14: a body is decoded up to the limit to remove its envelope; above it, it is passed on
/// unchanged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_compression_bomb_is_passed_on_compressed_without_using_memory() {
    let bomb = bomb();
    // The stream is valid except that its end is missing.
    let decoder = flate2::read::GzDecoder::new(&bomb[..]);
    let sixteen = std::io::copy(&mut decoder.take(16_777_216), &mut std::io::sink());
    assert_eq!((sixteen.unwrap(), bomb.len() < 2_000_000), (16_777_216, true));
    let coded = "content-type: application/json\r\ncontent-encoding: gzip\r\n";
    let bytes = answer(200, coded, &bomb);
    let script = move |_: &_, _| Script::Answer(bytes.clone());
    on_stage("platform_beta", "", script, async |stage| {
        let peak_before = memory_peak_kib();

        let reply = stage.get("account/settings").await;

        assert_eq!((reply.status, reply.header("x-envelope")), (200, "kept"));
        assert!(reply.body == bomb, "the body must arrive unchanged");
        assert_eq!((stage.platform.calls().len(), stage.balance().await), (1, CREDITS - 1));
        let grown = memory_peak_kib() - peak_before;
        assert!(grown < 128 * 1024, "the memory grew by {grown} KiB");
        stage
    })
    .await;
}

/// E23: five hundred calls time out; then the breaker opens for the account, but not for others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_platform_opens_the_breaker_of_its_account_only() {
    let overrides = "[platforms.platform_alpha.timeouts]\nfirst_byte_ms = 2000";
    on_stage(
        "platform_alpha",
        overrides,
        |_, _| Script::silence(),
        async |stage| {
            stage.grant(1_000).await;
            let (client, path) = (stage.client.clone(), stage.path("users/me"));
            let calls = (0..500).map(move |_| {
                let (client, path) = (client.clone(), path.clone());
                async move { client.get(&path).await.failure() }
            });
            let waited = at_once(calls).await;
            let sent = stage.platform.calls().len();

            let refused = stage.get("users/me").await;

            let is_timeout =
                |failure: &&(u16, String)| **failure == (504, "platform_timeout".to_owned());
            let is_open =
                |failure: &(u16, String)| *failure == (503, "platform_unavailable".to_owned());
            let timeouts = waited.iter().filter(is_timeout).count();
            assert!(
                waited.iter().all(|failure| is_timeout(&failure) || is_open(failure)),
                "{waited:?}"
            );
            assert_eq!(timeouts, sent);
            assert!(timeouts >= 7, "{timeouts}");
            assert_eq!(refused.failure(), (503, "platform_unavailable".to_owned()));
            assert_eq!(
                stage.platform.calls().len(),
                sent,
                "an open breaker must not call the platform"
            );
            assert_eq!(stage.balance().await, CREDITS + 1_000);
            let other = stage.app.connect(&stage.customer, "platform_beta").await;
            let reply = stage.client.get(&format!("/v1/{other}/native/account/me")).await;
            assert_eq!(reply.status, 200, "{}", reply.text());
            stage
        },
    )
    .await;
}

/// A platform that starts its responses and never ends them is too slow as well, whether they are
/// short or long.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn responses_that_stall_open_the_breaker() {
    let overrides = "[platforms.platform_alpha.timeouts]\nbetween_bytes_ms = 50";
    for length in [100, 500_000] {
        let mut begun = answer(200, "", vec![b'x'; length]);
        begun.truncate(begun.len() - 10);
        let script = move |_: &_, _| Script::AnswerAndHang(begun.clone());
        on_stage("platform_alpha", overrides, script, async |stage| {
            for _ in 0..7 {
                let reply = stage.client.try_send("GET", &stage.path("users/me"), None).await;
                assert!(
                    !reply.is_ok_and(|reply| reply.status == 200),
                    "the response must not end cleanly"
                );
                stage.app.settled(&stage.client).await;
            }

            let refused = stage.get("users/me").await;

            assert_eq!(refused.failure(), (503, "platform_unavailable".to_owned()), "{length}");
            assert_eq!((stage.platform.calls().len(), stage.balance().await), (7, CREDITS));
            stage
        })
        .await;
    }
}
