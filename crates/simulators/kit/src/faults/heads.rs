//! Heads with another status, type or location than the platform would send; heads that are too
//! large; and informational responses.

use bytes::Bytes;
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION};
use serde_json::Value;

use super::input::{FaultField, FieldMistake, SentFields};
use super::kind::{FaultEffect, FaultKind};
use crate::script::{ConnectionEnd, ScriptStep, SocketReply, SocketScript, WireReply};

const STATUS: FaultField = FaultField::number("status", "the status", 500, 200, 999);
const HEADERS: FaultField = FaultField {
    name: "headers",
    says: "additional headers, such as {\"Retry-After\": \"30\"}",
    value: super::input::FieldValue::Headers,
};
const BODY: FaultField = FaultField {
    name: "body",
    says: "a JSON body; by default the platform's own refusal",
    value: super::input::FieldValue::Json,
};
const REDIRECT_STATUS: FaultField = FaultField::number("status", "the status", 302, 300, 399);
const LOCATION_FIELD: FaultField =
    FaultField::text("location", "where to", "http://169.254.169.254/latest/meta-data/");
const VALUE: FaultField = FaultField::text("value", "the content type", "text/html");
const BYTES: FaultField = FaultField::number("bytes", "bytes of one header", 600_000, 1, 64 << 20);
const HEADERS_COUNT: FaultField = FaultField::number("count", "how many headers", 150, 1, 100_000);
const HINTS_COUNT: FaultField =
    FaultField::number("count", "how many of them", 2_000, 1, 1_000_000);
const PROTOCOL: FaultField = FaultField::text("protocol", "the other protocol", "websocket");

/// What is wrong with the head.
#[derive(Clone, Debug)]
pub(crate) enum HeadFault {
    Status { status: StatusCode, headers: HeaderMap, body: Option<Value> },
    Redirect { status: StatusCode, location: HeaderValue },
    ContentType { value: HeaderValue },
    LongHeader { bytes: usize },
    ManyHeaders { count: usize },
    Informational { count: u64 },
    SwitchProtocols { protocol: HeaderValue },
}

pub(super) const KINDS: [FaultKind; 7] = [
    FaultKind::plain(
        "status",
        "another status, such as 500, 429 with Retry-After, or 999",
        |fields| {
            let (status, headers) = (status(fields, &STATUS)?, fields.headers(&HEADERS)?);
            Ok(Box::new(HeadFault::Status { status, headers, body: fields.json(&BODY) }))
        },
    )
    .with(&[STATUS, HEADERS, BODY])
    .not_carried_out(),
    FaultKind::plain("redirect", "the caller is redirected", |fields| {
        let status = status(fields, &REDIRECT_STATUS)?;
        let location = fields.header_value(&LOCATION_FIELD)?;
        Ok(Box::new(HeadFault::Redirect { status, location }))
    })
    .with(&[REDIRECT_STATUS, LOCATION_FIELD])
    .not_carried_out(),
    FaultKind::plain("content_type", "the body is labelled as something else", |fields| {
        Ok(Box::new(HeadFault::ContentType { value: fields.header_value(&VALUE)? }))
    })
    .with(&[VALUE]),
    FaultKind::plain("long_header", "one header that is far too long", |fields| {
        Ok(Box::new(HeadFault::LongHeader { bytes: fields.size(&BYTES)? }))
    })
    .with(&[BYTES]),
    FaultKind::plain("many_headers", "far too many headers", |fields| {
        Ok(Box::new(HeadFault::ManyHeaders { count: fields.size(&HEADERS_COUNT)? }))
    })
    .with(&[HEADERS_COUNT]),
    FaultKind::plain("informational", "responses of status 103 before the final one", |fields| {
        Ok(Box::new(HeadFault::Informational { count: fields.number(&HINTS_COUNT)? }))
    })
    .with(&[HINTS_COUNT]),
    FaultKind::plain(
        "switch_protocols",
        "status 101, as if an upgrade had been requested",
        |fields| {
            Ok(Box::new(HeadFault::SwitchProtocols { protocol: fields.header_value(&PROTOCOL)? }))
        },
    )
    .with(&[PROTOCOL])
    .not_carried_out(),
];

fn status(fields: &mut SentFields, field: &FaultField) -> Result<StatusCode, FieldMistake> {
    let number = u16::try_from(fields.number(field)?).unwrap_or_default();
    StatusCode::from_u16(number).map_err(|_| FieldMistake::new(field.name, "must be a status"))
}

impl FaultEffect for HeadFault {
    fn refusal_status(&self) -> StatusCode {
        match self {
            Self::Status { status, .. } | Self::Redirect { status, .. } => *status,
            Self::ContentType { .. }
            | Self::LongHeader { .. }
            | Self::ManyHeaders { .. }
            | Self::Informational { .. }
            | Self::SwitchProtocols { .. } => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    fn spoil(&self, mut reply: WireReply, _path: &str) -> SocketReply {
        match self {
            Self::Status { status, headers, body } => {
                reply.status = *status;
                reply.headers.extend(headers.clone());
                if let Some(body) = body {
                    reply.body = Bytes::from(body.to_string());
                    reply.headers.entry(CONTENT_TYPE).or_insert(json());
                }
                SocketReply::Whole(reply)
            }
            Self::Redirect { status, location } => {
                reply.status = *status;
                reply.headers.insert(LOCATION, location.clone());
                SocketReply::Whole(reply)
            }
            Self::ContentType { value } => {
                reply.headers.insert(CONTENT_TYPE, value.clone());
                SocketReply::Whole(reply)
            }
            Self::LongHeader { bytes } => {
                let padding = HeaderName::from_static("x-padding");
                SocketReply::Script(with_headers(&reply, vec![(padding, "a".repeat(*bytes))]))
            }
            Self::ManyHeaders { count } => {
                let name = |at: usize| HeaderName::from_bytes(format!("x-{at}").as_bytes()).ok();
                let headers = (0..*count).filter_map(name).map(|name| (name, "y".to_owned()));
                SocketReply::Script(with_headers(&reply, headers.collect()))
            }
            Self::Informational { count } => {
                let mut script = reply.script(reply.framed(), ConnectionEnd::Keep);
                let hint = Bytes::from_static(b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n");
                script.steps.insert(0, ScriptStep::Repeat { bytes: hint, times: *count });
                SocketReply::Script(script)
            }
            Self::SwitchProtocols { protocol } => {
                let switch = WireReply {
                    status: StatusCode::SWITCHING_PROTOCOLS,
                    headers: HeaderMap::from_iter([
                        (http::header::UPGRADE, protocol.clone()),
                        (http::header::CONNECTION, HeaderValue::from_static("upgrade")),
                    ]),
                    body: Bytes::new(),
                };
                SocketReply::Script(switch.script(switch.head(&[]), ConnectionEnd::Hang))
            }
        }
    }
}

fn json() -> HeaderValue {
    HeaderValue::from_static("application/json")
}

/// The response with these headers before its length.
fn with_headers(reply: &WireReply, mut headers: Vec<(HeaderName, String)>) -> SocketScript {
    headers.push((http::header::CONTENT_LENGTH, reply.body.len().to_string()));
    reply.script([&reply.head(&headers)[..], &reply.body].concat(), ConnectionEnd::Close)
}
