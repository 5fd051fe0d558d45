//! Requests and responses on plain connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body::Body as _;
use tokio::sync::mpsc;
use transport::{ArrivedRequest, BoundListener, ConnectionPeer, ExplainingHandler};

use crate::support::{Client, SentBody, echo, run, settings};

#[tokio::test]
async fn requests_on_one_connection_are_answered_in_their_order() {
    let listener = run(&settings(), echo());
    let mut client = Client::connect(listener.address()).await;

    assert!(client.get("/first").await.ends_with("/first"));
    client
        .send("GET /second HTTP/1.1\r\nhost: x\r\n\r\nGET /third HTTP/1.1\r\nhost: x\r\n\r\n")
        .await;
    let (second, third) = (client.response().await, client.response().await);

    assert!(second.starts_with("HTTP/1.1 200 OK\r\n") && second.ends_with("/second"), "{second}");
    assert!(third.ends_with("/third"), "{third}");
    let counts = listener.limits().counts();
    assert_eq!((counts.open, counts.accepted), (1, 1));
    listener.stop().await;
}

#[tokio::test]
async fn a_request_that_comes_byte_by_byte_is_one_request() {
    let listener = run(&settings(), echo());
    let mut client = Client::connect(listener.address()).await;

    for byte in "GET /slow HTTP/1.1\r\nhost: x\r\n\r\n".chars() {
        client.send(&byte.to_string()).await;
    }

    assert!(client.response().await.ends_with("/slow"));
    listener.stop().await;
}

#[tokio::test]
async fn a_handler_learns_who_sends_and_gets_the_body_as_it_comes() {
    let (seen, mut parts) = mpsc::unbounded_channel();
    let listener = run(&settings(), move |arrived: ArrivedRequest| {
        let seen = seen.clone();
        async move {
            let mut body = arrived.request.into_body();
            let mut bytes = Vec::new();
            while let Some(frame) =
                std::future::poll_fn(|context| std::pin::Pin::new(&mut body).poll_frame(context))
                    .await
            {
                if let Ok(data) = frame.unwrap().into_data() {
                    bytes.extend_from_slice(&data);
                    seen.send((arrived.peer, bytes.clone())).unwrap();
                }
            }
            Response::new(String::from_utf8(bytes).unwrap())
        }
    });
    let mut client = Client::connect(listener.address()).await;

    client
        .send("POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n")
        .await;
    let first = parts.recv().await.unwrap();
    client.send("1\r\nc\r\n0\r\n\r\n").await;
    let second = parts.recv().await.unwrap();

    let peer = ConnectionPeer { ip: "127.0.0.1".parse().unwrap(), tls: false };
    assert_eq!((first, second), ((peer, b"ab".to_vec()), (peer, b"abc".to_vec())));
    assert!(client.response().await.ends_with("abc"));
    // Otherwise the listener waits a moment for the rest of its body.
    drop(client);
    listener.stop().await;
}

#[tokio::test]
async fn a_response_that_fails_halfway_never_looks_complete() {
    let (sender, body) = SentBody::new();
    let body = Arc::new(std::sync::Mutex::new(Some(body)));
    let listener = run(&settings(), move |_: ArrivedRequest| {
        let body = body.lock().unwrap().take().unwrap();
        async move { Response::new(body) }
    });
    let mut client = Client::connect(listener.address()).await;
    client.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;

    sender.send(Ok(Bytes::from_static(b"half"))).unwrap();
    let head = client.until(b"half\r\n").await;
    sender.send(Err("the rest is lost".into())).unwrap();

    assert!(head.contains("transfer-encoding: chunked"), "{head}");
    assert_eq!(String::from_utf8(client.rest().await), Ok(String::new()), "no last chunk");
    listener.stop().await;
}

#[tokio::test]
async fn a_handler_is_dropped_when_its_caller_is_gone() {
    let (entered, mut has_entered) = mpsc::unbounded_channel();
    let listener = run(&settings(), move |_: ArrivedRequest| {
        // Dropped with the handler's work, which the receiver sees.
        let (alive, gone) = mpsc::unbounded_channel::<()>();
        entered.send(gone).unwrap();
        async move {
            let _alive = alive;
            std::future::pending::<Response<String>>().await
        }
    });
    let mut client = Client::connect(listener.address()).await;
    client.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    let mut gone = has_entered.recv().await.unwrap();

    drop(client);

    assert_eq!(gone.recv().await, None);
    listener.stop().await;
}

#[tokio::test]
async fn a_head_that_cannot_be_read_is_explained_and_its_connection_closed() {
    let explaining = ExplainingHandler {
        serve: |_: ArrivedRequest| async { Response::new(String::from("never")) },
        explain: |peer: ConnectionPeer, status: StatusCode| {
            let body = format!("{status} for {}", peer.ip);
            let head = format!("content-length: {}\r\nconnection: close\r\n\r\n", body.len());
            Some(Bytes::from(head + &body))
        },
    };
    let listener = run(&settings(), explaining);
    let too_large = format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "a".repeat(40_000));

    for (request, body) in [
        ("GET /a b HTTP/1.1\r\n\r\n", "400 Bad Request for 127.0.0.1"),
        ("\u{e9}\r\n\r\n", "400 Bad Request for 127.0.0.1"),
        ("GET / HTTP/1.1\r\nbad header\r\n\r\n", "400 Bad Request for 127.0.0.1"),
        (&too_large, "431 Request Header Fields Too Large for 127.0.0.1"),
    ] {
        let mut client = Client::connect(listener.address()).await;
        client.send(request).await;
        let response = client.response().await;
        assert!(response.ends_with(body), "{response}");
        assert_eq!(response.matches("content-length").count(), 1, "{response}");
        assert!(client.rest().await.is_empty());
    }
    listener.stop().await;
}

#[tokio::test]
async fn a_head_that_cannot_be_read_is_refused_in_any_case() {
    let listener = run(&settings(), echo());
    let mut client = Client::connect(listener.address()).await;

    client.send("GET /a b HTTP/1.1\r\n\r\n").await;

    let refusal = client.response().await;
    assert!(refusal.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{refusal}");
    assert!(client.rest().await.is_empty());
    listener.stop().await;
}

#[tokio::test]
async fn a_second_head_that_cannot_be_read_ends_the_connection_after_the_first_response() {
    let listener = run(&settings(), echo());
    let mut client = Client::connect(listener.address()).await;

    assert!(client.get("/good").await.ends_with("/good"));
    client.send("nonsense\r\n\r\n").await;

    let refusal = client.response().await;
    assert!(refusal.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{refusal}");
    assert!(client.rest().await.is_empty());
    listener.stop().await;
}

#[tokio::test]
async fn a_client_that_still_sends_gets_the_response_that_ended_its_request() {
    let listener = run(&settings(), |_: ArrivedRequest| async {
        let refused = Response::builder().status(413).header("connection", "close");
        refused.body(String::from("too large")).unwrap()
    });
    let mut client = Client::connect(listener.address()).await;
    client.send("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n\r\n").await;

    // More than fits between the two, so that it is sent while the connection closes.
    let part = "a".repeat(10_000);
    for _ in 0..100 {
        client.send(&part).await;
    }

    let response = client.response().await;
    assert!(response.starts_with("HTTP/1.1 413") && response.ends_with("too large"), "{response}");
    drop(client);
    listener.stop().await;
}

#[tokio::test]
async fn each_core_makes_its_handler_once_and_every_connection_is_served() {
    let cores = Arc::new(std::sync::Mutex::new(Vec::new()));
    let (made, served) = (Arc::clone(&cores), Arc::new(AtomicUsize::new(0)));
    let counting = Arc::clone(&served);
    let bound =
        BoundListener::bind(&transport::ListenerSettings { cores: 3, ..settings() }).unwrap();
    let address = bound.address();
    let listener = bound
        .run(move |core| {
            made.lock().unwrap().push(core);
            let own = Arc::clone(&counting);
            move |_: ArrivedRequest| {
                own.fetch_add(1, Ordering::SeqCst);
                async move { Response::new(core.to_string()) }
            }
        })
        .unwrap();
    assert_eq!(listener.address(), address);

    let mut clients = Vec::new();
    let mut by_core = [0; 3];
    for _ in 0..30 {
        let mut client = Client::connect(address).await;
        let core: usize = client.get("/").await.split("\r\n\r\n").nth(1).unwrap().parse().unwrap();
        by_core[core] += 1;
        clients.push(client);
    }

    assert_eq!(by_core, [10, 10, 10], "open connections are spread evenly");
    assert_eq!(served.load(Ordering::SeqCst), 30);
    listener.stop().await;
    let mut cores = cores.lock().unwrap().clone();
    cores.sort_unstable();
    assert_eq!(cores, [0, 1, 2]);
}
