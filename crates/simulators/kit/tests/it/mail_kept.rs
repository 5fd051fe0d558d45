//! Emails that are kept: how many, for whom, and how they are shown to people.

use std::fmt::Write as _;
use std::fs::Permissions;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use simulator_kit::mail::{MailPort, MailSink};
use simulator_kit::{RunningService, SimulatorClock, SimulatorEnvironment, SimulatorService};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use crate::stub::to_the_end;

/// 2027-01-15T08:00:00Z.
const NOW_MS: i64 = 1_800_000_000_000;
const FILE: &str = "mail.jsonl";

fn environment(folder: &Path) -> SimulatorEnvironment {
    let clock = SimulatorClock::manual(NOW_MS);
    SimulatorEnvironment { data: Some(folder.into()), clock, ..SimulatorEnvironment::default() }
}

/// A mail server that keeps its emails in a folder.
struct Server {
    running: RunningService,
    address: SocketAddr,
}

impl Server {
    async fn on(folder: &Path) -> Self {
        let environment = environment(folder);
        let sink = Arc::new(MailSink::open(&environment).unwrap());
        let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let port = MailPort::open(any_port).await.unwrap();
        let service = SimulatorService::new(vec![Arc::clone(&sink) as Arc<_>], environment.clock);
        let running = service.listen(any_port).unwrap();
        let address = port.address();
        port.serve(&sink, &running);
        Self { running, address }
    }

    async fn take(&self, content: &[u8]) {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let begin = b"MAIL FROM:<a@b.example>\r\nRCPT TO:<c@d.example>\r\nDATA\r\n";
        let talk = [begin, content, b"\r\n.\r\nQUIT\r\n"].concat();
        stream.write_all(&talk).await.unwrap();
        let mut said = String::new();
        stream.read_to_string(&mut said).await.unwrap();
        assert!(said.ends_with("250 taken\r\n221 bye\r\n"), "{said}");
    }

    /// The body of a page that is there.
    async fn page(&self, path: &str) -> String {
        let answer = to_the_end(self.running.address(), "GET", path, "").await;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK"), "{path}: {answer}");
        body.to_owned()
    }

    async fn json(&self, path: &str) -> Value {
        serde_json::from_str(&self.page(path).await).unwrap()
    }

    async fn ids(&self) -> Vec<u64> {
        let all = self.json("/control/mail").await;
        all["mails"].as_array().unwrap().iter().map(|it| it["id"].as_u64().unwrap()).collect()
    }
}

/// A journal with emails of these numbers.
fn journal(numbers: std::ops::RangeInclusive<u64>) -> String {
    let mut lines = String::new();
    for id in numbers {
        let mail = json!({"id": id, "at_ms": 1, "from": "a@b.example", "to": ["c@d.example"],
            "raw": format!("Subject: {id}\r\n\r\n")});
        writeln!(lines, "{mail}").unwrap();
    }
    lines
}

#[tokio::test]
async fn the_newest_thousand_emails_are_kept_in_memory_and_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(FILE);
    std::fs::write(&file, journal(1..=1_005)).unwrap();

    let server = Server::on(folder.path()).await;
    assert_eq!(server.ids().await, (6..=1_005).collect::<Vec<_>>());
    assert_eq!(std::fs::read_to_string(&file).unwrap().lines().count(), 1_000);
    server.take(b"Subject: next\r\n\r\nhello").await;
    assert_eq!(server.ids().await, (7..=1_006).collect::<Vec<_>>());
    server.running.stop().await;

    let again = Server::on(folder.path()).await;
    assert_eq!(again.ids().await, (7..=1_006).collect::<Vec<_>>());
    again.running.stop().await;
}

#[tokio::test]
async fn emails_can_be_read_by_the_owner_of_their_file_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(FILE);
    // An earlier version, or a person, made it readable.
    std::fs::write(&file, journal(1..=1)).unwrap();
    std::fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();

    let server = Server::on(folder.path()).await;
    server.take(b"Subject: secret\r\n\r\nhello").await;

    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    server.running.stop().await;
}

#[test]
fn a_file_of_emails_that_is_damaged_is_an_error_and_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(FILE);
    let good = journal(1..=1);
    for damaged in ["no JSON\n".to_owned(), format!("{good}\n{good}"), format!("{{}}\n{good}")] {
        std::fs::write(&file, &damaged).unwrap();

        let opened = MailSink::open(&environment(folder.path()));

        assert!(opened.is_err(), "{damaged}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), damaged);
    }
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    assert!(MailSink::open(&environment(folder.path())).is_err(), "a folder is no file");
}

#[tokio::test]
async fn nothing_in_an_email_becomes_markup_of_our_pages() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::on(folder.path()).await;
    let content = "From: \"><script>f()</script>\r\n\
        Subject: </title><script>s()</script> & co\r\n\r\n\
        http://x.example/\"onmouseover=\"l()\r\n<script>t()</script>";
    server.take(content.as_bytes()).await;

    let (list, page) = (server.page("/mail").await, server.page("/mail/1").await);

    for shown in [&list, &page] {
        assert!(!shown.contains("<script"), "{shown}");
        assert!(
            shown.contains("&lt;/title&gt;&lt;script&gt;s()&lt;/script&gt; &amp; co"),
            "{shown}"
        );
    }
    let link = "<a href=\"http://x.example/&quot;onmouseover=&quot;l()\">";
    assert!(page.contains(link), "{page}");
    server.running.stop().await;
}

#[tokio::test]
async fn the_list_shows_the_newest_email_first_and_says_when_there_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::on(folder.path()).await;
    assert!(server.page("/mail").await.contains("No email has arrived yet."));
    for content in ["Subject: first\r\n", "From: x@y.example\r\n"] {
        server.take(content.as_bytes()).await;
    }

    let list = server.page("/mail/").await;

    let row = |id: u64, subject: &str| {
        format!(
            "<tr><td>2027-01-15T08:00:00Z</td><td>c@d.example</td>\
             <td><a href=\"/mail/{id}\">{subject}</a></td></tr>"
        )
    };
    assert!(list.contains(&(row(2, "(no subject)") + &row(1, "first"))), "{list}");
    server.running.stop().await;
}

#[tokio::test]
async fn bytes_that_are_no_text_are_replaced_and_the_rest_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::on(folder.path()).await;

    server.take(b"Subject: na\xefve\r\n\r\nna\xc3\xafve \xff").await;

    let mail = server.json("/control/mail/1").await;
    assert_eq!(
        (&mail["subject"], &mail["text"]),
        (&json!("na\u{fffd}ve"), &json!("naïve \u{fffd}\n"))
    );
    assert_eq!(server.page("/mail/1/raw").await, mail["raw"].as_str().unwrap());
    server.running.stop().await;
}

/// A conversation that has come as far as this line.
async fn talk(server: &Server, sent: &str, last_line: &str) -> BufReader<TcpStream> {
    let mut stream = BufReader::new(TcpStream::connect(server.address).await.unwrap());
    stream.write_all(sent.as_bytes()).await.unwrap();
    let mut line = String::new();
    while line != last_line {
        line.clear();
        assert_ne!(stream.read_line(&mut line).await.unwrap(), 0, "no {last_line}");
    }
    stream
}

#[tokio::test]
async fn a_stop_ends_a_conversation_that_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::on(folder.path()).await;
    let mut stream = talk(&server, "NOOP\r\n", "250 ok\r\n").await;
    let ended = async {
        for _ in 0..10_000 {
            let sent = stream.write_all(b"NOOP\r\n").await;
            let answered = stream.read_line(&mut String::new()).await;
            if sent.is_err() || answered.is_err() || answered.is_ok_and(|read| read == 0) {
                return true;
            }
        }
        false
    };

    // Both on this thread: the stop is asked for before the first command.
    let ((), ended) = tokio::join!(server.running.stop(), ended);

    assert!(ended, "commands were still answered");
}

#[tokio::test]
async fn a_stop_keeps_no_half_of_an_email() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::on(folder.path()).await;
    let begin = "MAIL FROM:<a@b.example>\r\nRCPT TO:<c@d.example>\r\nDATA\r\n";
    let go_on = "354 end with a line that is a single dot\r\n";
    let mut stream = talk(&server, begin, go_on).await;
    stream.write_all(b"Subject: half\r\n\r\nhel").await.unwrap();

    server.running.stop().await;

    let mut rest = Vec::new();
    assert!(stream.read_to_end(&mut rest).await.is_err() || rest.is_empty(), "{rest:?}");
    assert_eq!(std::fs::read(folder.path().join(FILE)).unwrap(), b"");
}
