//! Mail over real sockets: what a mail server is told, and what becomes of every refusal.
#![expect(clippy::unwrap_used, reason = "a test that meets what it does not expect must fail")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use domain::time::Timestamp;
use mail::{MailDestination, MailSecurity, MailSettings, Mailer, OutgoingMail, SmtpServer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use scripted_peer::TestAuthority;

trait MailStream: Read + Write + Send {}
impl<T: Read + Write + Send> MailStream for T {}

/// What is answered to a command; `None` is silence for ever.
type MailScript = fn(&str) -> Option<&'static str>;

/// A mail server that answers what it is told to, and remembers what it was told.
struct ScriptedMailServer {
    address: SocketAddr,
    heard: Arc<Mutex<Vec<String>>>,
}

impl ScriptedMailServer {
    fn start(tls: Option<ServerConfig>, answers: MailScript) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let (log, tls) = (Arc::clone(&heard), tls.map(Arc::new));
        std::thread::spawn(move || {
            for tcp in listener.incoming().flatten() {
                let stream: Box<dyn MailStream> = match &tls {
                    None => Box::new(tcp),
                    Some(config) => {
                        let session = ServerConnection::new(Arc::clone(config)).unwrap();
                        Box::new(StreamOwned::new(session, tcp))
                    }
                };
                // A client that breaks off is what some of these tests are about.
                drop(talk(BufReader::new(stream), answers, &log));
            }
        });
        Self { address, heard }
    }

    fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }

    fn server(&self, security: MailSecurity) -> SmtpServer {
        SmtpServer {
            host: "127.0.0.1".to_owned(),
            port: self.address.port(),
            security,
            login: None,
            authorities: None,
        }
    }
}

fn talk(
    mut stream: BufReader<Box<dyn MailStream>>,
    answers: MailScript,
    log: &Mutex<Vec<String>>,
) -> std::io::Result<()> {
    stream.get_mut().write_all(b"220 here\r\n")?;
    let mut is_mail = false;
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let line = line.trim_end_matches(['\r', '\n']).to_owned();
        log.lock().unwrap().push(line.clone());
        if is_mail && line != "." {
            continue;
        }
        let Some(answer) = answers(&line) else { continue };
        is_mail = answer.starts_with("354");
        stream.get_mut().write_all(format!("{answer}\r\n").as_bytes())?;
        stream.get_mut().flush()?;
    }
}

#[expect(clippy::unnecessary_wraps, reason = "some answers of these tests are silence")]
fn friendly(line: &str) -> Option<&'static str> {
    Some(match line.split([' ', ':']).next().unwrap() {
        "EHLO" => "250-here\r\n250 AUTH PLAIN LOGIN",
        "AUTH" => "235 come in",
        "DATA" => "354 go on",
        "QUIT" => "221 bye",
        _ => "250 ok",
    })
}

fn mailer(server: SmtpServer) -> Mailer {
    let settings = MailSettings {
        destination: MailDestination::Smtp(server),
        from: "Gateway <no-reply@gateway.example>".to_owned(),
        timeout: Duration::from_secs(20),
    };
    Mailer::new(&settings).unwrap()
}

fn mail() -> OutgoingMail {
    OutgoingMail {
        to: "ada+x@example.com".parse().unwrap(),
        subject: "Confirm your email address".to_owned(),
        text: "Open\n\nhttps://gateway.example/console/confirm?token=abc-_=\n\n.\nä\n".to_owned(),
        html: "<p>Open <a href=\"https://gateway.example/\">this</a></p>\n".to_owned(),
        id: "job_0123".to_owned(),
        at: Timestamp::from_rfc3339("2026-11-21T12:00:00Z").unwrap(),
    }
}

/// Whether it failed, and whether for good.
async fn failure(mailer: &Mailer) -> bool {
    mailer.send(&mail()).await.unwrap_err().is_permanent
}

#[tokio::test]
async fn a_message_says_who_when_and_that_a_program_wrote_it() {
    let post = ScriptedMailServer::start(None, friendly);

    mailer(post.server(MailSecurity::None)).send(&mail()).await.unwrap();

    let heard = post.heard();
    let says = |line: &str| heard.iter().filter(|it| it.starts_with(line)).count();
    assert_eq!(heard[0], "EHLO gateway.example");
    assert_eq!(says("MAIL FROM:<no-reply@gateway.example>"), 1);
    assert_eq!((says("RCPT TO:"), says("RCPT TO:<ada+x@example.com>")), (1, 1));
    for line in [
        "From: Gateway <no-reply@gateway.example>",
        "To: ada+x@example.com",
        "Subject: Confirm your email address",
        "Date: Sat, 21 Nov 2026 12:00:00 +0000",
        "Message-ID: <job_0123@gateway.example>",
        "Auto-Submitted: auto-generated",
        "MIME-Version: 1.0",
        "Content-Type: multipart/alternative;",
        "Content-Type: text/plain; charset=utf-8",
        "Content-Type: text/html; charset=utf-8",
    ] {
        assert_eq!(says(line), 1, "{line}: {heard:#?}");
    }
    assert_eq!(says("Bcc") + says("AUTH"), 0);
}

#[tokio::test]
async fn the_login_is_told_to_servers_over_tls_that_a_known_authority_vouches_for() {
    let authority = TestAuthority::new();
    let post = ScriptedMailServer::start(Some(authority.server("127.0.0.1", |_| {})), friendly);
    let login = Some(("ada".to_owned(), "secret".to_owned().into()));
    let unknown = SmtpServer { login, ..post.server(MailSecurity::Tls) };
    let pem = std::fs::read(authority.file.path()).unwrap();
    let known = SmtpServer { authorities: Some(pem), ..unknown.clone() };

    let refused = failure(&mailer(unknown)).await;
    let before = post.heard();
    mailer(known).send(&mail()).await.unwrap();

    assert_eq!((refused, before), (false, Vec::new()));
    // "\0ada\0secret" in base64.
    assert!(post.heard().contains(&"AUTH PLAIN AGFkYQBzZWNyZXQ=".to_owned()), "{:?}", post.heard());
}

#[tokio::test]
async fn a_server_that_does_not_offer_starttls_is_told_nothing() {
    let post = ScriptedMailServer::start(None, friendly);
    let login = Some(("ada".to_owned(), "secret".to_owned().into()));
    let server = SmtpServer { login, ..post.server(MailSecurity::StartTls) };

    assert!(!failure(&mailer(server)).await);

    let told = post.heard().into_iter().filter(|line| !line.starts_with("EHLO"));
    assert!(told.clone().all(|line| line == "QUIT"), "{:?}", told.collect::<Vec<_>>());
}

#[tokio::test]
async fn without_tls_mail_goes_to_this_machine_only() {
    let post = ScriptedMailServer::start(None, friendly);
    let server =
        SmtpServer { host: "mail.example.com".to_owned(), ..post.server(MailSecurity::None) };
    let settings = MailSettings {
        destination: MailDestination::Smtp(server),
        from: "no-reply@gateway.example".to_owned(),
        timeout: Duration::from_secs(1),
    };

    assert!(Mailer::new(&settings).is_err());
}

/// What the server refuses for good is not tried again; what it may take later, and what the
/// operator must mend, is.
#[tokio::test]
async fn a_refusal_for_good_is_told_from_one_for_now() {
    let cases: [(MailScript, bool); 6] = [
        (
            |line| if line.starts_with("RCPT") { Some("550 no such box") } else { friendly(line) },
            true,
        ),
        (|line| if line.starts_with("RCPT") { Some("451 later") } else { friendly(line) }, false),
        (|line| if line == "." { Some("554 looks like spam") } else { friendly(line) }, true),
        (|line| if line == "." { Some("452 disk full") } else { friendly(line) }, false),
        (|line| if line.starts_with("AUTH") { Some("535 who?") } else { friendly(line) }, false),
        (
            |line| if line.starts_with("MAIL") { Some("530 log in first") } else { friendly(line) },
            false,
        ),
    ];
    for (number, (answers, is_permanent)) in cases.into_iter().enumerate() {
        let post = ScriptedMailServer::start(None, answers);
        let login = (number == 4).then(|| ("ada".to_owned(), "wrong".to_owned().into()));
        let server = SmtpServer { login, ..post.server(MailSecurity::None) };

        assert_eq!(failure(&mailer(server)).await, is_permanent, "case {number}");
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_tried_again() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let post = ScriptedMailServer { address: closed, heard: Arc::default() };

    assert!(!failure(&mailer(post.server(MailSecurity::None))).await);
}

/// Each step would come within the library's own limit, and the last one never.
#[tokio::test]
async fn a_server_that_falls_silent_ends_the_attempt() {
    let post =
        ScriptedMailServer::start(None, |line| if line == "." { None } else { friendly(line) });
    let settings = MailSettings {
        destination: MailDestination::Smtp(post.server(MailSecurity::None)),
        from: "no-reply@gateway.example".to_owned(),
        timeout: Duration::from_millis(300),
    };

    assert!(!failure(&Mailer::new(&settings).unwrap()).await);
}

#[tokio::test]
async fn no_part_of_a_message_can_begin_another_header() {
    let post = ScriptedMailServer::start(None, friendly);
    let mailer = mailer(post.server(MailSecurity::None));
    for (subject, id) in [
        ("Hello\r\nBcc: eve@example.com", "job_1"),
        ("Hello\nBcc: eve@example.com", "job_1"),
        ("Hello", "job_1\r\nBcc: eve@example.com"),
        ("Hello", "job_1>"),
    ] {
        let mail = OutgoingMail { subject: subject.to_owned(), id: id.to_owned(), ..mail() };

        assert!(mailer.send(&mail).await.unwrap_err().is_permanent, "{subject:?} {id:?}");
    }
    assert_eq!(post.heard(), Vec::<String>::new());
}

#[tokio::test]
async fn a_folder_gets_one_file_for_each_message_that_only_its_owner_reads() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("new/folder");
    let settings = MailSettings {
        destination: MailDestination::Folder(folder.clone()),
        from: "no-reply@gateway.example".to_owned(),
        timeout: Duration::from_secs(1),
    };
    let mailer = Mailer::new(&settings).unwrap();

    mailer.send(&mail()).await.unwrap();
    mailer.send(&mail()).await.unwrap();
    mailer.send(&OutgoingMail { id: "job_other".to_owned(), ..mail() }).await.unwrap();

    let mut names: Vec<String> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    // The same message is one file, however often it is handed over.
    assert_eq!(names, ["1795262400000-job_0123.eml", "1795262400000-job_other.eml"]);
    let file = folder.join(&names[0]);
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(folder.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    let text = std::fs::read_to_string(file).unwrap();
    assert!(text.contains("Message-ID: <job_0123@gateway.example>"), "{text}");
}
