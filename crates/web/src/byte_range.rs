//! Ranges of bytes: which part of a file a request asks for.

use std::ops::Range;

use http::{HeaderMap, header};

use crate::error::ApiError;

/// The requested part of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestedRange {
    /// All of it.
    Whole,
    /// At least one byte.
    Part(Range<u64>),
}

impl RequestedRange {
    /// What the request asks for (RFC 9110, section 14.2); `None` if it lies after the end. With an
    /// unknown unit, or a range of another version of the file, that is the whole file.
    pub fn read(headers: &HeaderMap, tag: &str, length: u64) -> Result<Option<Self>, ApiError> {
        let mut ranges = headers.get_all(header::RANGE).iter();
        let Some(range) = ranges.next() else { return Ok(Some(Self::Whole)) };
        if ranges.next().is_some() || range.as_bytes().contains(&b',') {
            return Err(ApiError::SeveralRanges);
        }
        let is_other = headers.get(header::IF_RANGE).is_some_and(|known| known != tag);
        let range =
            range.to_str().ok().filter(|_| !is_other).and_then(|text| text.strip_prefix("bytes="));
        let Some((first, last)) = range.and_then(|range| range.trim().split_once('-')) else {
            return Ok(Some(Self::Whole));
        };
        let bounds = match (position(first), position(last)) {
            (Some(from), Some(to)) if from <= to => from..to.saturating_add(1).min(length),
            (Some(from), None) if last.is_empty() => from..length,
            (None, Some(suffix)) if first.is_empty() => length.saturating_sub(suffix)..length,
            _ => return Ok(Some(Self::Whole)),
        };
        Ok((!bounds.is_empty()).then_some(Self::Part(bounds)))
    }
}

/// A position in the file: digits alone.
fn position(text: &str) -> Option<u64> {
    text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    fn asked(range: &'static str) -> Option<RequestedRange> {
        let mut headers = HeaderMap::new();
        headers.insert(header::RANGE, HeaderValue::from_static(range));
        RequestedRange::read(&headers, "\"tag\"", 10).unwrap()
    }

    #[test]
    fn single_ranges_are_supported() {
        assert_eq!(asked("bytes=0-3"), Some(RequestedRange::Part(0..4)));
        assert_eq!(asked("bytes=4-"), Some(RequestedRange::Part(4..10)));
        assert_eq!(asked("bytes=-3"), Some(RequestedRange::Part(7..10)));
        assert_eq!(asked("bytes=-30"), Some(RequestedRange::Part(0..10)));
        assert_eq!(asked("bytes=8-99"), Some(RequestedRange::Part(8..10)));
    }

    #[test]
    fn range_after_the_end_is_empty() {
        assert_eq!(asked("bytes=10-"), None);
        assert_eq!(asked("bytes=99-100"), None);
        assert_eq!(asked("bytes=-0"), None);
    }

    #[test]
    fn invalid_range_returns_the_whole_file() {
        for text in ["items=0-3", "bytes=x-3", "bytes=5-2", "bytes=-", "bytes=", "0-3"] {
            assert_eq!(asked(text), Some(RequestedRange::Whole), "{text}");
        }
    }

    #[test]
    fn several_ranges_are_refused_and_another_version_returns_the_whole_file() {
        let mut headers = HeaderMap::new();
        headers.insert(header::RANGE, HeaderValue::from_static("bytes=0-0,2-3"));
        assert!(matches!(
            RequestedRange::read(&headers, "\"tag\"", 10),
            Err(ApiError::SeveralRanges)
        ));

        headers.insert(header::RANGE, HeaderValue::from_static("bytes=0-0"));
        headers.insert(header::IF_RANGE, HeaderValue::from_static("\"other\""));
        assert_eq!(
            RequestedRange::read(&headers, "\"tag\"", 10).unwrap(),
            Some(RequestedRange::Whole)
        );
        assert_eq!(
            RequestedRange::read(&headers, "\"other\"", 10).unwrap(),
            Some(RequestedRange::Part(0..1))
        );

        headers.append(header::RANGE, HeaderValue::from_static("bytes=1-1"));
        assert!(matches!(
            RequestedRange::read(&headers, "\"other\"", 10),
            Err(ApiError::SeveralRanges)
        ));
    }

    /// Only digits are a position (RFC 9110, section 14.1.1).
    #[test]
    fn a_sign_or_a_blank_is_no_position() {
        for text in
            ["bytes=+0-3", "bytes=0-+3", "bytes=-+3", "bytes=0 -3", "bytes=0- 3", "bytes=--3"]
        {
            assert_eq!(asked(text), Some(RequestedRange::Whole), "{text}");
        }
        assert_eq!(asked("bytes= 0-3"), Some(RequestedRange::Part(0..4)), "blanks around it are");
    }

    proptest! {
        #[test]
        fn a_part_lies_within_the_file_and_is_never_empty(
            first in prop::option::of(0_u64..30), last in prop::option::of(0_u64..30), length in 0_u64..20,
        ) {
            let shown = |bound: Option<u64>| bound.map_or(String::new(), |bound| bound.to_string());
            let text = format!("bytes={}-{}", shown(first), shown(last));
            let headers = HeaderMap::from_iter([(header::RANGE, HeaderValue::try_from(text).unwrap())]);

            let found = RequestedRange::read(&headers, "\"tag\"", length).unwrap();

            // The bytes of the file that the text names, counted one by one.
            let named: Vec<u64> = (0..length)
                .filter(|at| match (first, last) {
                    (Some(from), Some(to)) => (from..=to).contains(at),
                    (Some(from), None) => *at >= from,
                    (None, Some(suffix)) => *at >= length.saturating_sub(suffix),
                    (None, None) => true,
                })
                .collect();
            match found {
                Some(RequestedRange::Part(part)) => prop_assert_eq!(part.collect::<Vec<_>>(), named),
                Some(RequestedRange::Whole) => {
                    let is_reversed = first.zip(last).is_some_and(|(from, to)| from > to);
                    prop_assert!(is_reversed || first.is_none() && last.is_none());
                }
                None => prop_assert!(named.is_empty()),
            }
        }

        #[test]
        fn no_text_makes_the_reader_panic(text in "[ -~]{0,40}", near in "bytes=[0-9+ -]{0,40}", length: u64) {
            for written in [text, near] {
                let headers = HeaderMap::from_iter([(header::RANGE, HeaderValue::try_from(written).unwrap())]);
                if let Ok(Some(RequestedRange::Part(part))) = RequestedRange::read(&headers, "\"tag\"", length) {
                    prop_assert!(part.start < part.end && part.end <= length);
                }
            }
        }
    }
}
