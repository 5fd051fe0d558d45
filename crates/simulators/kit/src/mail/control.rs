//! The mail server as a simulator: its pages below `/mail`, and its control requests below
//! `/control`.

use std::io;

use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::{MailSink, pages, summary, whole};
use crate::control::{
    ControlEntry, ControlOutcome, ControlProblem, ControlRequest, control_response,
};
use crate::faults::FaultRules;
use crate::script::{SocketReply, WireReply};
use crate::service::json_response;
use crate::simulator::{BoxFuture, Simulator, SimulatorRequest};

const INDEX: [ControlEntry; 3] = [
    ("GET", "/control/mail", "lists the emails received, or those `to` an address"),
    (
        "GET",
        "/control/mail/{id}",
        "shows an email: headers, text, HTML and links; /mail shows it in a browser",
    ),
    ("POST", "/control/mail/refuse", "refuses the `next` emails with an SMTP `code`"),
];

impl Simulator for MailSink {
    fn serves(&self, first_segment: &str) -> bool {
        first_segment == "mail"
    }

    fn answer<'a>(
        &'a self,
        request: SimulatorRequest,
        _faults: &'a FaultRules,
    ) -> BoxFuture<'a, SocketReply> {
        let response = if request.method == Method::GET {
            pages::answer(self, &request.path_and_query)
        } else {
            json_response(StatusCode::NOT_FOUND, &json!({"error": "no_such_platform"}))
        };
        Box::pin(std::future::ready(SocketReply::Whole(response)))
    }

    fn control_index(&self) -> &'static [ControlEntry] {
        &INDEX
    }

    fn control<'a>(&'a self, request: &'a ControlRequest<'a>) -> BoxFuture<'a, Option<WireReply>> {
        let outcome = match (request.method.as_str(), request.path) {
            ("GET", "/mail") => Some(Ok(mails(self, request))),
            ("POST", "/mail/refuse") => Some(refuse(self, request)),
            ("GET", path) => path.strip_prefix("/mail/").map(|id| one(self, id)),
            _ => None,
        };
        Box::pin(std::future::ready(outcome.map(control_response)))
    }

    fn reset(&self) -> io::Result<()> {
        self.clear()
    }
}

/// `to` (every recipient when absent); first the oldest.
fn mails(sink: &MailSink, request: &ControlRequest<'_>) -> Value {
    let wanted = request.value("to");
    let is_wanted = |to: &[String]| {
        wanted.is_none_or(|wanted| to.iter().any(|address| address.eq_ignore_ascii_case(wanted)))
    };
    let all = sink.all();
    let shown = all.iter().filter(|mail| is_wanted(&mail.to)).map(summary);
    json!({"mails": shown.collect::<Vec<_>>()})
}

fn one(sink: &MailSink, id: &str) -> ControlOutcome {
    let missing = || ControlProblem::new(StatusCode::NOT_FOUND, "no email has this id");
    sink.find(id).map(|mail| whole(&mail)).ok_or_else(missing)
}

/// `next`: the number of emails; `code`: the SMTP code that refuses them, 451 if absent.
fn refuse(sink: &MailSink, request: &ControlRequest<'_>) -> ControlOutcome {
    let code = request.number("code")?.unwrap_or(451);
    let code = u16::try_from(code).ok().filter(|code| (400..600).contains(code));
    let code = code.ok_or_else(|| ControlProblem::of_field("code", "must be 400 to 599"))?;
    sink.refuse(request.number("next")?.unwrap_or(1), code);
    Ok(json!({"ok": true}))
}
