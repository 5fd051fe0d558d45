//! Mail: one message at a time, handed over to a mail server or written into a folder.
//!
//! What is handed over once may be handed over again after a crash; a message keeps its
//! `Message-ID`, by which mail servers know it again. A message is made of checked parts only: no
//! part can end a header and begin another one.

use std::error::Error as StdError;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use domain::customer::Email;
use domain::hosts::is_loopback_host;
use domain::time::Timestamp;
use lettre::message::header::{HeaderName, HeaderValue};
use lettre::message::{Mailbox, MultiPart, SinglePart};
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, CertificateStore, Tls, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use lettre::{AsyncSmtpTransport, AsyncTransport as _, Message, Tokio1Executor};
use zeroize::Zeroizing;

/// Where mail goes, and from whom.
#[derive(Debug, Clone)]
pub struct MailSettings {
    /// Where mail is handed over.
    pub destination: MailDestination,
    /// The sender, such as `Gateway <no-reply@example.com>`; see [`is_sender`].
    pub from: String,
    /// The longest that handing over one message may take, from connecting to the last answer.
    pub timeout: Duration,
}

/// Where mail is handed over.
#[derive(Debug, Clone)]
pub enum MailDestination {
    /// A mail server.
    Smtp(SmtpServer),
    /// A folder, made when it is missing: one file of the form `….eml` for each message.
    Folder(PathBuf),
}

/// A mail server.
#[derive(Clone)]
pub struct SmtpServer {
    /// Its name or address; a certificate must name it.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// How the connection is protected.
    pub security: MailSecurity,
    /// User and password, where the server wants them.
    pub login: Option<(String, Zeroizing<String>)>,
    /// Certificate authorities in PEM that are trusted besides the public ones.
    pub authorities: Option<Vec<u8>>,
}

/// How the connection to a mail server is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MailSecurity {
    /// TLS from the first byte.
    Tls,
    /// TLS after `STARTTLS`; nothing is sent to a server that does not offer it.
    StartTls,
    /// None: for a server on this machine.
    None,
}

/// One message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutgoingMail {
    /// To whom.
    pub to: Email,
    /// One line.
    pub subject: String,
    /// The text for readers without HTML.
    pub text: String,
    /// The same as HTML.
    pub html: String,
    /// What makes it unique, of letters, digits, `_` and `-`: the left side of its `Message-ID`.
    pub id: String,
    /// When it was written.
    pub at: Timestamp,
}

/// A message that was not handed over, or of which that is not known.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct MailError {
    /// Whether trying again is useless: the mail server refused this message or this address for
    /// good.
    pub is_permanent: bool,
    what: &'static str,
    /// The error below, for those who look after the service; it may name the address.
    #[source]
    source: Option<Box<dyn StdError + Send + Sync>>,
}

/// Settings that no mail can be sent with.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct InvalidMailSettings(String);

/// Hands messages over.
#[derive(Debug)]
pub struct Mailer {
    way: MailTransport,
    from: Mailbox,
    timeout: Duration,
}

#[derive(Debug)]
enum MailTransport {
    Smtp(Box<AsyncSmtpTransport<Tokio1Executor>>),
    Folder(PathBuf),
}

/// Whether a text can be the sender of mail: an address, or a name and an address in angle
/// brackets.
pub fn is_sender(text: &str) -> bool {
    text.parse::<Mailbox>().is_ok() && !text.contains(char::is_control)
}

impl Mailer {
    /// Prepares to hand mail over; nothing is connected yet.
    pub fn new(settings: &MailSettings) -> Result<Self, InvalidMailSettings> {
        let invalid = |error: &dyn StdError| InvalidMailSettings(error.to_string());
        let from: Mailbox = settings.from.parse().map_err(|error| invalid(&error))?;
        let way = match &settings.destination {
            MailDestination::Smtp(server) => {
                MailTransport::Smtp(Box::new(transport(server, &from, settings.timeout)?))
            }
            MailDestination::Folder(folder) => MailTransport::Folder(folder.clone()),
        };
        Ok(Self { way, from, timeout: settings.timeout })
    }

    /// Hands one message over. When this returns without an error, the mail server has taken it
    /// over or the file is on disk; after an error, and when this is dropped, that may still be so.
    pub async fn send(&self, mail: &OutgoingMail) -> Result<(), MailError> {
        let message = self.message(mail)?;
        match &self.way {
            MailTransport::Smtp(smtp) => {
                // The library limits single steps; a server that answers each of them late must not
                // hold us.
                match tokio::time::timeout(self.timeout, smtp.send(message)).await {
                    Ok(Ok(_)) => Ok(()),
                    Ok(Err(error)) => Err(refusal(error)),
                    Err(_) => Err(MailError::temporary("the mail server did not answer in time")),
                }
            }
            MailTransport::Folder(folder) => {
                let name = format!("{:013}-{}.eml", mail.at.unix_millis(), mail.id);
                let (folder, bytes) = (folder.clone(), message.formatted());
                let written = tokio::task::spawn_blocking(move || write(&folder, &name, &bytes));
                let written = written.await.map_err(std::io::Error::other).and_then(|done| done);
                written.map_err(|error| {
                    MailError::temporary("the folder for mails cannot be written").because(error)
                })
            }
        }
    }

    fn message(&self, mail: &OutgoingMail) -> Result<Message, MailError> {
        let unusable = "the message cannot be written";
        let one_line = |text: &str| !text.contains(char::is_control);
        let plain = |text: &str| {
            text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
        };
        if !one_line(&mail.subject) || !plain(&mail.id) {
            return Err(MailError::permanent(unusable));
        }
        let to: Mailbox = mail
            .to
            .as_str()
            .parse()
            .map_err(|error| MailError::permanent(unusable).because(error))?;
        let parts = MultiPart::alternative()
            .boundary(format!("part_{}", mail.id))
            .singlepart(SinglePart::plain(mail.text.clone()))
            .singlepart(SinglePart::html(mail.html.clone()));
        let automatic = HeaderName::new_from_ascii_str("Auto-Submitted");
        let written = SystemTime::UNIX_EPOCH + Duration::from_millis(mail.at.unix_millis());
        Message::builder()
            .from(self.from.clone())
            .to(to)
            .subject(mail.subject.clone())
            .date(written)
            .message_id(Some(format!("<{}@{}>", mail.id, self.from.email.domain())))
            .raw_header(HeaderValue::new(automatic, "auto-generated".to_owned()))
            .multipart(parts)
            .map_err(|error| MailError::permanent(unusable).because(error))
    }
}

impl MailError {
    const fn temporary(what: &'static str) -> Self {
        Self { is_permanent: false, what, source: None }
    }

    const fn permanent(what: &'static str) -> Self {
        Self { is_permanent: true, what, source: None }
    }

    fn because(self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { source: Some(source.into()), ..self }
    }
}

impl std::fmt::Debug for SmtpServer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "SmtpServer({}:{}, {:?})", self.host, self.port, self.security)
    }
}

fn transport(
    server: &SmtpServer,
    from: &Mailbox,
    timeout: Duration,
) -> Result<AsyncSmtpTransport<Tokio1Executor>, InvalidMailSettings> {
    let tls = match server.security {
        MailSecurity::None if !is_loopback_host(&server.host) => {
            let message = "without TLS, mail is handed to this machine only";
            return Err(InvalidMailSettings(message.to_owned()));
        }
        MailSecurity::None => Tls::None,
        MailSecurity::Tls => Tls::Wrapper(tls_parameters(server)?),
        MailSecurity::StartTls => Tls::Required(tls_parameters(server)?),
    };
    let mut builder = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(server.host.as_str())
        .port(server.port)
        .hello_name(ClientId::Domain(from.email.domain().to_owned()))
        .timeout(Some(timeout))
        .tls(tls);
    if let Some((user, password)) = &server.login {
        builder = builder.credentials(Credentials::new(user.clone(), password.to_string()));
    }
    Ok(builder.build())
}

fn tls_parameters(server: &SmtpServer) -> Result<TlsParameters, InvalidMailSettings> {
    let invalid = |error: lettre::transport::smtp::Error| InvalidMailSettings(error.to_string());
    let mut builder = TlsParameters::builder(server.host.clone())
        .certificate_store(CertificateStore::WebpkiRoots);
    if let Some(pem) = &server.authorities {
        builder = builder.add_root_certificate(Certificate::from_pem(pem).map_err(invalid)?);
    }
    builder.build_rustls().map_err(invalid)
}

/// What a mail server refuses for good, it refuses again; but a refused login or a missing right to
/// send is the operator's to mend, and the message waits for that.
fn refusal(error: lettre::transport::smtp::Error) -> MailError {
    const ABOUT_THE_SENDER: [u16; 6] = [502, 503, 530, 534, 535, 538];
    let code = error.status().map(u16::from);
    let failure = if error.is_permanent() && !code.is_some_and(|it| ABOUT_THE_SENDER.contains(&it))
    {
        MailError::permanent("the mail server refused the message")
    } else if error.is_tls() {
        MailError::temporary("the mail server could not be spoken to over TLS")
    } else if code.is_some() {
        MailError::temporary("the mail server does not take the message now")
    } else {
        MailError::temporary("the mail server could not be reached")
    };
    failure.because(error)
}

/// Written whole or not at all: under another name first, then renamed.
fn write(folder: &Path, name: &str, bytes: &[u8]) -> std::io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let unfinished = folder.join(format!(".{name}"));
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&unfinished)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&unfinished, folder.join(name))
}
