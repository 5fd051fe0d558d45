//! One request to a scripted processor, in a form that can be read.

use std::fmt::Debug;

use processor_client::{IdempotencyKey, ProcessorClient, ProcessorError};
use scripted_peer::ScriptedPlatform;
use serde_json::Value;

use crate::requests::{answer, answering, processor};

/// A processor that answers everything with this object.
pub(crate) fn replying(body: &Value) -> (ScriptedPlatform, ProcessorClient) {
    let wire = answering(vec![answer("200 OK", "", &body.to_string())]);
    let processor = processor(&wire.url(), 0);
    (wire, processor)
}

pub(crate) fn key() -> IdempotencyKey {
    IdempotencyKey::of("test", 1).unwrap()
}

/// The request line and the body of the one request.
pub(crate) fn sent(wire: &ScriptedPlatform) -> (String, String) {
    let text = wire.only();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.lines().next().unwrap().trim_end_matches(" HTTP/1.1").to_owned(), body.to_owned())
}

/// What leaves for a call that is answered with `answer`: the method, the path, and each parameter
/// on a line of its own.
pub(crate) async fn request_of<T: Debug>(
    answer: &Value,
    call: impl AsyncFnOnce(&ProcessorClient) -> Result<T, ProcessorError>,
) -> String {
    let (wire, processor) = replying(answer);
    call(&processor).await.unwrap();
    let (line, body) = sent(&wire);
    let (line, query) = line.split_once('?').unwrap_or((&line, ""));
    assert!(query.is_empty() || body.is_empty(), "{line}: parameters in the path and in the body");
    let parameters = form_urlencoded::parse(query.as_bytes())
        .chain(form_urlencoded::parse(body.as_bytes()))
        .map(|(name, value)| format!("\n{name}={value}"));
    format!("{line}{}", parameters.collect::<String>())
}

/// The lines of `text` without what they are indented with here.
pub(crate) fn lines(text: &str) -> String {
    text.trim().lines().map(str::trim).collect::<Vec<_>>().join("\n")
}
