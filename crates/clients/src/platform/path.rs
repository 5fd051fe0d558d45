//! Hygiene of a native path and query: what may go to a platform, by a positive rule.
//!
//! Nothing is decoded or normalised on the way: what passes is sent exactly as it came. A path that passes
//! cannot climb out of the platform's prefix, reach another host or hold a control byte, however often
//! the platform decodes it, because the encodings of `.`, `/`, `\` and `%` are refused, and so is what
//! careless readers take for them.

/// The longest native path, in bytes.
pub const PATH_BYTES_MAX: usize = 2_048;
/// The most segments of a native path.
pub const SEGMENTS_MAX: usize = 32;
/// The longest query, in bytes.
pub const QUERY_BYTES_MAX: usize = 8_192;

/// Small, full-width and leader forms of `.`, `/`, `\` and `%`.
const TAKEN_FOR_OTHERS: [char; 11] = [
    '\u{2024}', '\u{2025}', '\u{2026}', '\u{fe30}', '\u{fe52}', '\u{fe68}', '\u{fe6a}', '\u{ff05}',
    '\u{ff0e}', '\u{ff0f}', '\u{ff3c}',
];

/// Why a native path or query is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathProblem {
    /// Nothing at all.
    #[error("the native path is empty")]
    Empty,
    /// More than [`PATH_BYTES_MAX`] bytes.
    #[error("the native path is longer than 2,048 bytes")]
    TooLong,
    /// More than [`SEGMENTS_MAX`] segments.
    #[error("the native path has more than 32 segments")]
    TooManySegments,
    /// A segment without a character, other than after a trailing slash.
    #[error("the native path has an empty segment")]
    EmptySegment,
    /// A segment that is `.` or `..`.
    #[error("the native path has a segment that is `.` or `..`")]
    DotSegment,
    /// A byte that has no place in a segment.
    #[error(
        "the native path holds a character outside letters, digits and ._~!$&'()*+,=:@- that is not percent-encoded"
    )]
    Character,
    /// A `%` that two hexadecimal digits do not follow.
    #[error("the native path or query holds a `%` that two hexadecimal digits do not follow")]
    BrokenEncoding,
    /// An encoded dot, slash, backslash, percent sign or control byte.
    #[error("the native path holds an encoded dot, slash, backslash, percent sign or control byte")]
    ForbiddenEncoding,
    /// Encoded bytes that are not UTF-8, or a character that some readers take for a dot, a slash, a
    /// backslash or a percent sign.
    #[error("the native path holds encoded bytes that are not plain UTF-8 text")]
    ForbiddenText,
    /// More than [`QUERY_BYTES_MAX`] bytes.
    #[error("the query is longer than 8,192 bytes")]
    QueryTooLong,
    /// A byte in the query that is not visible ASCII, or one of `" # < >`.
    #[error("the query holds a character that must be percent-encoded")]
    QueryCharacter,
    /// An encoded NUL, CR or LF in the query.
    #[error("the query holds an encoded NUL or line break")]
    QueryControl,
}

/// Checks a raw native path: relative, without its leading slash, a trailing slash allowed.
///
/// Segments are made of `[A-Za-z0-9._~!$&'()*+,=:@-]` and `%XX`, where XX is none of 2e, 2f, 5c, 25,
/// 00–1f and 7f, and what lies above 7f is UTF-8 without likenesses of `.`, `/`, `\` and `%`; none is
/// empty, `.` or `..`. At most [`PATH_BYTES_MAX`] bytes, [`SEGMENTS_MAX`] segments.
pub fn check_path(raw: &str) -> Result<(), PathProblem> {
    if raw.is_empty() {
        return Err(PathProblem::Empty);
    }
    if raw.len() > PATH_BYTES_MAX {
        return Err(PathProblem::TooLong);
    }
    let segments = raw.strip_suffix('/').unwrap_or(raw).split('/');
    for (index, segment) in segments.enumerate() {
        if index >= SEGMENTS_MAX {
            return Err(PathProblem::TooManySegments);
        }
        check_segment(segment)?;
    }
    Ok(())
}

/// Checks a raw query, without its question mark; empty is fine.
///
/// Visible ASCII except `" # < >`, every `%` followed by two hexadecimal digits, at most
/// [`QUERY_BYTES_MAX`] bytes. Values may hold any encoded byte but NUL, CR and LF: a query is data, and only
/// these three can end a line or a string at a platform that decodes it carelessly.
pub fn check_query(raw: &str) -> Result<(), PathProblem> {
    if raw.len() > QUERY_BYTES_MAX {
        return Err(PathProblem::QueryTooLong);
    }
    let mut rest = raw.as_bytes();
    while let [byte, after @ ..] = rest {
        rest = match byte {
            b'%' => {
                let (decoded, after) = encoded_byte(after)?;
                if matches!(decoded, 0 | b'\r' | b'\n') {
                    return Err(PathProblem::QueryControl);
                }
                after
            }
            b'"' | b'#' | b'<' | b'>' => return Err(PathProblem::QueryCharacter),
            0x21..=0x7e => after,
            _ => return Err(PathProblem::QueryCharacter),
        };
    }
    Ok(())
}

fn check_segment(segment: &str) -> Result<(), PathProblem> {
    match segment {
        "" => return Err(PathProblem::EmptySegment),
        "." | ".." => return Err(PathProblem::DotSegment),
        _ => {}
    }
    let mut rest = segment.as_bytes();
    let mut is_ascii = true;
    while let [byte, after @ ..] = rest {
        rest = match byte {
            b'%' => {
                let (decoded, after) = encoded_byte(after)?;
                is_ascii &= decoded.is_ascii();
                if matches!(decoded, b'.' | b'/' | b'\\' | b'%' | 0..=0x1f | 0x7f) {
                    return Err(PathProblem::ForbiddenEncoding);
                }
                after
            }
            byte if is_plain(*byte) => after,
            _ => return Err(PathProblem::Character),
        };
    }
    if is_ascii { Ok(()) } else { check_text(segment) }
}

/// Overlong forms of UTF-8, and characters whose compatibility form is one of `. / \ %`, become those for
/// careless readers.
fn check_text(segment: &str) -> Result<(), PathProblem> {
    let mut decoded = Vec::with_capacity(segment.len());
    let mut rest = segment.as_bytes();
    while let [byte, after @ ..] = rest {
        let (byte, after) = if *byte == b'%' { encoded_byte(after)? } else { (*byte, after) };
        decoded.push(byte);
        rest = after;
    }
    let text = str::from_utf8(&decoded).map_err(|_| PathProblem::ForbiddenText)?;
    if text.contains(TAKEN_FOR_OTHERS) { Err(PathProblem::ForbiddenText) } else { Ok(()) }
}

const fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'.' | b'_'
                | b'~'
                | b'!'
                | b'$'
                | b'&'
                | b'\''
                | b'('
                | b')'
                | b'*'
                | b'+'
                | b','
                | b'='
                | b':'
                | b'@'
                | b'-'
        )
}

/// The byte that two hexadecimal digits stand for, and what follows them.
fn encoded_byte(after_percent: &[u8]) -> Result<(u8, &[u8]), PathProblem> {
    let [high, low, after @ ..] = after_percent else { return Err(PathProblem::BrokenEncoding) };
    match (nibble(*high), nibble(*low)) {
        (Some(high), Some(low)) => Ok((high << 4 | low, after)),
        _ => Err(PathProblem::BrokenEncoding),
    }
}

const fn nibble(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn paths_of_native_routes_pass() {
        for path in [
            "users/me",
            "users/list/",
            "subscription/configuration/12-ab",
            "a.b/..c/...",
            "@name/(x)/it's/a+b,c=d:e~f!$&*",
            "caf%C3%A9/%20x%2B",
            &"a/".repeat(SEGMENTS_MAX),
            &"k".repeat(PATH_BYTES_MAX),
        ] {
            assert_eq!(check_path(path), Ok(()), "{path}");
        }
    }

    #[test]
    fn paths_that_could_climb_out_split_or_confuse_are_refused() {
        use PathProblem as P;
        let cases = [
            ("", P::Empty),
            ("/", P::EmptySegment),
            ("/users", P::EmptySegment),
            ("//evil.example/x", P::EmptySegment),
            ("a//b", P::EmptySegment),
            ("a//", P::EmptySegment),
            ("https://evil.example/x", P::EmptySegment),
            ("../../x", P::DotSegment),
            ("a/..", P::DotSegment),
            ("a/./b", P::DotSegment),
            ("../", P::DotSegment),
            ("%2e%2e/x", P::ForbiddenEncoding),
            ("%2E%2E%2fx", P::ForbiddenEncoding),
            (".%2E/x", P::ForbiddenEncoding),
            ("..%2fx", P::ForbiddenEncoding),
            ("..%5cx", P::ForbiddenEncoding),
            ("a%252e%252e/b", P::ForbiddenEncoding),
            ("a%00b", P::ForbiddenEncoding),
            ("a%0d%0aX:y", P::ForbiddenEncoding),
            ("a%1F", P::ForbiddenEncoding),
            ("a%7f", P::ForbiddenEncoding),
            ("..\\x", P::Character),
            ("a/..;/admin", P::Character),
            ("a;b=c", P::Character),
            ("a b", P::Character),
            ("a?b", P::Character),
            ("a#b", P::Character),
            ("a\tb", P::Character),
            ("a\u{ff0e}\u{ff0e}/b", P::Character),
            ("[::1]", P::Character),
            ("%c0%ae%c0%ae/x", P::ForbiddenText),
            ("a%c0%afb", P::ForbiddenText),
            ("%ef%bc%8e%EF%BC%8E/x", P::ForbiddenText),
            ("%ef%b8%b0/x", P::ForbiddenText),
            ("a%E2%80%A5", P::ForbiddenText),
            ("a%ff", P::ForbiddenText),
            ("a%", P::BrokenEncoding),
            ("a%2", P::BrokenEncoding),
            ("a%g0", P::BrokenEncoding),
            ("a%2/e", P::BrokenEncoding),
            (&"k".repeat(PATH_BYTES_MAX + 1), P::TooLong),
            (&["a"; SEGMENTS_MAX + 1].join("/"), P::TooManySegments),
        ];
        for (path, problem) in cases {
            assert_eq!(check_path(path), Err(problem), "{path}");
        }
    }

    #[test]
    fn queries_may_hold_any_data_but_line_ends_and_nul() {
        for query in
            ["", "limit=1&limit=2", "q=%20%2e%2f%25%09", "a[]=1&b={x|y}^`\\;?/:@", "%E2%82%AC"]
        {
            assert_eq!(check_query(query), Ok(()), "{query}");
        }
        let cases = [
            ("a=%0d", PathProblem::QueryControl),
            ("a=%0A", PathProblem::QueryControl),
            ("a=%00", PathProblem::QueryControl),
            ("a=%", PathProblem::BrokenEncoding),
            ("a=%4x", PathProblem::BrokenEncoding),
            ("a=#b", PathProblem::QueryCharacter),
            ("a=<b>", PathProblem::QueryCharacter),
            ("a b", PathProblem::QueryCharacter),
            ("a=\u{e9}", PathProblem::QueryCharacter),
            (&"k".repeat(QUERY_BYTES_MAX + 1), PathProblem::QueryTooLong),
        ];
        for (query, problem) in cases {
            assert_eq!(check_query(query), Err(problem), "{query}");
        }
    }

    /// Decodes as often as something changes, like the most careless of platforms.
    fn decoded_to_the_end(path: &str) -> Vec<u8> {
        let mut bytes = path.as_bytes().to_vec();
        loop {
            let mut decoded = Vec::new();
            let mut rest = bytes.as_slice();
            while let [byte, after @ ..] = rest {
                if *byte == b'%'
                    && let Ok((value, behind)) = encoded_byte(after)
                {
                    decoded.push(value);
                    rest = behind;
                } else {
                    decoded.push(*byte);
                    rest = after;
                }
            }
            if decoded == bytes {
                return bytes;
            }
            bytes = decoded;
        }
    }

    proptest! {
        /// However often it is decoded, a path that passes has the same segments, none of them a dot
        /// segment, and neither control bytes nor backslashes.
        #[test]
        fn a_path_that_passes_means_the_same_however_often_it_is_decoded(
            path in "([a-c./%25ef;\\\\]|%2[eEfF5]|%5[cC]|%[0-9a-fA-F]{2}|\\.\\.|%u002e){0,12}"
        ) {
            if check_path(&path).is_ok() {
                let decoded = decoded_to_the_end(&path);
                let segments: Vec<_> = decoded.split(|byte| *byte == b'/').collect();
                prop_assert_eq!(segments.len(), path.split('/').count());
                prop_assert!(segments.iter().all(|segment| !matches!(*segment, b"." | b"..")));
                prop_assert!(decoded.iter().all(|byte| !byte.is_ascii_control() && *byte != b'\\'));
                prop_assert!(str::from_utf8(&decoded).is_ok());
            }
        }

        #[test]
        fn nothing_makes_the_checks_panic(path in "\\PC{0,40}", query in "\\PC{0,40}") {
            let _ = (check_path(&path), check_query(&query));
        }
    }
}
