//! Bodies that are compressed, broken, or unlike the platform's.

use std::io::Write as _;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{CONTENT_ENCODING, HeaderValue};
use serde_json::Value;

use super::input::FaultField;
use super::kind::{FaultEffect, FaultKind};
use crate::script::{SocketReply, WireReply};

const CUT_BYTES: FaultField =
    FaultField::number("bytes", "compressed bytes that are missing at the end", 12, 1, 1 << 30);
const DEPTH: FaultField =
    FaultField::number("depth", "arrays around the body", 10_000, 1, 1_000_000);

/// What is wrong with the body; its length is correct.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BodyFault {
    Gzip,
    GzipCut { bytes: usize },
    InvalidJson,
    DeepJson { depth: usize },
    DuplicateKey,
    NoEnvelope,
}

pub(super) const KINDS: [FaultKind; 6] = [
    FaultKind::plain(
        "gzip",
        "the body is compressed although the request did not ask for it",
        |_| Ok(Box::new(BodyFault::Gzip)),
    ),
    FaultKind::plain("gzip_cut", "the body is compressed and its end is missing", |fields| {
        Ok(Box::new(BodyFault::GzipCut { bytes: fields.size(&CUT_BYTES)? }))
    })
    .with(&[CUT_BYTES]),
    FaultKind::plain("invalid_json", "the last byte of the JSON is missing", |_| {
        Ok(Box::new(BodyFault::InvalidJson))
    }),
    FaultKind::plain("deep_json", "the JSON is nested in very many arrays", |fields| {
        Ok(Box::new(BodyFault::DeepJson { depth: fields.size(&DEPTH)? }))
    })
    .with(&[DEPTH]),
    FaultKind::plain("duplicate_key", "the first name of the JSON appears twice", |_| {
        Ok(Box::new(BodyFault::DuplicateKey))
    }),
    FaultKind::plain("no_envelope", "the inner object alone", |_| {
        Ok(Box::new(BodyFault::NoEnvelope))
    })
    .only_on("platform_beta"),
];

impl FaultEffect for BodyFault {
    fn spoil(&self, reply: WireReply, _path: &str) -> SocketReply {
        SocketReply::Whole(match *self {
            Self::Gzip => compressed(reply, 0),
            Self::GzipCut { bytes } => compressed(reply, bytes),
            Self::InvalidJson => {
                let kept = reply.body.len().saturating_sub(1);
                WireReply { body: reply.body.slice(..kept), ..reply }
            }
            Self::DeepJson { depth } => {
                let (open, close) = ("[".repeat(depth), "]".repeat(depth));
                let body = [open.as_bytes(), &reply.body, close.as_bytes()].concat();
                WireReply { body: Bytes::from(body), ..reply }
            }
            Self::DuplicateKey => {
                let body = with_first_name_twice(&reply.body).map_or(reply.body, Bytes::from);
                WireReply { body, ..reply }
            }
            Self::NoEnvelope => {
                let read = serde_json::from_slice::<Value>(&reply.body).ok();
                let inner = read.as_ref().and_then(|body| body.get("response"));
                let body = inner.map_or(reply.body, |inner| Bytes::from(inner.to_string()));
                WireReply { body, ..reply }
            }
        })
    }
}

/// The response with its body compressed and `missing` bytes cut off its end.
fn compressed(mut reply: WireReply, missing: usize) -> WireReply {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    // Writing to memory cannot fail.
    let written = encoder.write_all(&reply.body).and_then(|()| encoder.finish());
    let mut body = written.unwrap_or_default();
    body.truncate(body.len().saturating_sub(missing));
    reply.headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    WireReply { body: Bytes::from(body), ..reply }
}

/// `{"a":1}` as `{"a":null,"a":1}`, at the first object that has a name.
fn with_first_name_twice(body: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(body).ok()?;
    let at = text.find("{\"")? + 1;
    let (before, object) = text.split_at(at);
    let name = object.get(..=object.get(1..)?.find('"')? + 1)?;
    Some(format!("{before}{name}:null,{object}").into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_name_appears_twice() {
        let twice = |text: &str| {
            with_first_name_twice(text.as_bytes()).map(|it| String::from_utf8(it).unwrap())
        };

        assert_eq!(twice(r#"{"a":1}"#).unwrap(), r#"{"a":null,"a":1}"#);
        assert_eq!(twice(r#"[{"b":{}}]"#).unwrap(), r#"[{"b":null,"b":{}}]"#);
        assert_eq!(twice("[]"), None);
    }
}
