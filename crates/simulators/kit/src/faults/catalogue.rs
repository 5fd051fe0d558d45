//! The catalogue of all kinds of faults, by family, and the type that covers them all.

use bytes::Bytes;
use serde_json::{Value, json};

use super::input::{FaultField, FieldMistake, SentFields};
use super::pages::PageMemory;
use super::{bodies, bombs, connection, framing, heads, pages, timing};
use crate::script::{SocketReply, WireReply};

/// A fault of any family, with its chosen fields.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    Connection(connection::ConnectionFault),
    Timing(timing::TimingFault),
    Framing(framing::FramingFault),
    Head(heads::HeadFault),
    Body(bodies::BodyFault),
    Bomb(bombs::SizeFault),
    Pages(pages::PageFault),
}

/// A kind of fault, requested by name.
pub(super) struct FaultKind {
    pub(super) name: &'static str,
    pub(super) says: &'static str,
    pub(super) fields: &'static [FaultField],
    /// Whether the platform carries out the request before it fails, unless the rule says
    /// otherwise.
    pub(super) carried_out: bool,
    /// The only platform that it applies to.
    pub(super) only_on: Option<&'static str>,
    pub(super) read: fn(&mut SentFields) -> Result<Fault, FieldMistake>,
}

impl FaultKind {
    /// A kind without fields, for any platform, whose request is carried out.
    pub(super) const fn plain(
        name: &'static str,
        says: &'static str,
        read: fn(&mut SentFields) -> Result<Fault, FieldMistake>,
    ) -> Self {
        Self { name, says, fields: &[], carried_out: true, only_on: None, read }
    }

    /// The same with fields.
    pub(super) const fn with(self, fields: &'static [FaultField]) -> Self {
        Self { fields, ..self }
    }

    /// The same, but the request is not carried out.
    pub(super) const fn not_carried_out(self) -> Self {
        Self { carried_out: false, ..self }
    }

    /// The same, but for this platform only.
    pub(super) const fn only_on(self, platform: &'static str) -> Self {
        Self { only_on: Some(platform), ..self }
    }
}

/// The families: their names and their kinds.
const FAMILIES: [(&str, &[FaultKind]); 7] = [
    ("connection", &connection::KINDS),
    ("timing", &timing::KINDS),
    ("framing", &framing::KINDS),
    ("head", &heads::KINDS),
    ("body", &bodies::KINDS),
    ("size", &bombs::KINDS),
    ("pages", &pages::KINDS),
];

/// The kind with this name; the error names all kinds.
pub(super) fn kind(name: &str) -> Result<&'static FaultKind, FieldMistake> {
    let kinds = || FAMILIES.iter().flat_map(|(_, kinds)| *kinds);
    kinds().find(|kind| kind.name == name).ok_or_else(|| {
        let names: Vec<&str> = kinds().map(|kind| kind.name).collect();
        FieldMistake::new("kind", format!("must be one of {}", names.join(", ")))
    })
}

/// All kinds, for people and for tests.
pub(super) fn shown() -> Value {
    let kinds = FAMILIES.iter().flat_map(|(family, kinds)| {
        kinds.iter().map(move |kind| {
            let fields: Vec<Value> = kind.fields.iter().map(FaultField::shown).collect();
            json!({
                "kind": kind.name,
                "family": family,
                "says": kind.says,
                "fields": fields,
                "carried_out": kind.carried_out,
                "platform": kind.only_on,
            })
        })
    });
    kinds.collect()
}

impl Fault {
    /// Whether it affects connections instead of requests.
    pub(super) fn refuses_connections(&self) -> bool {
        matches!(self, Self::Connection(connection::ConnectionFault::Refused))
    }

    /// Applies it to the original response to a request at `path`.
    pub(super) fn spoil(&self, reply: WireReply, path: &str, memory: &PageMemory) -> SocketReply {
        match self {
            Self::Connection(fault) => SocketReply::Script(fault.script()),
            Self::Timing(fault) => SocketReply::Script(fault.script(&reply)),
            Self::Framing(fault) => SocketReply::Script(fault.script(&reply)),
            Self::Head(fault) => fault.spoil(reply),
            Self::Body(fault) => fault.spoil(reply),
            Self::Bomb(fault) => SocketReply::Script(fault.script(&reply)),
            Self::Pages(fault) => {
                let body = fault.spoil(&reply.body, path, memory).map(Bytes::from);
                SocketReply::Whole(WireReply { body: body.unwrap_or(reply.body), ..reply })
            }
        }
    }

    /// The status of the platform's own refusal, for requests that are not carried out.
    pub(crate) fn refusal_status(&self) -> http::StatusCode {
        match self {
            Self::Head(fault) => fault.refusal_status(),
            Self::Connection(_)
            | Self::Timing(_)
            | Self::Framing(_)
            | Self::Body(_)
            | Self::Bomb(_)
            | Self::Pages(_) => http::StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}
