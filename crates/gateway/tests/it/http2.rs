//! HTTP/2 from attackers (A25): frames that break the rules, and endless frames. The platform sees
//! only complete requests, charges stay correct, and other callers are served.

use test_service::http2::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM, Ended, HEADERS, Http2, RESET,
    WINDOW_UPDATE, block, frame,
};
use test_service::platform::Script;
use test_service::stage::{CREDITS, Stage, on_stage};

async fn on_alpha(test: impl AsyncFn(Stage) -> Stage) {
    on_stage("platform_alpha", "", |_, _| Script::json(200, "{}"), test).await;
}

async fn connection(stage: &Stage) -> Http2 {
    Http2::open(stage.app.running().address()).await
}

/// The headers of a valid call, with `changes` replacing those of the same name and adding
/// others.
fn headers(stage: &Stage, method: &str, changes: &[(&str, &str)]) -> Vec<u8> {
    let path = stage.path("users/me");
    let key = stage.customer.key.as_str();
    let mut headers = vec![
        (":method", method),
        (":scheme", "http"),
        (":path", path.as_str()),
        (":authority", "gateway"),
        ("x-api-key", key),
    ];
    for (name, value) in changes {
        match headers.iter_mut().find(|(known, _)| known == name) {
            Some(header) => header.1 = value,
            None => headers.push((name, value)),
        }
    }
    block(&headers)
}

/// The frame of a valid read on this stream.
fn get_frame(stage: &Stage, stream: u32) -> Vec<u8> {
    frame(HEADERS, END_STREAM | END_HEADERS, stream, &headers(stage, "GET", &[]))
}

/// Another connection is served while this one is open.
async fn serves_others(stage: &Stage) {
    let reply = stage.get("users/me").await;
    assert_eq!(reply.status, 200, "{}", reply.text());
}

/// Asserts that exactly the calls that the platform answered were charged.
async fn books_are_right(stage: &Stage, granted: i64) {
    let log = stage.log().await;
    let of = |outcome: &str| log.iter().filter(|call| call["outcome"] == outcome).count();
    assert_eq!(of("answered"), stage.platform.calls().len());
    assert_eq!(of("answered") + of("client_gone_before_dispatch"), log.len());
    let answered = i64::try_from(of("answered")).unwrap();
    assert_eq!(stage.balance().await, granted - answered);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_valid_call_over_http2_is_served_and_charged() {
    on_alpha(async |stage| {
        let mut caller = connection(&stage).await;

        caller.send(&get_frame(&stage, 1)).await;

        assert_eq!(caller.ended(1).await, Ended::Answer(200));
        assert_eq!((stage.platform.calls().len(), stage.balance().await), (1, CREDITS - 1));
        stage
    })
    .await;
}

/// Each of these is refused with a status, a reset of its stream, or the end of its connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_malformed_request_over_http2_is_refused() {
    on_alpha(async |stage| {
        let path = stage.path("users/me");
        let absolute = format!("http://evil.example{path}");
        let cases: &[&[(&str, &str)]] = &[
            &[(":path", &path[1..])],
            &[(":path", "")],
            &[(":path", "*")],
            &[(":path", &absolute)],
            &[(":path", "/v1/a b")],
            &[(":path", "/v1/\r\nx: y")],
            &[(":authority", "")],
            &[(":authority", "a b")],
            &[(":authority", "user@gateway")],
            &[(":authority", "gateway/path")],
            &[("host", "other")],
            &[("host", "gateway"), ("x", "y"), (":late", "z")],
            &[(":method", "")],
            &[(":method", "TRACE")],
            &[(":method", "PROPFIND")],
            &[(":status", "200")],
            &[(":unknown", "x")],
            &[("te", "gzip")],
            &[("transfer-encoding", "chunked")],
            &[("connection", "close")],
            &[("keep-alive", "x")],
            &[("upgrade", "h2c")],
            &[("proxy-connection", "close")],
            &[("x", "a\r\nx-api-key: b")],
            &[("x", "a\0b")],
            &[("x", "a\nb")],
            &[("X-Upper", "a")],
            &[("x y", "a")],
            &[("", "a")],
            &[("x_y", "a")],
            &[("content-length", "5")],
            &[("content-length", "-1")],
            &[("content-length", "1, 1")],
            &[("expect", "200-ok")],
        ];
        for changes in cases {
            let mut caller = connection(&stage).await;
            let headers = headers(&stage, "GET", changes);
            caller.send(&frame(HEADERS, END_STREAM | END_HEADERS, 1, &headers)).await;

            let ended = caller.ended(1).await;

            let is_refused = match ended {
                Ended::Answer(status) => (400..500).contains(&status),
                Ended::Reset(_) | Ended::Closed(_) => true,
            };
            assert!(is_refused, "{changes:?}: {ended:?}");
        }
        stage.is_unspent().await;
        stage
    })
    .await;
}

/// A body whose length differs from the announced one is refused, and no credits are held.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_with_a_wrong_content_length_is_refused() {
    on_alpha(async |stage| {
        for (announced, sent) in [("5", 4_usize), ("5", 6), ("0", 1), ("1", 0)] {
            let mut caller = connection(&stage).await;
            let headers = headers(&stage, "POST", &[("content-length", announced)]);
            let mut frames = frame(HEADERS, END_HEADERS, 1, &headers);
            frames.extend(frame(DATA, END_STREAM, 1, &vec![b'x'; sent]));
            caller.send(&frames).await;

            let ended = caller.ended(1).await;

            assert!(!matches!(ended, Ended::Answer(200..400)), "{announced}, {sent}: {ended:?}");
        }
        stage.is_unspent().await;
        stage
    })
    .await;
}

/// Ten thousand requests, each cancelled immediately ("rapid reset"): the connection is closed long
/// before the last.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rapid_resets_end_the_connection_and_affect_no_one_else() {
    on_alpha(async |stage| {
        stage.grant(20_000).await;
        let mut caller = connection(&stage).await;
        for batch in 0..100_u32 {
            let mut frames = Vec::new();
            for number in 0..100 {
                let stream = (batch * 100 + number) * 2 + 1;
                frames.extend(get_frame(&stage, stream));
                frames.extend(frame(RESET, 0, stream, &8_u32.to_be_bytes()));
            }
            if !caller.send(&frames).await {
                break;
            }
        }

        let ended = caller.ended(u32::MAX).await;
        serves_others(&stage).await;

        // The socket's reset may overtake the GOAWAY frame.
        assert!(matches!(ended, Ended::Closed(None | Some(ENHANCE_YOUR_CALM))), "{ended:?}");
        assert!(stage.platform.calls().len() < 2_000, "{}", stage.platform.calls().len());
        books_are_right(&stage, CREDITS + 20_000).await;
        stage
    })
    .await;
}

/// Streams that force the service to reset them ("made you reset") end the connection like
/// cancelled ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forced_stream_resets_end_the_connection_and_affect_no_one_else() {
    on_alpha(async |stage| {
        stage.grant(20_000).await;
        let mut caller = connection(&stage).await;
        for number in 0..2_000_u32 {
            let stream = number * 2 + 1;
            let mut frames = get_frame(&stage, stream);
            // A window above the maximum is a stream error (RFC 9113, section 6.9.1).
            frames.extend(frame(WINDOW_UPDATE, 0, stream, &0x7fff_ffff_u32.to_be_bytes()));
            if !caller.send(&frames).await {
                break;
            }
        }

        let ended = caller.ended(u32::MAX).await;
        serves_others(&stage).await;

        assert!(matches!(ended, Ended::Closed(_)), "{ended:?}");
        assert!(stage.platform.calls().len() < 1_000, "{}", stage.platform.calls().len());
        books_are_right(&stage, CREDITS + 20_000).await;
        stage
    })
    .await;
}

/// An endless head, in large pieces or in empty ones, is not accumulated.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endless_head_closes_the_connection() {
    on_alpha(async |stage| {
        let filler = "x".repeat(16_000);
        let large = block(&[("x-filler", filler.as_str())]);
        for (piece, count) in [(&large[..], 2_000), (&[], 200_000)] {
            let mut caller = connection(&stage).await;
            let begin = frame(HEADERS, END_STREAM, 1, &headers(&stage, "GET", &[]));
            let more = frame(CONTINUATION, 0, 1, piece);
            caller.send(&begin).await;
            let batch = more.repeat((100_000 / more.len()).max(1));
            for _ in 0..count * more.len() / batch.len() {
                if !caller.send(&batch).await {
                    break;
                }
            }

            let ended = caller.ended(1).await;

            assert!(matches!(ended, Ended::Closed(_)), "{} bytes: {ended:?}", piece.len());
        }
        stage.is_unspent().await;
        serves_others(&stage).await;
        stage
    })
    .await;
}
