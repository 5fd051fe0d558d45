//! Says whose fault a failed request is, and whether the platform may have seen it.

use std::error::Error as StdError;

use super::connect::{ConnectFailure, Watch};
use crate::error::{ClientError, Fault, Kind};

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

/// A request that found no answer on its connection. `is_unsent`: hyper gave it back, so none of it was written.
pub(super) fn of(error: hyper::Error, is_unsent: bool, watch: &Watch) -> ClientError {
    if watch.were_too_many() {
        return ClientError::bad_response(TOO_MANY);
    }
    let (fault, kind, sent, retryable) = judge(&error, is_unsent, watch);
    ClientError { fault, kind, sent, retryable, source: Some(error.into()) }
}

fn judge(error: &hyper::Error, is_unsent: bool, watch: &Watch) -> (Fault, Kind, bool, bool) {
    if error.is_parse() {
        return (Fault::Theirs, Kind::BadResponse("it is not well-formed HTTP"), true, false);
    }
    if let Some(http2) = http2_error(error) {
        if http2.is_library() {
            return (Fault::Theirs, Kind::BadResponse("it is not well-formed HTTP/2"), true, false);
        }
        if http2.is_remote()
            && http2.is_reset()
            && http2.reason() == Some(h2::Reason::REFUSED_STREAM)
        {
            // Said only of requests that were not looked at (RFC 9113, section 8.7).
            return (Fault::Theirs, Kind::Closed, false, true);
        }
    }
    if error.is_user() {
        return (Fault::Ours, Kind::Closed, true, false);
    }
    if is_unsent || error.is_canceled() {
        return (Fault::Network, Kind::Closed, false, true);
    }
    (Fault::Network, Kind::Closed, true, watch.was_given_up())
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
