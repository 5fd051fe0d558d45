//! Responses whose start, end or length is unclear or ambiguous.

use http::header::{CONTENT_LENGTH, HeaderName, TRANSFER_ENCODING};

use super::input::FaultField;
use super::kind::{FaultEffect, FaultKind};
use crate::script::{ConnectionEnd, SocketReply, SocketScript, WireReply};

const AFTER_BYTES: FaultField =
    FaultField::number("after_bytes", "bytes of the body that are sent first", 10, 0, 1 << 30);

/// How the frame is broken.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FramingFault {
    CutLength { after_bytes: usize },
    CutChunks { after_bytes: usize },
    ExtraBytes,
    ShortLength,
    TwoLengths,
    LengthAndChunks,
    NegativeLength,
    ControlByte,
    NoHead,
    BodyWithoutContent,
}

/// A whole response without a request.
const STRAY: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-length: 28\r\n\r\n{\"of\":\"somebody else's call\"}";

pub(super) const KINDS: [FaultKind; 10] = [
    FaultKind::plain("cut_length", "the connection ends before the announced length", |fields| {
        let after_bytes = fields.size(&AFTER_BYTES)?;
        Ok(Box::new(FramingFault::CutLength { after_bytes }))
    })
    .with(&[AFTER_BYTES]),
    FaultKind::plain("cut_chunks", "the connection ends within the chunks of a body", |fields| {
        let after_bytes = fields.size(&AFTER_BYTES)?;
        Ok(Box::new(FramingFault::CutChunks { after_bytes }))
    })
    .with(&[AFTER_BYTES]),
    FaultKind::plain("extra_bytes", "an unsolicited second response follows the first", |_| {
        Ok(Box::new(FramingFault::ExtraBytes))
    }),
    FaultKind::plain(
        "short_length",
        "the announced length is half of the body; the rest follows",
        |_| Ok(Box::new(FramingFault::ShortLength)),
    ),
    FaultKind::plain("two_lengths", "two lengths that differ", |_| {
        Ok(Box::new(FramingFault::TwoLengths))
    }),
    FaultKind::plain("length_and_chunks", "a length together with chunks", |_| {
        Ok(Box::new(FramingFault::LengthAndChunks))
    }),
    FaultKind::plain("negative_length", "a length of -1", |_| {
        Ok(Box::new(FramingFault::NegativeLength))
    }),
    FaultKind::plain("control_byte", "a header with a control byte in its value", |_| {
        Ok(Box::new(FramingFault::ControlByte))
    }),
    FaultKind::plain("no_head", "only the body, as before HTTP/1.0", |_| {
        Ok(Box::new(FramingFault::NoHead))
    }),
    FaultKind::plain("body_without_content", "status 204, but with a body", |_| {
        Ok(Box::new(FramingFault::BodyWithoutContent))
    }),
];

impl FaultEffect for FramingFault {
    fn spoil(&self, reply: WireReply, _path: &str) -> SocketReply {
        SocketReply::Script(self.script(&reply))
    }
}

impl FramingFault {
    fn script(self, reply: &WireReply) -> SocketScript {
        let length = reply.body.len();
        let with =
            |headers: &[(HeaderName, String)]| [&reply.head(headers)[..], &reply.body].concat();
        match self {
            Self::CutLength { after_bytes } => {
                // An announced length that is never reached, even by a body shorter than the cut.
                let announced = length.max(after_bytes + 1) as u64;
                let kept = reply.body.get(..after_bytes).unwrap_or(&reply.body);
                let sent = [&reply.head_with_length(announced)[..], kept].concat();
                reply.script(sent, ConnectionEnd::Close)
            }
            Self::CutChunks { after_bytes } => {
                let kept = reply.body.get(..after_bytes).unwrap_or(&reply.body);
                let size = format!("{:x}\r\n", length.max(after_bytes + 1));
                let sent = [&reply.head_in_chunks()[..], size.as_bytes(), kept].concat();
                reply.script(sent, ConnectionEnd::Close)
            }
            Self::ExtraBytes => {
                reply.script([&reply.framed()[..], STRAY].concat(), ConnectionEnd::Keep)
            }
            Self::ShortLength => {
                let half = reply.head_with_length(length as u64 / 2);
                reply.script([&half[..], &reply.body].concat(), ConnectionEnd::Keep)
            }
            Self::TwoLengths => {
                let lengths = [length, length + 1].map(|it| (CONTENT_LENGTH, it.to_string()));
                reply.script(with(&lengths), ConnectionEnd::Close)
            }
            Self::LengthAndChunks => {
                let framings = [
                    (CONTENT_LENGTH, length.to_string()),
                    (TRANSFER_ENCODING, "chunked".to_owned()),
                ];
                let chunk = format!("{length:x}\r\n");
                let head = reply.head(&framings);
                let body = [chunk.as_bytes(), &reply.body, b"\r\n0\r\n\r\n"].concat();
                reply.script([head, body].concat(), ConnectionEnd::Close)
            }
            Self::NegativeLength => {
                reply.script(with(&[(CONTENT_LENGTH, "-1".to_owned())]), ConnectionEnd::Close)
            }
            Self::ControlByte => {
                let note = HeaderName::from_static("x-note");
                let headers = [(note, "a\u{1}b".to_owned()), (CONTENT_LENGTH, length.to_string())];
                reply.script(with(&headers), ConnectionEnd::Close)
            }
            Self::NoHead => SocketScript {
                status: None,
                ..reply.script(reply.body.clone(), ConnectionEnd::Close)
            },
            Self::BodyWithoutContent => {
                let empty = WireReply { status: http::StatusCode::NO_CONTENT, ..reply.clone() };
                empty.script([&empty.head(&[])[..], b"stray"].concat(), ConnectionEnd::Keep)
            }
        }
    }
}
