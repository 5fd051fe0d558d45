//! Says whose fault a failed request is, and whether the platform may have carried it out.

use std::error::Error as StdError;

use super::connect::{ConnectFailure, Watch};
use crate::error::{ClientError, Fault, Kind, Phase};

/// Why an answer with too many informational ones before it is not passed on.
const TOO_MANY: &str = "too many informational answers";

/// There is no connection, so nothing was sent.
pub(super) fn connect(failure: ConnectFailure) -> ClientError {
    let kind = failure.kind;
    ClientError {
        fault: if kind == Kind::Tls { Fault::Theirs } else { Fault::Network },
        kind,
        sent: false,
        retryable: kind == Kind::Connect,
        source: Some(failure.into()),
    }
}

/// A request that found no response on its connection. `is_unsent`: hyper gave it back, so none of it was written.
pub(super) fn of(error: hyper::Error, is_unsent: bool, watch: &Watch) -> ClientError {
    let sent = !(is_unsent || watch.is_unwritten() || is_refused(&error));
    if watch.were_too_many() {
        return ClientError { sent, ..ClientError::bad_response(TOO_MANY) };
    }
    let (fault, kind) = judge(&error);
    let retryable = match kind {
        Kind::Closed if fault != Fault::Ours => !sent || watch.was_given_up(),
        _ => false,
    };
    ClientError { fault, kind, sent, retryable, source: Some(error.into()) }
}

/// No head came in time. Where nothing was written before, nothing will be: the connection is closed.
pub(super) fn late(watch: &Watch) -> ClientError {
    ClientError {
        fault: Fault::Theirs,
        kind: Kind::Timeout(Phase::FirstByte),
        sent: !watch.is_unwritten(),
        retryable: false,
        source: None,
    }
}

fn judge(error: &hyper::Error) -> (Fault, Kind) {
    if error.is_parse() {
        return (Fault::Theirs, Kind::BadResponse("it is not well-formed HTTP"));
    }
    if http2_error(error).is_some_and(h2::Error::is_library) {
        return (Fault::Theirs, Kind::BadResponse("it is not well-formed HTTP/2"));
    }
    if is_refused(error) {
        return (Fault::Theirs, Kind::Closed);
    }
    (if error.is_user() { Fault::Ours } else { Fault::Network }, Kind::Closed)
}

/// Whether the other side says that it did not look at the request (RFC 9113, section 8.7): it reset the
/// stream as refused, or it said goodbye and named an earlier stream as the last that it looked at.
///
/// A goodbye ends only the streams behind the one that it names, and those that have not begun. All
/// others go on, and when the connection ends before their response they fail as broken off. hyper looks for a goodbye also
/// right after it has handed a request to the connection; calls and their connections run on one thread, so that nothing of
/// the request is written in between.
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
