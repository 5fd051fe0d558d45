//! When an account's token endpoint may be called again after it failed or refused.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use domain::time::Timestamp;
use parking_lot::Mutex;

/// The first and the longest pause after a failure of the endpoint.
const FAILED_S: (i64, i64) = (1, 60);
/// The first and the longest pause after a refusal: the refresh token is most likely dead.
const REFUSED_S: (i64, i64) = (60, 3_600);
/// How often a token that the platform refuses before its expiry may be replaced.
const REPLACE_EVERY_S: i64 = 60;

/// How the latest refresh of an account's token ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum LastRefresh {
    /// It returned a fresh token, or there was no refresh yet.
    #[default]
    Fine,
    /// The endpoint could not be reached, or returned an unusable response.
    Failed,
    /// The endpoint refused this service, or refused without saying why: the refresh token may be
    /// good.
    EndpointRefused,
    /// The endpoint refused for a reason that may or may not be temporary.
    Refused,
    /// The endpoint refused the refresh token permanently.
    TokenDead,
}

impl LastRefresh {
    /// Whether the endpoint failed, which says nothing about the refresh token.
    const fn is_endpoints(self) -> bool {
        matches!(self, Self::Failed | Self::EndpointRefused)
    }

    /// The value for metrics.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Fine => "refreshed",
            Self::Failed => "failed",
            Self::EndpointRefused => "service_refused",
            Self::Refused | Self::TokenDead => "token_refused",
        }
    }

    /// Whether another refresh token might work.
    const fn is_tokens(self) -> bool {
        matches!(self, Self::Refused | Self::TokenDead)
    }
}

/// Identifies a refresh token within this process. It is never written anywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TokenMark(u64);

impl TokenMark {
    /// The mark of a refresh token.
    pub(super) fn of(refresh_token: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        refresh_token.hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// The results of refreshing the token of one account.
#[derive(Default)]
pub(crate) struct TokenPauses(Mutex<State>);

#[derive(Default)]
struct State {
    /// Consecutive failures and refusals.
    in_a_row: u32,
    last: LastRefresh,
    /// The refresh token that these results belong to.
    token: Option<TokenMark>,
    ask_from: Option<Timestamp>,
    replace_from: Option<Timestamp>,
}

impl TokenPauses {
    /// Forgets what happened to another refresh token: the account was connected again, or its
    /// token was refreshed. A new one is tried immediately, also where the endpoint failed for the
    /// one before. How often a token may be replaced that the platform refuses still counts, unless
    /// it was the token before that was refused.
    pub(super) fn note_token(&self, token: Option<TokenMark>) {
        let mut state = self.0.lock();
        if state.token != token {
            let replace_from = state.replace_from.filter(|_| !state.last.is_tokens());
            *state = State { token, replace_from, ..State::default() };
        }
    }

    /// Whether the endpoint may be called.
    pub(super) fn may_ask(&self, now: Timestamp) -> bool {
        self.0.lock().ask_from.is_none_or(|from| from <= now)
    }

    /// Whether a token that the platform refused before its expiry may be replaced.
    pub(super) fn may_replace_refused(&self, now: Timestamp) -> bool {
        let state = self.0.lock();
        [state.ask_from, state.replace_from].iter().flatten().all(|from| *from <= now)
    }

    /// The result of the latest refresh.
    pub(super) fn last(&self) -> LastRefresh {
        self.0.lock().last
    }

    /// Whether the endpoint failed when it was last called, which says nothing about the refresh
    /// token.
    pub(super) fn is_endpoint_failing(&self) -> bool {
        self.last().is_endpoints()
    }

    /// Records that a fresh token was returned.
    pub(super) fn refreshed(&self) {
        let mut state = self.0.lock();
        state.in_a_row = 0;
        state.last = LastRefresh::Fine;
        state.ask_from = None;
    }

    /// Records that a refused token was replaced.
    pub(super) fn replaced_refused(&self, now: Timestamp) {
        self.0.lock().replace_from = Some(now.plus_seconds(REPLACE_EVERY_S));
    }

    /// Records a failure or refusal: the endpoint is called again after a pause.
    pub(super) fn failed(&self, now: Timestamp, how: LastRefresh) {
        let (first_s, longest_s) = if how.is_endpoints() { FAILED_S } else { REFUSED_S };
        let mut state = self.0.lock();
        let is_same = state.last.is_endpoints() == how.is_endpoints();
        let before = if is_same { state.in_a_row } else { 0 };
        state.last = how;
        state.in_a_row = before.saturating_add(1);
        let doubled = first_s.saturating_mul(1 << before.min(16));
        state.ask_from = Some(now.plus_seconds(doubled.min(longest_s)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_unix_micros(0).plus_seconds(seconds)
    }

    #[test]
    fn pauses_grow_until_a_refresh_succeeds() {
        let pauses = TokenPauses::default();
        assert!(pauses.may_ask(at(0)) && !pauses.is_endpoint_failing());

        pauses.failed(at(0), LastRefresh::Failed);
        assert!(pauses.is_endpoint_failing());
        assert!(!pauses.may_ask(at(0)) && pauses.may_ask(at(1)));
        pauses.failed(at(1), LastRefresh::Failed);
        assert!(!pauses.may_ask(at(2)) && pauses.may_ask(at(3)));
        for _ in 0..40 {
            pauses.failed(at(3), LastRefresh::EndpointRefused);
        }
        assert!(!pauses.may_ask(at(62)) && pauses.may_ask(at(63)));

        pauses.refreshed();
        assert!(pauses.may_ask(at(3)) && !pauses.is_endpoint_failing());
    }

    #[test]
    fn refusal_pauses_longer_and_is_not_an_endpoint_failure() {
        let pauses = TokenPauses::default();
        pauses.failed(at(0), LastRefresh::Failed);

        pauses.failed(at(10), LastRefresh::Refused);

        assert!(!pauses.is_endpoint_failing());
        assert!(!pauses.may_ask(at(69)) && pauses.may_ask(at(70)));
        assert!(!pauses.may_replace_refused(at(69)));
    }

    #[test]
    fn refused_token_is_replaced_once_a_minute() {
        let pauses = TokenPauses::default();
        assert!(pauses.may_replace_refused(at(0)));

        pauses.replaced_refused(at(0));

        assert!(!pauses.may_replace_refused(at(59)) && pauses.may_replace_refused(at(60)));
        assert!(pauses.may_ask(at(0)), "an expiring token is still refreshed");
    }

    #[test]
    fn what_happened_to_one_token_holds_no_other_one_back() {
        let pauses = TokenPauses::default();
        let [old, new] = ["old", "new"].map(|token| Some(TokenMark::of(token)));
        for how in [LastRefresh::TokenDead, LastRefresh::Failed, LastRefresh::EndpointRefused] {
            pauses.note_token(old);
            pauses.failed(at(0), how);
            pauses.note_token(old);
            assert!(!pauses.may_ask(at(0)) && pauses.last() == how);

            pauses.note_token(new);
            assert!(pauses.may_ask(at(0)) && pauses.last() == LastRefresh::Fine);
        }
        pauses.failed(at(0), LastRefresh::Failed);
        assert!(!pauses.may_ask(at(0)) && pauses.may_ask(at(1)), "pauses begin anew");
    }

    #[test]
    fn an_endpoint_that_returns_a_new_refresh_token_each_time_is_called_once_a_minute() {
        let pauses = TokenPauses::default();
        pauses.note_token(Some(TokenMark::of("first")));
        pauses.refreshed();
        pauses.replaced_refused(at(0));

        pauses.note_token(Some(TokenMark::of("second")));

        assert!(!pauses.may_replace_refused(at(59)) && pauses.may_replace_refused(at(60)));
    }
}
