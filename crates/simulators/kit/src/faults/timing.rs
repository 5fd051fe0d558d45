//! Responses that are late, slow, or never arrive.

use std::time::Duration;

use bytes::Bytes;

use super::input::FaultField;
use super::kind::{FaultEffect, FaultKind};
use crate::script::{ConnectionEnd, ScriptStep, SocketReply, SocketScript, WireReply};

const MS: FaultField =
    FaultField::number("ms", "milliseconds before the head", 1_000, 0, 3_600_000);
const AFTER_BYTES: FaultField =
    FaultField::number("after_bytes", "bytes of the body that are sent first", 10, 0, 1 << 30);
const SIZE: FaultField = FaultField::number("size", "bytes of the body at a time", 1, 1, 1 << 20);
const PAUSE_MS: FaultField =
    FaultField::number("pause_ms", "milliseconds after each of them", 100, 0, 3_600_000);

/// When bytes are sent.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TimingFault {
    Delay { ms: u64 },
    Silence,
    Stall { after_bytes: usize },
    Drip { size: usize, pause_ms: u64 },
}

pub(super) const KINDS: [FaultKind; 4] = [
    FaultKind::plain("delay", "the response arrives late", |fields| {
        Ok(Box::new(TimingFault::Delay { ms: fields.number(&MS)? }))
    })
    .with(&[MS]),
    FaultKind::plain(
        "silence",
        "no byte of a response ever arrives; the connection stays open",
        |_| Ok(Box::new(TimingFault::Silence)),
    ),
    FaultKind::plain("stall", "silence in the middle of the body", |fields| {
        Ok(Box::new(TimingFault::Stall { after_bytes: fields.size(&AFTER_BYTES)? }))
    })
    .with(&[AFTER_BYTES]),
    FaultKind::plain("drip", "the body arrives a few bytes at a time", |fields| {
        let (size, pause_ms) = (fields.size(&SIZE)?, fields.number(&PAUSE_MS)?);
        Ok(Box::new(TimingFault::Drip { size, pause_ms }))
    })
    .with(&[SIZE, PAUSE_MS]),
];

impl FaultEffect for TimingFault {
    fn spoil(&self, reply: WireReply, _path: &str) -> SocketReply {
        SocketReply::Script(self.script(&reply))
    }
}

impl TimingFault {
    fn script(self, reply: &WireReply) -> SocketScript {
        match self {
            Self::Delay { ms } => {
                let mut script = reply.script(reply.framed(), ConnectionEnd::Keep);
                script.steps.insert(0, ScriptStep::Wait(Duration::from_millis(ms)));
                script
            }
            Self::Silence => SocketScript::nothing(ConnectionEnd::Hang),
            Self::Stall { after_bytes } => {
                let mut sent = reply.framed();
                // A body that is shorter than that must stay incomplete too.
                let missing = reply.body.len().saturating_sub(after_bytes).max(1);
                sent.truncate(sent.len().saturating_sub(missing));
                reply.script(sent, ConnectionEnd::Hang)
            }
            Self::Drip { size, pause_ms } => {
                let head = Bytes::from(reply.head_with_length(reply.body.len() as u64));
                let mut script = reply.script(head, ConnectionEnd::Keep);
                let (bytes, pause) = (reply.body.clone(), Duration::from_millis(pause_ms));
                script.steps.push(ScriptStep::Drip { bytes, size, pause });
                script
            }
        }
    }
}
