//! Says whose fault a failed request is, and whether the platform may have carried it out.

use std::error::Error as StdError;

use super::connect::{ConnectFailure, ConnectionWatch};
use crate::error::{CallErrorKind, CallFault, CallPhase, ClientError};

/// Why an answer with too many informational ones before it is not passed on.
const TOO_MANY: &str = "too many informational answers";

/// There is no connection, so nothing was sent.
pub(super) fn connect(failure: ConnectFailure) -> ClientError {
    let kind = failure.kind;
    ClientError {
        fault: if kind == CallErrorKind::Tls { CallFault::Theirs } else { CallFault::Network },
        kind,
        sent: false,
        retryable: kind == CallErrorKind::Connect,
        source: Some(failure.into()),
    }
}

/// A request that found no response on its connection. `is_unsent`: hyper gave it back, so none of
/// it was written.
pub(super) fn of(error: hyper::Error, is_unsent: bool, watch: &ConnectionWatch) -> ClientError {
    let sent = !(is_unsent || watch.is_unwritten() || is_refused(&error));
    if watch.were_too_many() {
        return ClientError { sent, ..ClientError::bad_response(TOO_MANY) };
    }
    let (fault, kind) = judge(&error);
    let retryable = match kind {
        CallErrorKind::Closed if fault != CallFault::Ours => !sent || watch.was_given_up(),
        _ => false,
    };
    ClientError { fault, kind, sent, retryable, source: Some(error.into()) }
}

/// No head came in time. Where nothing was written before, nothing will be: the connection is
/// closed.
pub(super) fn late(watch: &ConnectionWatch) -> ClientError {
    ClientError {
        fault: CallFault::Theirs,
        kind: CallErrorKind::Timeout(CallPhase::FirstByte),
        sent: !watch.is_unwritten(),
        retryable: false,
        source: None,
    }
}

/// hyper does not say which of the two it was.
const NOT_HTTP: &str =
    "it is not well-formed HTTP, or its head has more than 100 headers or 64 KiB";

fn judge(error: &hyper::Error) -> (CallFault, CallErrorKind) {
    if error.is_parse() {
        return (CallFault::Theirs, CallErrorKind::BadResponse(NOT_HTTP));
    }
    if http2_error(error).is_some_and(h2::Error::is_library) {
        return (CallFault::Theirs, CallErrorKind::BadResponse("it is not well-formed HTTP/2"));
    }
    if is_refused(error) {
        return (CallFault::Theirs, CallErrorKind::Closed);
    }
    (if error.is_user() { CallFault::Ours } else { CallFault::Network }, CallErrorKind::Closed)
}

/// Whether the other side says that it did not look at the request (RFC 9113, section 8.7): it
/// reset the stream as refused, or it said goodbye and named an earlier stream as the last that it
/// looked at.
///
/// A goodbye ends only the streams behind the one that it names, and those that have not begun. All
/// others go on, and when the connection ends before their response they fail as broken off. hyper
/// looks for a goodbye also right after it has handed a request to the connection; calls and their
/// connections run on one thread, so that nothing of the request is written in between.
fn is_refused(error: &hyper::Error) -> bool {
    http2_error(error).is_some_and(|http2| {
        http2.is_remote()
            && (http2.is_go_away()
                || (http2.is_reset() && http2.reason() == Some(h2::Reason::REFUSED_STREAM)))
    })
}

fn http2_error(error: &hyper::Error) -> Option<&h2::Error> {
    let mut next: Option<&(dyn StdError + 'static)> = error.source();
    while let Some(current) = next {
        if let Some(found) = current.downcast_ref() {
            return Some(found);
        }
        next = current.source();
    }
    None
}
