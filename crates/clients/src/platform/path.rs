//! Hygiene of a native path and query: what may go to a platform, by a positive rule.
//!
//! The bytes are looked at, never decoded or normalised: what passes is sent exactly as it came. A path
//! that passes cannot climb out of the platform's prefix, reach another host or hold a control byte,
//! however often the platform decodes it, because the encodings of `.`, `/`, `\` and `%` are refused.

/// The longest native path, in bytes.
pub const PATH_BYTES_MAX: usize = 2_048;
/// The most segments of a native path.
pub const SEGMENTS_MAX: usize = 32;
/// The longest query, in bytes.
pub const QUERY_BYTES_MAX: usize = 8_192;

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
/// 00–1f and 7f; none is empty, `.` or `..`. At most [`PATH_BYTES_MAX`] bytes, [`SEGMENTS_MAX`] segments.
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
    while let [byte, after @ ..] = rest {
        rest = match byte {
            b'%' => {
                let (decoded, after) = encoded_byte(after)?;
                if matches!(decoded, b'.' | b'/' | b'\\' | b'%' | 0..=0x1f | 0x7f) {
                    return Err(PathProblem::ForbiddenEncoding);
                }
                after
            }
            byte if is_plain(*byte) => after,
            _ => return Err(PathProblem::Character),
        };
    }
    Ok(())
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
