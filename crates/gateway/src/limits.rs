//! Limits of the data plane, checked after all other local checks and before any credits are held.
//!
//! Each process counts for itself. A refused call costs nothing.

use domain::credits::Credits;
use domain::time::Timestamp;
use failures::Failure;
use web::middleware::rate_limit::RateDecision;

use super::account_entry::AccountEntry;
use super::cache::KeyEntry;
use crate::in_flight::{InFlightPermit, TooMany};
use crate::state::GatewayState;

/// What a call keeps until its end, once it has passed the limits.
pub(super) struct PassedLimits {
    pub(super) rate: RateDecision,
    /// The call's permits among those in flight, released with it.
    pub(super) _permit: InFlightPermit,
}

/// Checks the key's rate, the platform's pause, the breaker and the calls in flight.
pub(super) async fn check(
    gateway: &GatewayState,
    key: &KeyEntry,
    account: &AccountEntry,
    cost: Credits,
    now: Timestamp,
) -> Result<PassedLimits, Failure> {
    let rate = gateway.rate_limiter.check(key.key, 1, now);
    if let Some(retry_after_ms) = rate.retry_after_ms {
        return Err(Failure::RateLimited { retry_after_ms });
    }
    check_health(account, now)?;
    let refusal = match gateway.in_flight.take(&key.load, &account.load) {
        Ok(permit) => return Ok(PassedLimits { rate, _permit: permit }),
        Err(TooMany::Process) => Failure::Overloaded,
        Err(TooMany::Customer) => Failure::TooManyInFlight("customer"),
        Err(TooMany::Account) => Failure::TooManyInFlight("account"),
    };
    Err(poorer(gateway, key, cost).await.unwrap_or(refusal))
}

/// Checks the platform's pause and the breaker.
pub(super) fn check_health(account: &AccountEntry, now: Timestamp) -> Result<(), Failure> {
    if let Some(retry_after_ms) = account.health.pause_ms(now) {
        return Err(Failure::AccountPaused { retry_after_ms });
    }
    match account.health.breaker.refuses(now) {
        Some(retry_after_ms) => Err(Failure::PlatformUnavailable { retry_after_ms }),
        None => Ok(()),
    }
}

/// Holds the account's calls back for the time that a 429 asks for.
pub(super) fn note_pause(
    gateway: &GatewayState,
    account: &AccountEntry,
    headers: &http::HeaderMap,
) {
    let now = gateway.clock.now();
    let wanted = headers.get(http::header::RETRY_AFTER).and_then(|value| value.to_str().ok());
    if let Some(until) = wanted.and_then(|text| pause_end(text.trim(), now)) {
        account.health.pause_until(until);
    }
}

/// Removes a `Retry-After` that is invalid or in the past, as if the platform had sent none.
pub(super) fn drop_unusable_pause(headers: &mut http::HeaderMap, now: Timestamp) {
    let name = http::header::RETRY_AFTER;
    let mut values = headers.get_all(&name).iter();
    let (first, second) = (values.next(), values.next());
    let text = first.filter(|_| second.is_none()).and_then(|value| value.to_str().ok());
    let is_usable = text.is_some_and(|text| {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        (is_number && text.parse::<i64>().is_ok())
            || Timestamp::from_http_date(text).is_some_and(|until| until > now)
    });
    if first.is_some() && !is_usable {
        headers.remove(name);
    }
}

/// When a `Retry-After` ends (RFC 9110, section 10.2.3), given in seconds or as a date; `None` if
/// that is in the past.
fn pause_end(text: &str, now: Timestamp) -> Option<Timestamp> {
    let in_seconds = text.parse::<i64>().ok().map(|seconds| now.plus_seconds(seconds));
    let until = in_seconds.or_else(|| Timestamp::from_http_date(text))?;
    (until > now).then(|| until.min(now.plus_seconds(PAUSE_S_MAX)))
}

/// The longest time that a platform can hold an account's calls back.
const PAUSE_S_MAX: i64 = 300;

/// Checks the balance before a large body is read. The hold decides.
pub(super) async fn check_balance(
    gateway: &GatewayState,
    key: &KeyEntry,
    cost: Credits,
) -> Result<(), Failure> {
    poorer(gateway, key, cost).await.map_or(Ok(()), Err)
}

/// If the caller could not pay anyway, the refusal says so, rather than that the service is busy.
async fn poorer(gateway: &GatewayState, key: &KeyEntry, cost: Credits) -> Option<Failure> {
    let store = gateway.store.clone();
    let customer = key.customer;
    let lookup = async move { store::usage::balance(&store, customer).await };
    let balance = gateway.tasks.on_control(lookup).await.ok()?.ok()??.available;
    (balance < cost).then_some(Failure::InsufficientCredits { balance, cost })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unusable_retry_after_is_removed() {
        let now = Timestamp::from_rfc3339("2026-11-21T12:00:00Z").unwrap();
        let kept = |values: &[&'static str]| {
            let mut headers = http::HeaderMap::new();
            for value in values {
                headers.append(http::header::RETRY_AFTER, http::HeaderValue::from_static(value));
            }
            drop_unusable_pause(&mut headers, now);
            headers.len()
        };

        for usable in ["0", "30", "86400", "Sat, 21 Nov 2026 12:00:30 GMT"] {
            assert_eq!(kept(&[usable]), 1, "{usable}");
        }
        for unusable in
            ["", "abc", "1.5", "-1", "+1", "99999999999999999999", "Sat, 21 Nov 2026 12:00:00 GMT"]
        {
            assert_eq!(kept(&[unusable]), 0, "{unusable}");
        }
        assert_eq!(kept(&["1", "2"]), 0);
        assert_eq!(kept(&[]), 0);
    }

    #[test]
    fn retry_after_in_seconds_or_as_a_date_is_bounded() {
        let now = Timestamp::from_rfc3339("2026-11-21T12:00:00Z").unwrap();
        let seconds = |text| {
            let until = pause_end(text, now)?;
            Some(until.micros_since(now) / domain::time::MICROS_PER_SECOND)
        };

        assert_eq!(seconds("30"), Some(30));
        assert_eq!(seconds("Sat, 21 Nov 2026 12:00:30 GMT"), Some(30));
        for far in ["301", "99999999999", "Sun, 22 Nov 2026 12:00:00 GMT"] {
            assert_eq!(seconds(far), Some(300), "{far}");
        }
        for none in ["0", "-5", "soon", "Sat, 21 Nov 2026 12:00:00 GMT", "1e9", ""] {
            assert_eq!(seconds(none), None, "{none}");
        }
    }
}
