//! A process that signs: it is asked over kept connections, and its answers are not trusted.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixListener;

use bytes::Bytes;
use outbound::{CallErrorKind, CallFault, ClientError, SignerAddress, SignerConnections};
use scripted_peer::PlatformStep::{Again, Read, Write};
use scripted_peer::{PlatformStep, ScriptedPlatform, always, answer, ok};

fn address(signer: &ScriptedPlatform) -> SignerAddress {
    SignerAddress::parse(&format!("{}/sign?v=1", signer.url())).unwrap()
}

async fn ask(
    connections: &SignerConnections,
    signer: &SignerAddress,
) -> Result<Bytes, ClientError> {
    connections.ask(signer, Bytes::from_static(b"{\"path\":\"/\"}")).await
}

/// What is said of a signer with this script.
async fn refusal(script: Vec<PlatformStep>) -> CallErrorKind {
    let signer = ScriptedPlatform::start(script);
    let error = ask(&SignerConnections::default(), &address(&signer)).await.unwrap_err();
    assert_eq!((error.fault, error.sent, error.retryable), (CallFault::Ours, false, false));
    error.kind
}

#[tokio::test]
async fn a_signer_is_asked_in_json_on_one_connection_after_another_question() {
    let signer = ScriptedPlatform::start(always(ok("signed")));
    let (connections, to) = (SignerConnections::default(), address(&signer));

    for _ in 0..3 {
        assert_eq!(ask(&connections.clone(), &to).await.unwrap(), "signed");
    }

    assert_eq!(signer.connections(), [0, 0, 0]);
    let seen = signer.seen()[0].text.clone();
    let host = signer.url().replace("http://", "");
    assert!(seen.starts_with("POST /sign?v=1 HTTP/1.1\r\n"), "{seen}");
    for line in [
        &format!("host: {host}\r\n"),
        "content-type: application/json\r\n",
        "accept: application/json\r\n",
        "content-length: 12\r\n",
    ] {
        assert!(seen.contains(line), "{seen}");
    }
    assert!(seen.ends_with("\r\n\r\n{\"path\":\"/\"}"), "{seen}");
}

#[tokio::test]
async fn a_signer_that_closes_after_each_answer_is_connected_to_again() {
    let goodbye =
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 6\r\n\r\nsigned".to_vec();
    for last in [goodbye, ok("signed")] {
        let signer = ScriptedPlatform::start(vec![Read, Write(last)]);
        let (connections, to) = (SignerConnections::default(), address(&signer));

        for _ in 0..4 {
            assert_eq!(ask(&connections, &to).await.unwrap(), "signed");
        }
    }
}

#[tokio::test]
async fn questions_at_the_same_time_are_all_answered() {
    let signer = ScriptedPlatform::start(always(ok("signed")));
    let (connections, to) = (SignerConnections::default(), address(&signer));

    let answers = futures_util::future::join_all((0..20).map(|_| ask(&connections, &to))).await;

    assert!(answers.into_iter().all(|answer| answer.unwrap() == "signed"));
    assert_eq!(signer.seen().len(), 20);
}

#[tokio::test]
async fn an_answer_that_is_no_signature_is_our_fault_and_says_why() {
    let (longest, too_long) = ("a".repeat(65_536), "a".repeat(65_537));
    let cut = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nsig".to_vec();
    let another_status = "the signer responded with another status than 200";
    let unusable = "the signer's response is longer than 65,536 bytes or was cut short";

    for status in ["500 Internal Server Error", "201 Created", "302 Found"] {
        let kind = refusal(always(answer(status, "signed"))).await;
        assert_eq!(kind, CallErrorKind::Signing(another_status), "{status}");
    }
    for script in [always(ok(&too_long)), vec![Read, Write(cut)]] {
        assert_eq!(refusal(script).await, CallErrorKind::Signing(unusable));
    }
    for script in [vec![Read], vec![], vec![Read, Write(b"nonsense\r\n\r\n".to_vec()), Again]] {
        let closed = CallErrorKind::Signing("the signer closed the connection");
        assert_eq!(refusal(script).await, closed);
    }
    let signer = ScriptedPlatform::start(always(ok(&longest)));
    let signature = ask(&SignerConnections::default(), &address(&signer)).await.unwrap();
    assert_eq!(signature.len(), 65_536);
}

#[tokio::test]
async fn a_refusal_leaves_the_connection_for_the_next_question() {
    let refused = vec![Read, Write(answer("503 Busy", "")), Read, Write(ok("signed"))];
    let signer = ScriptedPlatform::start(refused);
    let (connections, to) = (SignerConnections::default(), address(&signer));

    assert!(ask(&connections, &to).await.is_err());
    assert_eq!(ask(&connections, &to).await.unwrap(), "signed");

    assert_eq!(signer.connections(), [0, 0]);
}

#[tokio::test]
async fn a_signer_that_is_not_there_cannot_be_reached() {
    let folder = tempfile::tempdir().unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let tcp = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let unix = format!("unix:{}", folder.path().join("none.sock").display());

    for url in [tcp, unix] {
        let signer = SignerAddress::parse(&url).unwrap();
        let error = ask(&SignerConnections::default(), &signer).await.unwrap_err();
        assert_eq!(error.kind, CallErrorKind::Signing("the signer cannot be reached"));
        assert!(std::error::Error::source(&error).is_some(), "logs say more");
    }
}

#[tokio::test]
async fn a_signer_may_listen_on_a_socket_in_the_file_system() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("signer.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut read = Vec::new();
        while !read.ends_with(b"}") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            read.push(byte[0]);
        }
        stream.write_all(&ok("signed")).unwrap();
        String::from_utf8(read).unwrap()
    });
    let signer = SignerAddress::parse(&format!("unix:{}", path.display())).unwrap();
    assert_eq!(signer, SignerAddress::Unix(path));

    let connections = SignerConnections::default();
    assert_eq!(ask(&connections, &signer).await.unwrap(), "signed");

    let seen = thread.join().unwrap();
    assert!(seen.starts_with("POST / HTTP/1.1\r\nhost: localhost\r\n"), "{seen}");
    assert_eq!(format!("{connections:?}"), "SignerConnections");
}

#[test]
fn an_address_of_this_machine_is_taken_apart() {
    let tcp = |host: &str, port, path: &str| {
        Some(SignerAddress::Tcp { host: host.to_owned(), port, path: path.to_owned() })
    };
    for (url, signer) in [
        ("http://127.0.0.1:9000/sign?v=1", tcp("127.0.0.1", 9_000, "/sign?v=1")),
        ("http://[::1]:9000", tcp("::1", 9_000, "/")),
        ("http://localhost:1", tcp("localhost", 1, "/")),
        ("http://127.0.0.2:9000", None),
        ("http://localhost.example:9000", None),
        ("http://127.0.0.1:9000/#f", None),
        ("http://127.0.0.1:70000/", None),
        ("unix:", None),
        ("unix://run/s.sock", Some(SignerAddress::Unix("//run/s.sock".into()))),
        ("file:///run/s.sock", None),
    ] {
        assert_eq!(SignerAddress::parse(url), signer, "{url}");
    }
}
