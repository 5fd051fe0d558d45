//! The emails as pages for a browser, below `/mail`.

use std::fmt::Write as _;

use http::StatusCode;
use http::header::CONTENT_SECURITY_POLICY;

use super::message::{self, MailMessage};
use super::{KeptMail, MailSink};
use crate::script::WireReply;

const HTML: &str = "text/html; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";
const OURS: &str =
    "default-src 'none'; style-src 'unsafe-inline'; frame-src 'self'; base-uri 'none'";
/// The HTML of an email cannot run scripts or load anything; its links open in a new window.
const THEIRS: &str = "default-src 'none'; style-src 'unsafe-inline'; sandbox allow-popups allow-popups-to-escape-sandbox";
const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:56em;margin:2em auto;padding:0 1em}\
    table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.4em .8em .4em 0;border-bottom:1px solid #8884}\
    pre{white-space:pre-wrap;overflow-wrap:anywhere}iframe{width:100%;height:28em;border:1px solid #8884;background:#fff}\
    :root{color-scheme:light dark}";

/// Responds to `GET /mail…`; `path` is what follows `/mail`.
pub(crate) fn answer(sink: &MailSink, path: &str) -> WireReply {
    let path = path.split('?').next().unwrap_or_default().trim_matches('/');
    if path.is_empty() {
        return page(&list(&sink.all()), OURS);
    }
    let (id, form) = path.split_once('/').unwrap_or((path, ""));
    let Some(mail) = sink.find(id) else {
        return WireReply::new(StatusCode::NOT_FOUND).content(TEXT, "no email has this id\n");
    };
    match form {
        "" => page(&one(&mail), OURS),
        "raw" => WireReply::new(StatusCode::OK).content(TEXT, mail.raw),
        "html" => {
            let html = MailMessage::read(&mail.raw).part("text/html").unwrap_or_default();
            page(&html.replacen("<head>", "<head><base target=\"_blank\">", 1), THEIRS)
        }
        _ => WireReply::new(StatusCode::NOT_FOUND).content(TEXT, "no such format\n"),
    }
}

fn page(html: &str, policy: &'static str) -> WireReply {
    let reply = WireReply::new(StatusCode::OK).header(CONTENT_SECURITY_POLICY, policy);
    reply.content(HTML, html.to_owned())
}

fn list(mails: &[KeptMail]) -> String {
    let mut rows = String::new();
    for mail in mails.iter().rev() {
        let message = MailMessage::read(&mail.raw);
        let subject = message.header("subject").unwrap_or("(no subject)");
        let time = jiff::Timestamp::from_millisecond(mail.at_ms).unwrap_or_default();
        // Writing to a string cannot fail.
        let _ = write!(
            rows,
            "<tr><td>{time:.0}</td><td>{}</td><td><a href=\"/mail/{}\">{}</a></td></tr>",
            escaped(&mail.to.join(", ")),
            mail.id,
            escaped(subject),
        );
    }
    if rows.is_empty() {
        rows.push_str("<tr><td colspan=\"3\">No email has arrived yet.</td></tr>");
    }
    format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" content=\"5\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>Mail</title><style>{STYLE}</style>\
         <h1>Mail</h1><p>What the sandbox would have sent, newest first.</p>\
         <table><thead><tr><th>Time</th><th>To</th><th>Subject</th></tr></thead><tbody>{rows}</tbody></table></html>"
    )
}

fn one(mail: &KeptMail) -> String {
    let message = MailMessage::read(&mail.raw);
    let subject = escaped(message.header("subject").unwrap_or("(no subject)"));
    let text = message.part("text/plain").unwrap_or_default();
    let shown: String = text.split_inclusive(char::is_whitespace).map(linked).collect();
    format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>{subject}</title><style>{STYLE}</style>\
         <p><a href=\"/mail\">All emails</a></p><h1>{subject}</h1><p>From {} to {}</p><pre>{shown}</pre>\
         <h2>As HTML</h2><iframe src=\"/mail/{id}/html\" title=\"the email as HTML\"></iframe>\
         <p><a href=\"/mail/{id}/raw\">Raw message</a></p></html>",
        escaped(message.header("from").unwrap_or(&mail.from)),
        escaped(&mail.to.join(", ")),
        id = mail.id,
    )
}

/// A word and the space after it; a web address becomes a link.
fn linked(word: &str) -> String {
    let address = word.trim_end();
    let space = word.get(address.len()..).unwrap_or_default();
    if message::links(address).is_empty() {
        return escaped(word);
    }
    let shown = escaped(address);
    format!("<a href=\"{shown}\">{shown}</a>{space}")
}

fn escaped(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => written.push_str("&amp;"),
            '<' => written.push_str("&lt;"),
            '>' => written.push_str("&gt;"),
            '"' => written.push_str("&quot;"),
            other => written.push(other),
        }
    }
    written
}
