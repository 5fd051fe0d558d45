//! When an account's token endpoint may be asked again after it failed or refused.

use domain::time::Timestamp;
use parking_lot::Mutex;

/// The first pause after a failure of the endpoint, and the longest.
const FAILED_S: (i64, i64) = (1, 60);
/// The same after a refusal: the refresh token is most likely dead.
const REFUSED_S: (i64, i64) = (60, 3_600);
/// A token that the platform refused although it lasts is replaced once in this time.
const REPLACE_EVERY_S: i64 = 60;

/// What was learnt about refreshing the token of one account.
#[derive(Default)]
pub(crate) struct TokenPauses(Mutex<State>);

#[derive(Default)]
struct State {
    /// Failures and refusals in a row.
    in_a_row: u32,
    was_refused: bool,
    ask_from: Option<Timestamp>,
    replace_from: Option<Timestamp>,
}

impl TokenPauses {
    /// Whether the endpoint may be asked.
    pub(super) fn may_ask(&self, now: Timestamp) -> bool {
        self.0.lock().ask_from.is_none_or(|from| from <= now)
    }

    /// Whether a token may be replaced that the platform refused before its end.
    pub(super) fn may_replace_refused(&self, now: Timestamp) -> bool {
        let state = self.0.lock();
        [state.ask_from, state.replace_from].iter().flatten().all(|from| *from <= now)
    }

    /// Whether the endpoint failed when it was last asked, which says nothing about the refresh token.
    pub(super) fn is_endpoint_failing(&self) -> bool {
        let state = self.0.lock();
        state.in_a_row > 0 && !state.was_refused
    }

    /// It returned a fresh token.
    pub(super) fn refreshed(&self) {
        let mut state = self.0.lock();
        state.in_a_row = 0;
        state.ask_from = None;
    }

    /// A refused token was replaced.
    pub(super) fn replaced_refused(&self, now: Timestamp) {
        self.0.lock().replace_from = Some(now.plus_seconds(REPLACE_EVERY_S));
    }

    /// The endpoint could not be reached, or responded unusably.
    pub(super) fn failed(&self, now: Timestamp) {
        self.pause(now, false, FAILED_S);
    }

    /// It refused the refresh token.
    pub(super) fn refused(&self, now: Timestamp) {
        self.pause(now, true, REFUSED_S);
    }

    fn pause(&self, now: Timestamp, is_refusal: bool, (first_s, longest_s): (i64, i64)) {
        let mut state = self.0.lock();
        let before = if state.was_refused == is_refusal { state.in_a_row } else { 0 };
        state.was_refused = is_refusal;
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
    fn pauses_grow_and_end_with_a_success() {
        let pauses = TokenPauses::default();
        assert!(pauses.may_ask(at(0)) && !pauses.is_endpoint_failing());

        pauses.failed(at(0));
        assert!(pauses.is_endpoint_failing());
        assert!(!pauses.may_ask(at(0)) && pauses.may_ask(at(1)));
        pauses.failed(at(1));
        assert!(!pauses.may_ask(at(2)) && pauses.may_ask(at(3)));
        for _ in 0..40 {
            pauses.failed(at(3));
        }
        assert!(!pauses.may_ask(at(62)) && pauses.may_ask(at(63)));

        pauses.refreshed();
        assert!(pauses.may_ask(at(3)) && !pauses.is_endpoint_failing());
    }

    #[test]
    fn a_refusal_is_waited_for_longer_and_is_no_failure_of_the_endpoint() {
        let pauses = TokenPauses::default();
        pauses.failed(at(0));

        pauses.refused(at(10));

        assert!(!pauses.is_endpoint_failing());
        assert!(!pauses.may_ask(at(69)) && pauses.may_ask(at(70)));
        assert!(!pauses.may_replace_refused(at(69)));
    }

    #[test]
    fn a_refused_token_is_replaced_once_a_minute() {
        let pauses = TokenPauses::default();
        assert!(pauses.may_replace_refused(at(0)));

        pauses.replaced_refused(at(0));

        assert!(!pauses.may_replace_refused(at(59)) && pauses.may_replace_refused(at(60)));
        assert!(pauses.may_ask(at(0)), "a token that ends is refreshed all the same");
    }
}
