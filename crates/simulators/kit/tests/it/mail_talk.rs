//! The mail server's side of a conversation, and the control requests about emails.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use serde_json::{Value, json};
use simulator_kit::mail::{MailPort, MailSink};
use simulator_kit::{RunningService, SimulatorClock, SimulatorEnvironment, SimulatorService};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::stub::to_the_end;

/// A mail server on sockets, with emails in memory.
struct Server {
    running: RunningService,
    address: SocketAddr,
}

impl Server {
    async fn start() -> Self {
        let clock = SimulatorClock::manual(0);
        let environment =
            SimulatorEnvironment { clock: clock.clone(), ..SimulatorEnvironment::default() };
        let sink = Arc::new(MailSink::open(&environment).unwrap());
        let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let port = MailPort::open(any_port).await.unwrap();
        let service = SimulatorService::new(vec![Arc::clone(&sink) as Arc<_>], clock);
        let running = service.listen(any_port).unwrap();
        let address = port.address();
        port.serve(&sink, &running);
        Self { running, address }
    }

    /// Everything that is said to a client that sends all of this and then no more.
    async fn said(&self, sent: &str) -> Vec<String> {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(sent.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut said = String::new();
        stream.read_to_string(&mut said).await.unwrap();
        said.lines().map(str::to_owned).collect()
    }

    async fn json(&self, method: &str, path: &str) -> Value {
        let answer = to_the_end(self.running.address(), method, path, "").await;
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"))
    }

    async fn count(&self) -> usize {
        self.json("GET", "/control/mail").await["mails"].as_array().unwrap().len()
    }
}

const OK: &str = "250 ok";

#[tokio::test]
async fn a_server_says_who_it_is_and_how_large_an_email_may_be() {
    let server = Server::start().await;

    let said = server.said("EHLO me\r\nHELO me\r\nNOOP\r\nquit\r\n").await;

    let expected = [
        "220 sandbox mail server",
        "250-sandbox",
        "250-SIZE 262144",
        "250 8BITMIME",
        "250 sandbox",
        OK,
        "221 bye",
    ];
    assert_eq!(said, expected);
    server.running.stop().await;
}

#[tokio::test]
async fn what_is_no_command_says_what_is_expected() {
    let server = Server::start().await;
    for (sent, expected) in [
        ("MAIL\r\n", "501 send MAIL FROM:<address>"),
        ("MAIL FROM:a@b.example\r\n", "501 send MAIL FROM:<address>"),
        ("MAIL FROM:<a@b.example\r\n", "501 send MAIL FROM:<address>"),
        ("RCPT TO:<a@b.example>\r\n", "503 send MAIL first"),
        ("DATA\r\n", "503 send MAIL and RCPT first"),
        ("STARTTLS\r\n", "502 unknown command"),
        ("AUTH PLAIN x\r\n", "502 unknown command"),
        ("\r\n", "502 unknown command"),
        ("\u{fc}\r\n", "502 unknown command"),
        ("NOOP\n", OK),
        ("rset\r\n", OK),
        ("mail from: <>\r\n", OK),
    ] {
        assert_eq!(server.said(sent).await[1..], [expected], "{sent:?}");
    }
    let twice = server.said("MAIL FROM:<a@b.example>\r\nRCPT TO:nobody\r\n").await;
    assert_eq!(twice[1..], [OK, "501 send RCPT TO:<address>"]);
    server.running.stop().await;
}

#[tokio::test]
async fn an_envelope_is_forgotten_by_a_greeting_a_reset_and_another_sender() {
    let server = Server::start().await;
    let begin = "MAIL FROM:<a@b.example>\r\nRCPT TO:<c@d.example>\r\n";
    for between in ["EHLO me\r\n", "HELO me\r\n", "RSET\r\n", "MAIL FROM:<a@b.example>\r\n"] {
        let said = server.said(&format!("{begin}{between}DATA\r\n")).await;

        assert_eq!(said.last().unwrap(), "503 send MAIL and RCPT first", "{between}");
    }
    server.running.stop().await;
}

#[tokio::test]
async fn an_email_has_at_most_a_hundred_recipients_and_goes_to_those() {
    let server = Server::start().await;
    let all: Vec<String> = (0..101).map(|at| format!("RCPT TO:<r{at}@d.example>\r\n")).collect();
    let all = all.concat();

    let said = server
        .said(&format!("MAIL FROM:<a@b.example>\r\n{all}DATA\r\nSubject: x\r\n\r\n.\r\n"))
        .await;

    assert_eq!(
        said[102..],
        ["452 too many recipients", "354 end with a line that is a single dot", "250 taken"]
    );
    let mails = server.json("GET", "/control/mail").await;
    assert_eq!(mails["mails"][0]["to"].as_array().unwrap().len(), 100);
    server.running.stop().await;
}

#[tokio::test]
async fn a_line_that_does_not_end_ends_the_conversation() {
    let server = Server::start().await;
    let begin = "MAIL FROM:<a@b.example>\r\nRCPT TO:<c@d.example>\r\nDATA\r\n";

    let long = server.said(&format!("NOOP {}", "x".repeat(4_091))).await;
    let cut = server.said("NO").await;
    let unfinished = server.said(&format!("{begin}Subject: x\r\n\r\nhello\r\n")).await;

    assert_eq!(long, ["220 sandbox mail server"]);
    assert_eq!(cut, ["220 sandbox mail server"]);
    assert_eq!(unfinished.last().unwrap(), "354 end with a line that is a single dot");
    assert_eq!(server.count().await, 0, "an email without its end was not accepted");
    server.running.stop().await;
}

#[tokio::test]
async fn an_email_of_the_largest_size_is_kept_and_a_larger_one_is_not() {
    let server = Server::start().await;
    let begin = "MAIL FROM:<a@b.example>\r\nRCPT TO:<c@d.example>\r\nDATA\r\n";
    let line = format!("{}\r\n", "x".repeat(1_022));
    let largest = line.repeat(256);
    assert_eq!(largest.len(), 262_144);

    let kept = server.said(&format!("{begin}{largest}.\r\n")).await;
    let larger = server.said(&format!("{begin}{largest}x\r\n.\r\nNOOP\r\n")).await;

    assert_eq!(kept.last().unwrap(), "250 taken");
    assert_eq!(larger[larger.len() - 2..], ["552 the email is too large", OK]);
    assert_eq!(server.count().await, 1);
    server.running.stop().await;
}

#[tokio::test]
async fn several_emails_go_over_one_connection() {
    let server = Server::start().await;
    let one = |to: &str| {
        format!(
            "MAIL FROM:<a@b.example>\r\nRCPT TO:<{to}>\r\nDATA\r\nSubject: {to}\r\n\r\n..\r\n.\r\n"
        )
    };

    server.said(&format!("{}{}", one("c@d.example"), one("e@f.example"))).await;

    let mails = server.json("GET", "/control/mail").await;
    let subjects: Vec<&Value> =
        mails["mails"].as_array().unwrap().iter().map(|mail| &mail["subject"]).collect();
    assert_eq!(subjects, [&json!("c@d.example"), &json!("e@f.example")]);
    assert_eq!(server.json("GET", "/control/mail/2").await["text"], ".\n");
    server.running.stop().await;
}

#[tokio::test]
async fn refusals_have_a_code_of_smtp_and_a_number() {
    let server = Server::start().await;
    for (query, expected) in [
        ("code=399", json!({"error": "code must be 400 to 599", "field": "code"})),
        ("code=600", json!({"error": "code must be 400 to 599", "field": "code"})),
        ("code=70000", json!({"error": "code must be 400 to 599", "field": "code"})),
        ("code=x", json!({"error": "code must be a number", "field": "code"})),
        ("next=-1", json!({"error": "next must be a number", "field": "next"})),
        ("next=0&code=599", json!({"ok": true})),
    ] {
        let said = server.json("POST", &format!("/control/mail/refuse?{query}")).await;

        assert_eq!(said, expected, "{query}");
    }
    server.json("POST", "/control/mail/refuse").await;
    let begin = "MAIL FROM:<a@b.example>\r\nRCPT TO:<c@d.example>\r\nDATA\r\n\r\n.\r\n";
    let said = server.said(begin).await;
    assert_eq!(said.last().unwrap(), "451 refused, as requested at /control/mail/refuse");
    server.running.stop().await;
}

#[tokio::test]
async fn what_is_no_page_of_emails_is_not_found() {
    let server = Server::start().await;
    let begin =
        "MAIL FROM:<a@b.example>\r\nRCPT TO:<c@d.example>\r\nDATA\r\nSubject: x\r\n\r\nhi\r\n.\r\n";
    server.said(begin).await;
    for (method, path, status) in [
        ("GET", "/mail", 200),
        ("GET", "/mail?x", 200),
        ("GET", "/mail/1/", 200),
        ("GET", "/mail/1/raw", 200),
        ("GET", "/mail/1/pdf", 404),
        ("GET", "/mail/0", 404),
        ("GET", "/mail/one", 404),
        ("GET", "/mail/18446744073709551616", 404),
        ("POST", "/mail", 404),
        ("GET", "/control/mail/2", 404),
    ] {
        let answer = to_the_end(server.running.address(), method, path, "").await;

        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{method} {path}: {answer}");
    }
    server.running.stop().await;
}
