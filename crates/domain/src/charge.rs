//! How a call ends, and what it then costs (`docs/money.md`, "What is charged").

use crate::wire::text_enum;

text_enum! {
    /// Where a call stands. `held` is the only state that can change.
    CallState, "one of held, settled, refunded" {
        /// Its credits are set aside; it is on its way or its end is not yet known.
        Held = "held",
        /// It was charged.
        Settled = "settled",
        /// Its credits were given back.
        Refunded = "refunded",
    }
}

text_enum! {
    /// How a call came out, as the call log says it.
    Outcome, "an outcome of a call" {
        /// The platform gave a chargeable answer.
        Answered = "answered",
        /// The call never left this service.
        NotDispatched = "not_dispatched",
        /// No connection to the platform, or it broke before an answer.
        ConnectFailed = "connect_failed",
        /// The platform did not answer, or stopped answering, in time.
        UpstreamTimeout = "upstream_timeout",
        /// The platform answered 5xx.
        Upstream5xx = "upstream_5xx",
        /// The platform responded 401: it did not carry the call out.
        Upstream401 = "upstream_401",
        /// The platform answered 429.
        Upstream429 = "upstream_429",
        /// The platform answered 408, 421 or 425: it did not carry the call out.
        UpstreamNotCarriedOut = "upstream_not_carried_out",
        /// The answer broke the rules of HTTP, or was cut.
        BadResponse = "bad_response",
        /// The caller left before the call did.
        ClientGoneBeforeDispatch = "client_gone_before_dispatch",
        /// This service stopped in the middle; the platform may have acted on the call.
        OutcomeUnknown = "outcome_unknown",
        /// Nobody ended the call in time.
        Expired = "expired",
    }
}

impl Outcome {
    /// The outcome of a complete answer with this status.
    pub const fn of_status(status: u16) -> Self {
        match status {
            401 => Self::Upstream401,
            408 | 421 | 425 => Self::UpstreamNotCarriedOut,
            429 => Self::Upstream429,
            500.. => Self::Upstream5xx,
            _ => Self::Answered,
        }
    }

    /// The state it ends the call in: only what the platform answered is charged.
    pub const fn state(self) -> CallState {
        if self.is_charged() { CallState::Settled } else { CallState::Refunded }
    }

    /// Whether the call is paid for.
    pub const fn is_charged(self) -> bool {
        match self {
            Self::Answered => true,
            Self::NotDispatched
            | Self::ConnectFailed
            | Self::UpstreamTimeout
            | Self::Upstream5xx
            | Self::Upstream401
            | Self::Upstream429
            | Self::UpstreamNotCarriedOut
            | Self::BadResponse
            | Self::ClientGoneBeforeDispatch
            | Self::OutcomeUnknown
            | Self::Expired => false,
        }
    }

    /// Whether it is certain that the platform did nothing: the call did not leave, or the platform said so.
    pub const fn is_certainly_not_carried_out(self) -> bool {
        match self {
            Self::NotDispatched
            | Self::ConnectFailed
            | Self::ClientGoneBeforeDispatch
            | Self::Upstream401
            | Self::Upstream429
            | Self::UpstreamNotCarriedOut => true,
            Self::Answered
            | Self::UpstreamTimeout
            | Self::Upstream5xx
            | Self::BadResponse
            | Self::OutcomeUnknown
            | Self::Expired => false,
        }
    }

    /// Whether the platform may have acted on the call although no answer of its came through.
    pub const fn may_have_happened(self) -> bool {
        match self {
            Self::UpstreamTimeout | Self::BadResponse | Self::OutcomeUnknown | Self::Expired => {
                true
            }
            Self::Answered
            | Self::NotDispatched
            | Self::ConnectFailed
            | Self::Upstream5xx
            | Self::Upstream401
            | Self::Upstream429
            | Self::UpstreamNotCarriedOut
            | Self::ClientGoneBeforeDispatch => false,
        }
    }
}

/// Whether a call counts as `ok` in usage: charged, with a status below 400.
pub const fn is_ok(outcome: Outcome, status: Option<u16>) -> bool {
    match status {
        Some(status) => outcome.is_charged() && status < 400,
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_platform_answered_is_charged() {
        for status in [200, 204, 301, 304, 400, 403, 404, 409, 422, 499] {
            assert!(Outcome::of_status(status).is_charged(), "{status}");
        }
        for status in [401, 408, 421, 425, 429, 500, 502, 503, 504, 599] {
            assert!(!Outcome::of_status(status).is_charged(), "{status}");
        }
        for outcome in Outcome::ALL {
            assert_eq!(outcome.is_charged(), *outcome == Outcome::Answered, "{outcome}");
            assert_eq!(outcome.state() == CallState::Settled, outcome.is_charged(), "{outcome}");
        }
    }

    #[test]
    fn a_call_was_not_carried_out_or_may_have_been_but_never_both() {
        for outcome in Outcome::ALL {
            let is_both = outcome.is_certainly_not_carried_out() && outcome.may_have_happened();
            assert!(!is_both, "{outcome}");
        }
        for status in [408, 421, 425, 429] {
            assert!(Outcome::of_status(status).is_certainly_not_carried_out(), "{status}");
        }
        assert!(!Outcome::of_status(503).is_certainly_not_carried_out());
    }

    #[test]
    fn a_call_is_ok_when_it_was_charged_and_succeeded() {
        assert!(is_ok(Outcome::Answered, Some(200)));
        assert!(!is_ok(Outcome::Answered, Some(404)));
        assert!(!is_ok(Outcome::BadResponse, Some(200)));
        assert!(!is_ok(Outcome::OutcomeUnknown, None));
    }
}
