//! Bodies that are far too large, sent by repeating a piece that is built once: neither the
//! compressed nor the plain size is ever in memory.

use bytes::Bytes;
use flate2::{Compress, Compression, Crc, FlushCompress};
use http::header::{CONTENT_ENCODING, HeaderValue};

use super::input::FaultField;
use super::kind::{FaultEffect, FaultKind};
use crate::script::{ConnectionEnd, ScriptStep, SocketReply, SocketScript, WireReply};

const MEBIBYTE: u64 = 1024 * 1024;

const PLAIN: FaultField =
    FaultField::number("mebibytes", "size once it is decompressed", 1_024, 1, 64 * 1_024);
const LONG: FaultField = FaultField::number("mebibytes", "size of the body", 100, 1, 64 * 1_024);

/// The filling: spaces, which JSON allows in front of a value.
const FILLING: u8 = b' ';

/// How large the body is, in mebibytes before the original body.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SizeFault {
    Gzip { mebibytes: u64 },
    Long { mebibytes: u64 },
}

pub(super) const KINDS: [FaultKind; 2] = [
    FaultKind::plain(
        "gzip_bomb",
        "a small compressed body that is huge once decompressed",
        |fields| Ok(Box::new(SizeFault::Gzip { mebibytes: fields.number(&PLAIN)? })),
    )
    .with(&[PLAIN]),
    FaultKind::plain("long_body", "a body padded with spaces", |fields| {
        Ok(Box::new(SizeFault::Long { mebibytes: fields.number(&LONG)? }))
    })
    .with(&[LONG]),
];

impl FaultEffect for SizeFault {
    fn spoil(&self, reply: WireReply, _path: &str) -> SocketReply {
        SocketReply::Script(self.script(&reply))
    }
}

impl SizeFault {
    fn script(self, reply: &WireReply) -> SocketScript {
        match self {
            Self::Long { mebibytes } => {
                let times = mebibytes * 16;
                let bytes = Bytes::from(vec![FILLING; 64 * 1024]);
                let length = mebibytes * MEBIBYTE + reply.body.len() as u64;
                let mut script = reply.script(reply.head_with_length(length), ConnectionEnd::Keep);
                script.steps.push(ScriptStep::Repeat { bytes, times });
                script.steps.push(ScriptStep::Send(reply.body.clone()));
                script
            }
            Self::Gzip { mebibytes } => gzip_bomb(reply, mebibytes),
        }
    }
}

/// One gzip member: its compressed mebibyte of filling ends at a byte boundary and refers to
/// nothing before it, so that it can be repeated; the original body is the last block.
fn gzip_bomb(reply: &WireReply, mebibytes: u64) -> SocketScript {
    let filling = vec![FILLING; usize::try_from(MEBIBYTE).unwrap_or(0)];
    let block = deflated(&filling, FlushCompress::Full);
    let last = deflated(&reply.body, FlushCompress::Finish);
    let mut trailer = Vec::new();
    trailer.extend(checksum(&filling, mebibytes, &reply.body).to_le_bytes());
    let plain = (mebibytes * MEBIBYTE + reply.body.len() as u64) & u64::from(u32::MAX);
    trailer.extend(u32::try_from(plain).unwrap_or(0).to_le_bytes());

    let magic: &[u8] = &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 2, 255];
    let end = [&last[..], &trailer].concat();
    let length = (magic.len() + end.len()) as u64 + block.len() as u64 * mebibytes;
    let mut coded = reply.clone();
    coded.headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    let start = [&coded.head_with_length(length)[..], magic].concat();
    let mut script = coded.script(start, ConnectionEnd::Keep);
    script.steps.push(ScriptStep::Repeat { bytes: Bytes::from(block), times: mebibytes });
    script.steps.push(ScriptStep::Send(Bytes::from(end)));
    script
}

/// The bytes as a part of a raw deflate stream.
fn deflated(bytes: &[u8], flush: FlushCompress) -> Vec<u8> {
    let mut compress = Compress::new(Compression::best(), false);
    let mut out = Vec::with_capacity(bytes.len() / 256 + bytes.len().min(1 << 16) + 1024);
    // The output has room for everything, so this cannot fail.
    drop(compress.compress_vec(bytes, &mut out, flush));
    out
}

/// The checksum of `times` pieces of filling and the body after them.
fn checksum(filling: &[u8], times: u64, body: &[u8]) -> u32 {
    let of = |bytes: &[u8]| {
        let mut crc = Crc::new();
        crc.update(bytes);
        crc
    };
    let (piece, mut sum) = (of(filling), Crc::new());
    for _ in 0..times {
        sum.combine(&piece);
    }
    sum.combine(&of(body));
    sum.sum()
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::GzDecoder;
    use http::{HeaderMap, StatusCode};

    use super::*;

    fn reply() -> WireReply {
        let body = Bytes::from_static(br#"{"success":true}"#);
        WireReply { status: StatusCode::OK, headers: HeaderMap::new(), body }
    }

    /// All bytes after the head.
    fn body_of(script: &SocketScript) -> Vec<u8> {
        let mut sent = Vec::new();
        for step in &script.steps {
            match step {
                ScriptStep::Send(bytes) => sent.extend_from_slice(bytes),
                ScriptStep::Repeat { bytes, times } => {
                    for _ in 0..*times {
                        sent.extend_from_slice(bytes);
                    }
                }
                ScriptStep::Drip { .. } | ScriptStep::Wait(_) => panic!("a bomb does not wait"),
            }
        }
        let end = sent.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
        let head = String::from_utf8(sent[..end].to_vec()).unwrap();
        let body = sent.split_off(end);
        assert!(head.contains(&format!("content-length: {}\r\n", body.len())), "{head}");
        body
    }

    #[test]
    fn a_bomb_is_one_valid_member_that_ends_with_the_original_body() {
        let body = body_of(&SizeFault::Gzip { mebibytes: 5 }.script(&reply()));

        let mut plain = Vec::new();
        GzDecoder::new(&body[..]).read_to_end(&mut plain).unwrap();

        assert_eq!(plain.len(), 5 * 1024 * 1024 + 16);
        assert!(plain.trim_ascii_start() == br#"{"success":true}"#);
        assert!(body.len() < 6 * 1024, "{} bytes", body.len());
    }

    #[test]
    fn a_bomb_of_a_gibibyte_is_about_a_mebibyte() {
        let script = SizeFault::Gzip { mebibytes: 1024 }.script(&reply());

        let body = body_of(&script);

        assert!((512 * 1024..2 * 1024 * 1024).contains(&body.len()), "{} bytes", body.len());
        let held: usize = script
            .steps
            .iter()
            .map(|step| match step {
                ScriptStep::Send(bytes)
                | ScriptStep::Repeat { bytes, .. }
                | ScriptStep::Drip { bytes, .. } => bytes.len(),
                ScriptStep::Wait(_) => 0,
            })
            .sum();
        assert!(held < 8 * 1024, "{held} bytes are held");
    }

    #[test]
    fn a_long_body_is_filling_and_the_original_body() {
        let body = body_of(&SizeFault::Long { mebibytes: 2 }.script(&reply()));

        assert_eq!(body.len(), 2 * 1024 * 1024 + 16);
        assert!(body.trim_ascii_start() == br#"{"success":true}"#);
    }
}
