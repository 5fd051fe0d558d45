//! The mail server: accepts emails, refuses those it is told to, keeps them, and shows them.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use simulator_kit::mail::{MailPort, MailSink};
use simulator_kit::{RunningService, SimulatorClock, SimulatorEnvironment, SimulatorService};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

const MAIL: &str = "From: Gateway <a@b.example>\r\nTo: ada@example.com\r\nSubject: <b>Hello</b>\r\n\r\n\
    Open http://127.0.0.1:1/x?token=a\r\n..dot\r\nhttp://127.0.0.1:1\r\n.\r\n";

/// A mail server on sockets.
struct Sink {
    running: RunningService,
    mail_address: SocketAddr,
}

impl Sink {
    async fn start(folder: Option<&Path>) -> Self {
        let (data, clock) = (folder.map(Into::into), SimulatorClock::manual(1_800_000_000_000));
        let environment =
            SimulatorEnvironment { data, clock: clock.clone(), ..SimulatorEnvironment::default() };
        let sink = Arc::new(MailSink::open(&environment).unwrap());
        let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let port = MailPort::open(any_port).await.unwrap();
        let service = SimulatorService::new(vec![Arc::clone(&sink) as Arc<_>], clock);
        let running = service.listen(any_port).unwrap();
        let mail_address = port.address();
        port.serve(&sink, &running);
        Self { running, mail_address }
    }

    async fn stop(self) {
        self.running.stop().await;
    }
}

/// Sends line after line, and returns the codes of the replies.
async fn say(sink: &Sink, lines: &[&str]) -> Vec<u16> {
    let mut stream = BufReader::new(TcpStream::connect(sink.mail_address).await.unwrap());
    let mut codes = vec![code(&mut stream).await];
    for line in lines {
        stream.write_all(line.as_bytes()).await.unwrap();
        if !line.ends_with('\n') {
            stream.write_all(b"\r\n").await.unwrap();
        }
        codes.push(code(&mut stream).await);
    }
    codes
}

async fn code(stream: &mut BufReader<TcpStream>) -> u16 {
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.unwrap();
        if line.as_bytes()[3] == b' ' {
            return line[..3].parse().unwrap();
        }
    }
}

async fn hand_over(sink: &Sink, to: &str) -> u16 {
    let to = format!("RCPT TO:<{to}>");
    let lines = ["EHLO me", "MAIL FROM:<a@b.example> SIZE=9", &to, "DATA", MAIL, "QUIT"];
    let codes = say(sink, &lines).await;
    assert_eq!((codes[0], codes[4], codes[6]), (220, 354, 221), "{codes:?}");
    codes[5]
}

/// A request to the common port: (status and head, body).
async fn ask(sink: &Sink, request: &str) -> (String, String) {
    let mut stream = TcpStream::connect(sink.running.address()).await.unwrap();
    let text =
        format!("{request} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_ascii_lowercase(), body.to_owned())
}

async fn json(sink: &Sink, request: &str) -> Value {
    let (head, body) = ask(sink, request).await;
    serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {head} {body}"))
}

#[tokio::test]
async fn an_email_is_accepted_and_shown_with_its_text_and_links() {
    let sink = Sink::start(None).await;

    assert_eq!(hand_over(&sink, "ada@example.com").await, 250);
    assert_eq!(hand_over(&sink, "bob@example.com").await, 250);

    let mails = json(&sink, "GET /control/mail?to=Bob@example.com").await;
    let list = mails["mails"].as_array().unwrap();
    assert_eq!(
        (list.len(), &list[0]["id"], &list[0]["to"][0]),
        (1, &2.into(), &"bob@example.com".into())
    );
    let mail = json(&sink, "GET /control/mail/1").await;
    assert_eq!(mail["text"], "Open http://127.0.0.1:1/x?token=a\n.dot\nhttp://127.0.0.1:1\n");
    assert_eq!(mail["links"][0], "http://127.0.0.1:1/x?token=a");
    assert_eq!(
        (&mail["from"], &mail["at_ms"]),
        (&"a@b.example".into(), &1_800_000_000_000_i64.into())
    );
    assert!(ask(&sink, "GET /control/mail/3").await.0.starts_with("http/1.1 404"));
    sink.stop().await;
}

#[tokio::test]
async fn an_email_is_shown_in_a_browser_without_running_scripts() {
    let sink = Sink::start(None).await;
    hand_over(&sink, "ada@example.com").await;

    let (_, list) = ask(&sink, "GET /mail").await;
    let (head, page) = ask(&sink, "GET /mail/1").await;
    let (theirs, _) = ask(&sink, "GET /mail/1/html").await;

    assert!(list.contains("&lt;b&gt;Hello&lt;/b&gt;") && !list.contains("<b>"), "{list}");
    for link in ["http://127.0.0.1:1/x?token=a", "http://127.0.0.1:1"] {
        assert!(page.contains(&format!("<a href=\"{link}\">{link}</a>\n")), "{page}");
    }
    assert!(head.contains("content-security-policy: default-src 'none';"), "{head}");
    assert!(theirs.contains("sandbox allow-popups"), "{theirs}");
    assert!(ask(&sink, "GET /mail/2").await.0.starts_with("http/1.1 404"));
    sink.stop().await;
}

#[tokio::test]
async fn emails_survive_a_restart_and_are_removed_by_a_reset() {
    let folder = tempfile::tempdir().unwrap();
    let first = Sink::start(Some(folder.path())).await;
    hand_over(&first, "ada@example.com").await;
    first.stop().await;

    let sink = Sink::start(Some(folder.path())).await;
    assert_eq!(json(&sink, "GET /control/mail").await["mails"].as_array().unwrap().len(), 1);
    json(&sink, "POST /control/reset").await;
    hand_over(&sink, "ada@example.com").await;

    let mails = json(&sink, "GET /control/mail").await;
    let ids: Vec<_> =
        mails["mails"].as_array().unwrap().iter().map(|mail| mail["id"].clone()).collect();
    assert_eq!(ids, [2], "ids are not used twice");
    sink.stop().await;
}

#[tokio::test]
async fn the_next_emails_are_refused_on_request() {
    let sink = Sink::start(None).await;

    json(&sink, "POST /control/mail/refuse?next=2&code=550").await;
    let codes = [
        hand_over(&sink, "ada@example.com").await,
        hand_over(&sink, "ada@example.com").await,
        hand_over(&sink, "ada@example.com").await,
    ];

    assert_eq!(codes, [550, 550, 250]);
    assert_eq!(json(&sink, "POST /control/mail/refuse?code=200").await["field"], "code");
    sink.stop().await;
}

#[tokio::test]
async fn commands_out_of_order_are_refused() {
    let sink = Sink::start(None).await;

    let disorder = ["HELO me", "RCPT TO:<x@y.zz>", "DATA", "MAIL TO:x", "VRFY ada", "NOOP", "RSET"];
    let codes = say(&sink, &disorder).await;

    assert_eq!(codes, [220, 250, 503, 503, 501, 502, 250, 250]);
    let large = format!("{}\r\n", "x".repeat(1_000)).repeat(300) + ".\r\n";
    let lines = ["EHLO me", "MAIL FROM:<>", "RCPT TO:<x@y.zz>", "DATA", &large, "NOOP"];
    assert_eq!(say(&sink, &lines).await[5..], [552, 250]);
    assert_eq!(json(&sink, "GET /control/mail").await["mails"].as_array().unwrap().len(), 0);
    sink.stop().await;
}
