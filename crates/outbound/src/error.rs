//! What went wrong on the way to somebody else: whose fault it is, and whether to try again.

use std::error::Error as StdError;
use std::fmt;

/// An outbound call that did not end in a usable answer.
///
/// Its text names no address, header or credential, so it may be logged as it is.
#[derive(Debug, thiserror::Error)]
#[error("{kind}")]
pub struct ClientError {
    /// Who is at fault.
    pub fault: CallFault,
    /// What happened.
    pub kind: CallErrorKind,
    /// Whether the other side may have carried the request out. `false` is certain: no byte of it
    /// was written to a connection, or the other side said by the rules of HTTP/2 that it did not
    /// look at it. `true` is not certain.
    pub sent: bool,
    /// Whether a request without effects may be sent again at once: no byte of an answer came, and
    /// the connection was refused, or was an old one that the other side had given up. Never set
    /// for a request that may have been seen on a fresh connection.
    pub retryable: bool,
    /// The error below, for logs.
    #[source]
    pub source: Option<Box<dyn StdError + Send + Sync>>,
}

/// Who is at fault when a call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallFault {
    /// The other side: it answered wrongly, late or not to the end.
    Theirs,
    /// This side: the request could not be made or could not be read to its end.
    Ours,
    /// The way between: no connection, or a broken one.
    Network,
}

/// What went wrong with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallErrorKind {
    /// No connection: the name is unknown, the port refuses, the network is not there.
    Connect,
    /// The TLS handshake failed; no part of the request was sent.
    Tls,
    /// Too slow, in one phase.
    Timeout(CallPhase),
    /// An answer came, but it is not one that may be passed on; the text says why.
    BadResponse(&'static str),
    /// The connection ended before an answer began.
    Closed,
    /// The request could not be built from its parts.
    Build,
    /// The request could not be signed, and was not sent; the text says why.
    Signing(&'static str),
}

/// The phase of a call that took too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallPhase {
    /// Finding the address and connecting to it.
    Connect,
    /// The TLS handshake.
    Tls,
    /// From sending the request to the head of the answer.
    FirstByte,
    /// Between two parts of the answer's body, while one is waited for.
    BetweenBytes,
}

impl ClientError {
    /// An answer that must not be passed on.
    pub const fn bad_response(what: &'static str) -> Self {
        Self {
            fault: CallFault::Theirs,
            kind: CallErrorKind::BadResponse(what),
            sent: true,
            retryable: false,
            source: None,
        }
    }

    /// A request that could not be built.
    pub fn build(source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self {
            fault: CallFault::Ours,
            kind: CallErrorKind::Build,
            sent: false,
            retryable: false,
            source: Some(source.into()),
        }
    }

    /// A request that could not be signed.
    pub const fn signing(what: &'static str) -> Self {
        Self {
            fault: CallFault::Ours,
            kind: CallErrorKind::Signing(what),
            sent: false,
            retryable: false,
            source: None,
        }
    }

    /// The same with the error below it.
    #[must_use]
    pub fn because(self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { source: Some(source.into()), ..self }
    }
}

impl fmt::Display for CallErrorKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect => formatter.write_str("no connection could be made"),
            Self::Tls => formatter.write_str("the TLS handshake failed"),
            Self::Timeout(phase) => write!(formatter, "no progress in time {phase}"),
            Self::BadResponse(what) => write!(formatter, "the answer cannot be used: {what}"),
            Self::Closed => formatter.write_str("the connection ended before an answer began"),
            Self::Build => formatter.write_str("the request could not be built"),
            Self::Signing(what) => write!(formatter, "the request could not be signed: {what}"),
        }
    }
}

impl fmt::Display for CallPhase {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Connect => "while connecting",
            Self::Tls => "during the TLS handshake",
            Self::FirstByte => "before the answer began",
            Self::BetweenBytes => "in the middle of the answer",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_a_text_of_its_own_for_logs() {
        for (kind, text) in [
            (CallErrorKind::Connect, "no connection could be made"),
            (CallErrorKind::Tls, "the TLS handshake failed"),
            (CallErrorKind::Timeout(CallPhase::Connect), "no progress in time while connecting"),
            (
                CallErrorKind::Timeout(CallPhase::Tls),
                "no progress in time during the TLS handshake",
            ),
            (
                CallErrorKind::Timeout(CallPhase::FirstByte),
                "no progress in time before the answer began",
            ),
            (
                CallErrorKind::Timeout(CallPhase::BetweenBytes),
                "no progress in time in the middle of the answer",
            ),
            (
                CallErrorKind::BadResponse("it was cut short"),
                "the answer cannot be used: it was cut short",
            ),
            (CallErrorKind::Closed, "the connection ended before an answer began"),
            (CallErrorKind::Build, "the request could not be built"),
            (
                CallErrorKind::Signing("the signer is gone"),
                "the request could not be signed: the signer is gone",
            ),
        ] {
            assert_eq!(kind.to_string(), text);
        }
    }

    #[test]
    fn only_a_response_means_that_something_was_sent_and_nothing_of_these_is_tried_again() {
        let response = ClientError::bad_response("it was cut short");
        let (built, signed) = (ClientError::build("no host"), ClientError::signing("gone"));

        assert_eq!((response.fault, response.sent), (CallFault::Theirs, true));
        for ours in [&built, &signed] {
            assert_eq!((ours.fault, ours.sent), (CallFault::Ours, false));
        }
        assert!(![&response, &built, &signed].iter().any(|error| error.retryable));
    }

    #[test]
    fn the_error_below_is_kept_for_logs_and_not_part_of_the_text() {
        let error = ClientError::bad_response("it was cut short").because("10.0.0.7 hush");

        assert_eq!(error.to_string(), "the answer cannot be used: it was cut short");
        assert_eq!(error.source().map(ToString::to_string).as_deref(), Some("10.0.0.7 hush"));
        assert!(ClientError::signing("gone").source().is_none());
    }
}
