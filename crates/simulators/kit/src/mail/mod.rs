//! The mail server: accepts every email to any address over SMTP, keeps it, and shows it. Nothing
//! is forwarded.

mod control;
mod message;
mod pages;
mod smtp;

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use self::message::MailMessage;
use crate::clock::SimulatorClock;
use crate::environment::SimulatorEnvironment;
use crate::json_lines::JsonLines;
use crate::running::RunningService;

/// The number of emails that are kept; the oldest are dropped first.
const MAILS_MAX: usize = 1_000;
/// The largest email, in bytes.
pub(crate) const MAIL_BYTES_MAX: usize = 256 * 1_024;

/// An accepted email.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct KeptMail {
    /// Counts up from 1.
    pub(crate) id: u64,
    /// When it was accepted.
    pub(crate) at_ms: i64,
    /// The sender on the envelope.
    pub(crate) from: String,
    /// The recipients on the envelope.
    pub(crate) to: Vec<String>,
    /// Head and body as received; invalid UTF-8 is replaced.
    pub(crate) raw: String,
}

/// The accepted emails.
#[derive(Debug)]
pub struct MailSink {
    clock: SimulatorClock,
    kept: Mutex<SinkState>,
}

#[derive(Debug)]
struct SinkState {
    journal: JsonLines,
    mails: VecDeque<KeptMail>,
    last_id: u64,
    refusal: Option<MailRefusal>,
}

/// How the next emails are refused.
#[derive(Debug, Clone, Copy)]
struct MailRefusal {
    next: u64,
    code: u16,
}

impl MailSink {
    /// Opens the journal in the data folder, or keeps emails in memory only.
    pub fn open(environment: &SimulatorEnvironment) -> io::Result<Self> {
        let path = environment.data.as_ref().map(|folder| folder.join("mail.jsonl"));
        let clock = environment.clock.clone();
        let mut journal = JsonLines::open(path.as_deref())?;
        let (mut mails, mut lines) = (VecDeque::new(), 0);
        journal.scan(0, |_, mail: KeptMail| {
            lines += 1;
            mails.push_back(mail);
            if mails.len() > MAILS_MAX {
                mails.pop_front();
            }
            ControlFlow::Continue(())
        })?;
        if lines > MAILS_MAX {
            journal.clear()?;
            mails.iter().try_for_each(|mail| journal.append(mail).map(drop))?;
        }
        let last_id = mails.back().map_or(0, |mail| mail.id);
        let kept = SinkState { journal, mails, last_id, refusal: None };
        Ok(Self { clock, kept: Mutex::new(kept) })
    }

    /// Accepts an email, or returns the code to refuse it with.
    pub(crate) fn take(
        &self,
        from: String,
        to: Vec<String>,
        raw: &[u8],
    ) -> io::Result<Option<u16>> {
        let mut kept = self.kept();
        if let Some(refusal) = &mut kept.refusal
            && refusal.next > 0
        {
            refusal.next -= 1;
            return Ok(Some(refusal.code));
        }
        let mail = KeptMail {
            id: kept.last_id + 1,
            at_ms: self.clock.now_ms(),
            from,
            to,
            raw: String::from_utf8_lossy(raw).into_owned(),
        };
        kept.journal.append(&mail)?;
        kept.last_id = mail.id;
        kept.mails.push_back(mail);
        if kept.mails.len() > MAILS_MAX {
            kept.mails.pop_front();
        }
        Ok(None)
    }

    /// Refuses the next emails with this SMTP code.
    pub(crate) fn refuse(&self, next: u64, code: u16) {
        self.kept().refusal = Some(MailRefusal { next, code });
    }

    /// Removes all emails and refusals.
    pub(crate) fn clear(&self) -> io::Result<()> {
        let mut kept = self.kept();
        kept.journal.clear()?;
        kept.mails.clear();
        kept.refusal = None;
        Ok(())
    }

    /// All emails, oldest first.
    pub(crate) fn all(&self) -> Vec<KeptMail> {
        self.kept().mails.iter().cloned().collect()
    }

    /// One email.
    pub(crate) fn find(&self, id: &str) -> Option<KeptMail> {
        let id: u64 = id.parse().ok()?;
        self.kept().mails.iter().find(|mail| mail.id == id).cloned()
    }

    fn kept(&self) -> MutexGuard<'_, SinkState> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A port that accepts emails over SMTP, without TLS or login.
#[derive(Debug)]
pub struct MailPort {
    listener: TcpListener,
    address: SocketAddr,
}

impl MailPort {
    /// Listens on this address; port 0 takes a free one.
    pub async fn open(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let found = listener.local_addr()?;
        Ok(Self { listener, address: found })
    }

    /// The address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Accepts emails for the mail server until the service stops.
    pub fn serve(self, sink: &Arc<MailSink>, service: &RunningService) {
        service.spawn(|stop| smtp::serve(self.listener, Arc::clone(sink), stop));
    }
}

/// An email in the list of `/control/mail`.
pub(crate) fn summary(mail: &KeptMail) -> Value {
    let message = MailMessage::read(&mail.raw);
    json!({
        "id": mail.id, "at_ms": mail.at_ms, "from": mail.from, "to": mail.to,
        "subject": message.header("subject"),
    })
}

/// An email at `/control/mail/{id}`: its headers, its parts, the links in its text, and the raw
/// message.
pub(crate) fn whole(mail: &KeptMail) -> Value {
    let message = MailMessage::read(&mail.raw);
    let text = message.part("text/plain");
    let mut whole = summary(mail);
    let headers: Vec<Value> =
        message.headers.iter().map(|(name, value)| json!([name, value])).collect();
    let links: Vec<&str> = text.as_deref().map(message::links).unwrap_or_default();
    if let Some(members) = whole.as_object_mut() {
        members.insert("links".to_owned(), json!(links));
        members.insert("headers".to_owned(), Value::Array(headers));
        members.insert("html".to_owned(), json!(message.part("text/html")));
        members.insert("raw".to_owned(), json!(mail.raw));
        members.insert("text".to_owned(), json!(text));
    }
    whole
}
