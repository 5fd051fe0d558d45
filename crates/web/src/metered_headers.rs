//! What a caller may say about a metered request: `X-Max-Cost`, the most that it may cost, and
//! `X-Tag`, what it is for.

use domain::call_tag::CallTag;
use domain::credits::Credits;
use failures::Failure;
use http::HeaderMap;

use crate::error::ApiError;

/// The most digits of `X-Max-Cost`.
const MAX_COST_DIGITS: usize = 9;

/// Refuses a request that costs more than its `X-Max-Cost` allows.
pub fn check_cost(headers: &HeaderMap, cost: Credits) -> Result<(), ApiError> {
    match max_cost(headers)? {
        Some(max) if cost > max => Err(ApiError::Failure(Failure::CostAboveMax { cost, max })),
        _ => Ok(()),
    }
}

/// The request's `X-Tag`, if it has one.
pub fn tag(headers: &HeaderMap) -> Result<Option<CallTag>, ApiError> {
    let Some(text) = only_value(headers, "x-tag", ApiError::InvalidTag)? else { return Ok(None) };
    text.parse().map(Some).map_err(|_| ApiError::InvalidTag)
}

fn max_cost(headers: &HeaderMap) -> Result<Option<Credits>, ApiError> {
    let found = only_value(headers, "x-max-cost", ApiError::InvalidMaxCost)?;
    let Some(text) = found else { return Ok(None) };
    let is_usable = text.len() <= MAX_COST_DIGITS && text.bytes().all(|byte| byte.is_ascii_digit());
    let whole = text.parse().ok().filter(|_| is_usable);
    whole.map(Credits::from_whole).map(Some).ok_or(ApiError::InvalidMaxCost)
}

/// The text of a header that may be given once; `refusal` if it is given more often or is no text.
fn only_value<'h>(
    headers: &'h HeaderMap,
    name: &str,
    refusal: ApiError,
) -> Result<Option<&'h str>, ApiError> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    match (value.to_str(), values.next()) {
        (Ok(text), None) => Ok(Some(text)),
        _ => Err(refusal),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(name: &'static str, values: &[&'static str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(name, HeaderValue::from_static(value));
        }
        headers
    }

    fn check(values: &[&'static str], cost: i64) -> Result<(), ApiError> {
        check_cost(&headers("x-max-cost", values), Credits::from_whole(cost))
    }

    #[test]
    fn a_cost_up_to_the_maximum_is_accepted() {
        assert!(check(&[], 1_000_000).is_ok());
        assert!(check(&["2"], 2).is_ok());
        assert!(check(&["999999999"], 1_000_000).is_ok());
        let refused = check(&["1"], 2).unwrap_err();
        assert_eq!((refused.row().code, refused.row().status.as_u16()), ("cost_above_max", 412));
        assert!(check(&["0"], 1).is_err());
    }

    #[test]
    fn an_unusable_maximum_is_refused() {
        for values in
            [&["1", "1"][..], &[""], &["-1"], &["+1"], &["1.5"], &["two"], &["1000000000"]]
        {
            assert!(matches!(check(values, 1), Err(ApiError::InvalidMaxCost)), "{values:?}");
        }
    }

    #[test]
    fn a_tag_is_given_once_and_has_its_form() {
        let read = |values: &[&'static str]| tag(&headers("x-tag", values));

        assert_eq!(read(&[]).unwrap(), None);
        assert_eq!(read(&["team-a"]).unwrap().unwrap().as_str(), "team-a");
        for values in [&["a", "a"][..], &[""], &["two words"]] {
            assert!(matches!(read(values), Err(ApiError::InvalidTag)), "{values:?}");
        }
    }
}
