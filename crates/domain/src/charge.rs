//! How a call ends, and what it costs then (`docs/money.md`, "What is charged").

use crate::wire::text_enum;

text_enum! {
    /// The state of a call. Only `held` can change.
    CallState, "one of held, settled, refunded" {
        /// Its credits are held; the call is running, or its outcome is not known yet.
        Held = "held",
        /// It was charged.
        Settled = "settled",
        /// Its credits were refunded.
        Refunded = "refunded",
    }
}

text_enum! {
    /// How a call ended, as the call log shows it.
    Outcome, "an outcome of a call" {
        /// The platform sent a response that is charged.
        Answered = "answered",
        /// The call never left this service.
        NotDispatched = "not_dispatched",
        /// The connection to the platform failed, or broke before a response.
        ConnectFailed = "connect_failed",
        /// The platform did not respond in time, or stopped in the middle of its response.
        UpstreamTimeout = "upstream_timeout",
        /// The platform responded 5xx.
        Upstream5xx = "upstream_5xx",
        /// The platform responded 401: it did not carry out the call.
        Upstream401 = "upstream_401",
        /// The platform responded 429.
        Upstream429 = "upstream_429",
        /// The platform responded 408, 421 or 425: it did not carry out the call.
        UpstreamNotCarriedOut = "upstream_not_carried_out",
        /// The response violated HTTP, or was cut off.
        BadResponse = "bad_response",
        /// The caller disconnected before the call was sent.
        ClientGoneBeforeDispatch = "client_gone_before_dispatch",
        /// This service stopped during the call; the platform may have acted on it.
        OutcomeUnknown = "outcome_unknown",
        /// The call was not settled in time.
        Expired = "expired",
    }
}

impl Outcome {
    /// The outcome of a complete response with this status.
    pub const fn of_status(status: u16) -> Self {
        match status {
            401 => Self::Upstream401,
            408 | 421 | 425 => Self::UpstreamNotCarriedOut,
            429 => Self::Upstream429,
            500.. => Self::Upstream5xx,
            _ => Self::Answered,
        }
    }

    /// The state in which it ends the call: only calls that the platform answered are charged.
    pub const fn state(self) -> CallState {
        if self.is_charged() { CallState::Settled } else { CallState::Refunded }
    }

    /// Whether the call is charged.
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

    /// Whether it is certain that the platform did nothing: the call was not sent, or the platform
    /// said so.
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

    /// Whether the platform may have acted on the call although no response arrived.
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
    fn only_calls_that_the_platform_answered_are_charged() {
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
    fn no_outcome_is_both_certainly_not_carried_out_and_possibly_carried_out() {
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
    fn a_charged_call_with_a_status_below_400_is_ok() {
        assert!(is_ok(Outcome::Answered, Some(200)));
        assert!(!is_ok(Outcome::Answered, Some(404)));
        assert!(!is_ok(Outcome::BadResponse, Some(200)));
        assert!(!is_ok(Outcome::OutcomeUnknown, None));
    }
}
