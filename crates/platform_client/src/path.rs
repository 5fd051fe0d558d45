//! Hygiene of a native path and query: what may go to a platform, by a positive rule.
//!
//! Nothing is decoded or normalised on the way: what passes is sent exactly as it came. A path that
//! passes cannot climb out of the platform's prefix, reach another host or hold a control byte,
//! however often the platform decodes it: it is decoded here as a careless platform would, and each
//! reading is checked.

/// The longest native path, in bytes.
pub const PATH_BYTES_MAX: usize = 2_048;
/// The most segments of a native path.
pub const SEGMENTS_MAX: usize = 32;
/// The longest query, in bytes.
pub const QUERY_BYTES_MAX: usize = 8_192;

/// How often a segment may change when it is decoded again after the first time.
const DECODINGS_MAX: usize = 3;

/// Small, full-width and leader forms of `.`, `..`, `/`, `\` and `%`. The ellipsis is not among
/// them: three dots are a name like any other.
const TAKEN_FOR_OTHERS: [char; 10] = [
    '\u{2024}', '\u{2025}', '\u{fe30}', '\u{fe52}', '\u{fe68}', '\u{fe6a}', '\u{ff05}', '\u{ff0e}',
    '\u{ff0f}', '\u{ff3c}',
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
    #[error("the native path has an empty segment, or would have one once it is decoded")]
    EmptySegment,
    /// A segment that is `.` or `..`, or would be taken for one once it is decoded.
    #[error("the native path has a segment that is `.` or `..`, or is taken for it once decoded")]
    DotSegment,
    /// A byte that has no place in a segment.
    #[error(
        "the native path holds a character outside letters, digits and ._~!$&'()*+,=:@- that is not percent-encoded"
    )]
    Character,
    /// A `%` that two hexadecimal digits do not follow.
    #[error("the native path or query holds a `%` that two hexadecimal digits do not follow")]
    BrokenEncoding,
    /// An encoded dot, backslash or control byte.
    #[error("the native path holds an encoded dot, backslash or control byte")]
    ForbiddenEncoding,
    /// An encoded slash where no name stands.
    #[error(
        "the native path holds an encoded slash, which passes only where the catalogue says that a parameter is a name, such as a folder's"
    )]
    EncodedSlash,
    /// An encoded percent sign that forms, with what follows it, what would not pass by itself.
    #[error(
        "the native path holds a `%25` that becomes a dot, slash, backslash or control byte when it is decoded again"
    )]
    DoubleEncoding,
    /// Encoded bytes that are not UTF-8, or a character that some readers take for a dot, a slash,
    /// a backslash or a percent sign.
    #[error("the native path holds encoded bytes that are not plain UTF-8 text")]
    ForbiddenText,
    /// More than [`QUERY_BYTES_MAX`] bytes.
    #[error("the query is longer than 8,192 bytes")]
    QueryTooLong,
    /// A byte in the query that is not visible ASCII, or one of `" # < >`.
    #[error("the query holds a character that must be percent-encoded")]
    QueryCharacter,
    /// An encoded NUL in the query.
    #[error("the query holds an encoded NUL")]
    QueryNul,
}

/// Checks a raw native path: relative, without its leading slash, a trailing slash allowed.
///
/// Segments are made of `[A-Za-z0-9._~!$&'()*+,=:@-]` and `%XX`, where XX is none of 2e, 5c, 00–1f
/// and 7f, and what lies above 7f is UTF-8 without likenesses of `.`, `/`, `\` and `%`. No segment,
/// and no part between the encoded slashes of one, is empty, `.` or `..`. Where `%25` stands, none
/// of that may appear when the segment is decoded again and again. At most [`PATH_BYTES_MAX`]
/// bytes, [`SEGMENTS_MAX`] segments.
///
/// Whether encoded slashes may stand where they do depends on the route: see [`encoded_slashes`].
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

/// How many encoded slashes a raw path, or a part of one, holds.
pub fn encoded_slashes(raw: &str) -> usize {
    let escapes = raw.split('%').skip(1);
    escapes.filter(|escape| escape.starts_with("2f") || escape.starts_with("2F")).count()
}

/// Checks a raw query, without its question mark; empty is fine.
///
/// Visible ASCII except `" # < >`, every `%` followed by two hexadecimal digits, at most
/// [`QUERY_BYTES_MAX`] bytes. Values may hold any encoded byte but NUL: a query is data, and the
/// line breaks of a text belong to it.
pub fn check_query(raw: &str) -> Result<(), PathProblem> {
    if raw.len() > QUERY_BYTES_MAX {
        return Err(PathProblem::QueryTooLong);
    }
    let mut rest = raw.as_bytes();
    while let [byte, after @ ..] = rest {
        rest = match byte {
            b'%' => match encoded_byte(after)? {
                (0, _) => return Err(PathProblem::QueryNul),
                (_, after) => after,
            },
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
    let mut is_simple = true;
    while let [byte, after @ ..] = rest {
        rest = match byte {
            b'%' => {
                let (decoded, after) = encoded_byte(after)?;
                if matches!(decoded, b'.' | b'\\' | 0..=0x1f | 0x7f) {
                    return Err(PathProblem::ForbiddenEncoding);
                }
                is_simple &= decoded.is_ascii() && !matches!(decoded, b'/' | b'%' | b';' | b' ');
                after
            }
            byte if is_plain(*byte) => after,
            _ => return Err(PathProblem::Character),
        };
    }
    if is_simple { Ok(()) } else { check_readings(segment) }
}

/// Checks what a segment is read as once it is decoded, and what a careless platform reads that
/// decodes it again.
fn check_readings(segment: &str) -> Result<(), PathProblem> {
    let mut text = DecodedBytes::of(segment.as_bytes()).bytes;
    let first = str::from_utf8(&text).map_err(|_| PathProblem::ForbiddenText)?;
    if first.contains(TAKEN_FOR_OTHERS) {
        return Err(PathProblem::ForbiddenText);
    }
    check_parts(&text)?;
    for _ in 0..=DECODINGS_MAX {
        let again = DecodedBytes::of(&text);
        if !again.is_changed {
            return Ok(());
        }
        if again.is_dangerous || has_likeness(&again.bytes) {
            return Err(PathProblem::DoubleEncoding);
        }
        check_parts(&again.bytes)?;
        text = again.bytes;
    }
    Err(PathProblem::DoubleEncoding)
}

/// Checks what stands between the slashes of a decoded segment. Some readers cut a part at its
/// semicolon, and some take the spaces around it away.
fn check_parts(decoded: &[u8]) -> Result<(), PathProblem> {
    for part in decoded.split(|byte| *byte == b'/') {
        let named = part.split(|byte| *byte == b';').next().unwrap_or_default();
        match (part, named.trim_ascii()) {
            (b"", _) => return Err(PathProblem::EmptySegment),
            (_, b"." | b"..") => return Err(PathProblem::DotSegment),
            _ => {}
        }
    }
    Ok(())
}

/// Whether bytes that appeared by decoding again hold a likeness, or an overlong form of UTF-8:
/// both become dots and slashes for careless readers. Bytes of which no text can be made are
/// harmless otherwise.
fn has_likeness(bytes: &[u8]) -> bool {
    bytes.utf8_chunks().any(|chunk| {
        let is_continued = chunk.invalid().iter().any(|byte| (0x80..0xc0).contains(byte));
        is_continued || chunk.valid().contains(TAKEN_FOR_OTHERS)
    })
}

/// Bytes with their escapes decoded once.
struct DecodedBytes {
    bytes: Vec<u8>,
    is_changed: bool,
    /// Whether an escape stood for a dot, a slash, a backslash or a control byte.
    is_dangerous: bool,
}

impl DecodedBytes {
    /// A `%` that no two digits follow stands for itself.
    fn of(mut rest: &[u8]) -> Self {
        let mut decoded =
            Self { bytes: Vec::with_capacity(rest.len()), is_changed: false, is_dangerous: false };
        while let [byte, after @ ..] = rest {
            let escape = if *byte == b'%' { encoded_byte(after).ok() } else { None };
            rest = if let Some((value, behind)) = escape {
                decoded.is_changed = true;
                decoded.is_dangerous |=
                    matches!(value, b'.' | b'/' | b'\\') || value.is_ascii_control();
                decoded.bytes.push(value);
                behind
            } else {
                decoded.bytes.push(*byte);
                after
            };
        }
        decoded
    }
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
            "50%25%20off/100%25",
            "20%25Fans%20%26%20caf%C3%A9/20%25%20%25",
            "Summer%E2%80%A6/%E2%80%A6",
            "a%3Bb=c/%2520",
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
            ("..%2fx", P::DotSegment),
            ("x%2f..", P::DotSegment),
            ("x%2F.%2Fy", P::DotSegment),
            ("..%3bx/y", P::DotSegment),
            ("..%20/x", P::DotSegment),
            ("%2fevil.example", P::EmptySegment),
            ("x%2F%2Fevil.example", P::EmptySegment),
            ("x%2f", P::EmptySegment),
            ("..%5cx", P::ForbiddenEncoding),
            ("a%252e%252e/b", P::DoubleEncoding),
            ("%252e%252e%252f", P::DoubleEncoding),
            ("%25%32%65", P::DoubleEncoding),
            ("%25252e", P::DoubleEncoding),
            ("a%255cb", P::DoubleEncoding),
            ("a%2500b", P::DoubleEncoding),
            ("a%250D%250Ab", P::DoubleEncoding),
            ("a%257fb", P::DoubleEncoding),
            ("%25c0%25ae", P::DoubleEncoding),
            ("%25ef%25bc%258e", P::DoubleEncoding),
            ("..%253bx", P::DotSegment),
            ("%2525252525", P::DoubleEncoding),
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
    fn queries_may_hold_any_data_but_nul() {
        for query in [
            "",
            "limit=1&limit=2",
            "q=%20%2e%2f%25%09",
            "text=one%0Atwo%0d%0athree",
            "a[]=1&b={x|y}^`\\;?/:@",
            "%E2%82%AC",
        ] {
            assert_eq!(check_query(query), Ok(()), "{query}");
        }
        let cases = [
            ("a=%00", PathProblem::QueryNul),
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

    #[test]
    fn encoded_slashes_are_counted_in_either_case() {
        for (path, count) in [("a/b", 0), ("a%2Fb%2f", 2), ("a%252F", 0), ("%2", 0), ("%25%2Fx", 1)]
        {
            assert_eq!(encoded_slashes(path), count, "{path}");
        }
    }

    /// Decodes once, like the most careless of platforms: escapes, overlong forms, likenesses, and
    /// what stands behind a semicolon in a segment.
    fn carelessly_decoded(bytes: &[u8]) -> Vec<u8> {
        let mut decoded = Vec::new();
        let mut rest = DecodedBytes::of(bytes).bytes;
        rest.reverse();
        while let Some(byte) = rest.pop() {
            let next = rest.last().copied().unwrap_or_default();
            if matches!(byte, 0xc0 | 0xc1) && (0x80..0xc0).contains(&next) {
                rest.pop();
                decoded.push((byte & 1) << 6 | (next & 0x3f));
            } else {
                decoded.push(byte);
            }
        }
        let text = String::from_utf8_lossy(&decoded);
        let mut folded = String::new();
        for character in text.chars() {
            match character {
                '\u{2024}' | '\u{fe52}' | '\u{ff0e}' => folded.push('.'),
                '\u{2025}' | '\u{fe30}' => folded.push_str(".."),
                '\u{2026}' => folded.push_str("..."),
                '\u{ff0f}' => folded.push('/'),
                '\u{ff3c}' | '\u{fe68}' => folded.push('\\'),
                '\u{ff05}' | '\u{fe6a}' => folded.push('%'),
                other => folded.push(other),
            }
        }
        folded.into_bytes()
    }

    proptest! {
        /// However often it is decoded, a path that passes keeps its segments (but for the encoded
        /// slashes that it had to begin with), none of them a dot segment or empty, and holds
        /// neither control bytes nor backslashes.
        #[test]
        fn a_path_that_passes_means_the_same_however_often_it_is_decoded(
            path in "([a-c./%25ef; ]|%2[eEfF5]|%25|%(25){1,3}|%5[cC]|%c0|%ae|%af|%3[bB]|%20|%[0-9a-fA-F]{2}|\\.\\.|%u002e|%e2%80%a6){0,12}"
        ) {
            if check_path(&path).is_ok() {
                let is_folder = path.ends_with('/');
                let segments = path.split('/').count() + encoded_slashes(&path);
                let mut decoded = path.into_bytes();
                for _ in 0..8 {
                    decoded = carelessly_decoded(&decoded);
                    let parts: Vec<_> = decoded.split(|byte| *byte == b'/').collect();
                    prop_assert_eq!(parts.len(), segments);
                    for (index, part) in parts.iter().enumerate() {
                        let named = part.split(|byte| *byte == b';').next().unwrap_or_default();
                        prop_assert!(!matches!(named.trim_ascii(), b"." | b".."));
                        prop_assert!(!part.is_empty() || is_folder && index + 1 == segments);
                    }
                    prop_assert!(decoded.iter().all(|byte| !byte.is_ascii_control()));
                    prop_assert!(!decoded.contains(&b'\\'));
                }
            }
        }

        /// Any name without control bytes, dots alone and likenesses can stand in a path, encoded
        /// once.
        #[test]
        fn a_name_can_be_encoded_into_a_path(name in "[a-z0-9 %&+#?\"<>|\u{e9}\u{2026}\u{1f600}.]{1,20}") {
            let encoded: String = name
                .bytes()
                .map(|byte| match byte {
                    b'.' | b'a'..=b'z' | b'0'..=b'9' => char::from(byte).to_string(),
                    other => format!("%{other:02X}"),
                })
                .collect();
            let is_dots = matches!(name.trim(), "." | "..");
            let forms_an_escape = DecodedBytes::of(name.as_bytes()).is_changed;
            if !is_dots && !forms_an_escape {
                prop_assert_eq!(check_path(&encoded), Ok(()));
                prop_assert_eq!(DecodedBytes::of(encoded.as_bytes()).bytes, name.into_bytes());
            }
        }

        #[test]
        fn nothing_makes_the_checks_panic(path in "\\PC{0,40}", query in "\\PC{0,40}") {
            let _ = (check_path(&path), check_query(&query), encoded_slashes(&path));
        }
    }
}
