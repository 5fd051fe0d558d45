//! The server side of SMTP (RFC 5321): one email after the other, from any sender to any recipient,
//! up to a size.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{MAIL_BYTES_MAX, MailSink};

/// The longest line of a command or an email.
const LINE_BYTES_MAX: u64 = 4_096;
const RECIPIENTS_MAX: usize = 100;
const CONNECTIONS_MAX: usize = 64;
const SILENCE_MAX: Duration = Duration::from_mins(1);

/// Serves until stopped. Connections beyond the limit wait.
pub(crate) async fn serve(listener: TcpListener, sink: Arc<MailSink>, stop: CancellationToken) {
    let places = Arc::new(tokio::sync::Semaphore::new(CONNECTIONS_MAX));
    let talks = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = accept(&listener, &places) => accepted,
        };
        let Ok((stream, place)) = accepted else { continue };
        let (sink, stop) = (Arc::clone(&sink), stop.clone());
        talks.spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                ended = talk(stream, &sink) => if let Err(error) = ended {
                    tracing::debug!(%error, "a connection to the mail server broke off");
                }
            }
            drop(place);
        });
    }
    talks.close();
    talks.wait().await;
}

async fn accept(
    listener: &TcpListener,
    places: &Arc<tokio::sync::Semaphore>,
) -> io::Result<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let place = Arc::clone(places).acquire_owned().await.map_err(io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    Ok((stream, place))
}

/// Sender and recipients of the email that a client is sending.
#[derive(Default)]
struct Envelope {
    from: Option<String>,
    to: Vec<String>,
}

async fn talk(stream: TcpStream, sink: &MailSink) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut envelope = Envelope::default();
    say(&mut stream, "220 sandbox mail server").await?;
    while let Some(line) = line(&mut stream).await? {
        let text = String::from_utf8_lossy(&line).trim_end().to_owned();
        let (verb, argument) = text.split_once(' ').unwrap_or((&text, ""));
        let answer = match verb.to_ascii_uppercase().as_str() {
            "EHLO" => {
                envelope = Envelope::default();
                format!("250-sandbox\r\n250-SIZE {MAIL_BYTES_MAX}\r\n250 8BITMIME")
            }
            "HELO" => {
                envelope = Envelope::default();
                "250 sandbox".to_owned()
            }
            "MAIL" => begin(&mut envelope, argument),
            "RCPT" => add(&mut envelope, argument),
            "DATA" if envelope.to.is_empty() => "503 send MAIL and RCPT first".to_owned(),
            "DATA" => {
                say(&mut stream, "354 end with a line that is a single dot").await?;
                let Some(mail) = body(&mut stream).await? else { return Ok(()) };
                deliver(sink, std::mem::take(&mut envelope), &mail)?
            }
            "RSET" => {
                envelope = Envelope::default();
                "250 ok".to_owned()
            }
            "NOOP" => "250 ok".to_owned(),
            "QUIT" => return say(&mut stream, "221 bye").await,
            _ => "502 unknown command".to_owned(),
        };
        say(&mut stream, &answer).await?;
    }
    Ok(())
}

fn begin(envelope: &mut Envelope, argument: &str) -> String {
    let Some(from) = path(argument, "FROM:") else {
        return "501 send MAIL FROM:<address>".to_owned();
    };
    *envelope = Envelope { from: Some(from), to: Vec::new() };
    "250 ok".to_owned()
}

fn add(envelope: &mut Envelope, argument: &str) -> String {
    match path(argument, "TO:") {
        _ if envelope.from.is_none() => "503 send MAIL first".to_owned(),
        None => "501 send RCPT TO:<address>".to_owned(),
        Some(_) if envelope.to.len() >= RECIPIENTS_MAX => "452 too many recipients".to_owned(),
        Some(to) => {
            envelope.to.push(to);
            "250 ok".to_owned()
        }
    }
}

fn deliver(sink: &MailSink, envelope: Envelope, mail: &[u8]) -> io::Result<String> {
    if mail.len() > MAIL_BYTES_MAX {
        return Ok("552 the email is too large".to_owned());
    }
    let from = envelope.from.unwrap_or_default();
    Ok(match sink.take(from, envelope.to, mail)? {
        None => "250 taken".to_owned(),
        Some(code) => format!("{code} refused, as requested at /control/mail/refuse"),
    })
}

/// The address in `FROM:<address> SIZE=…`.
fn path(argument: &str, word: &str) -> Option<String> {
    let (start, rest) = argument.split_at_checked(word.len())?;
    let rest = rest.trim_start().strip_prefix('<')?;
    let (address, _) = rest.split_once('>')?;
    start.eq_ignore_ascii_case(word).then(|| address.to_owned())
}

/// Reads an email up to the line with a dot. Of one that is too large, only enough is kept to
/// detect that.
async fn body(stream: &mut BufReader<TcpStream>) -> io::Result<Option<Vec<u8>>> {
    let mut mail = Vec::new();
    loop {
        let Some(line) = line(stream).await? else { return Ok(None) };
        if line == b".\r\n" || line == b".\n" {
            return Ok(Some(mail));
        }
        if mail.len() <= MAIL_BYTES_MAX {
            mail.extend_from_slice(line.strip_prefix(b".").unwrap_or(&line));
        }
    }
}

/// The next line with its line break; `None` if the client has disconnected.
async fn line(stream: &mut BufReader<TcpStream>) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let mut limited = stream.take(LINE_BYTES_MAX);
    let read = tokio::time::timeout(SILENCE_MAX, limited.read_until(b'\n', &mut line));
    read.await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    if line.is_empty() {
        return Ok(None);
    }
    if line.ends_with(b"\n") { Ok(Some(line)) } else { Err(io::ErrorKind::InvalidData.into()) }
}

async fn say(stream: &mut BufReader<TcpStream>, answer: &str) -> io::Result<()> {
    stream.write_all(format!("{answer}\r\n").as_bytes()).await?;
    stream.flush().await
}
