//! The pass over the header lines: those that may come once, those with one form, and their size.

use http::header::{
    AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, HOST, TE,
    TRANSFER_ENCODING,
};
use http::{HeaderMap, HeaderName, HeaderValue, Version};

use super::{FrameProblem, FrameRules};

/// Bytes of a header line besides its name and value.
const LINE_EXTRA_BYTES: usize = 4;

const X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// What the pass over the headers returns.
pub(super) struct SeenHeaders<'a> {
    pub(super) host: Option<&'a HeaderValue>,
}

/// Checks each header line once.
pub(super) fn scan<'a>(
    headers: &'a HeaderMap,
    version: Version,
    uri_bytes: usize,
    rules: &FrameRules,
) -> Result<SeenHeaders<'a>, FrameProblem> {
    if headers.len() > rules.headers_max {
        return Err(FrameProblem::TooManyHeaders(rules.headers_max));
    }
    let mut bytes = uri_bytes;
    let mut once = SeenOnce::default();
    let mut host = None;
    for (name, value) in headers {
        bytes += name.as_str().len() + value.len() + LINE_EXTRA_BYTES;
        if *name == HOST {
            host = once.claim(HOST_TWICE, value).map(Some)?;
        } else if *name == CONTENT_LENGTH {
            once.claim(CONTENT_LENGTH_TWICE, value)?;
            check_content_length(value)?;
        } else if *name == TRANSFER_ENCODING {
            once.claim(TRANSFER_ENCODING_TWICE, value)?;
            check_transfer_encoding(value, version)?;
        } else if *name == AUTHORIZATION {
            once.claim(AUTHORIZATION_TWICE, value)?;
        } else if *name == CONTENT_TYPE {
            once.claim(CONTENT_TYPE_TWICE, value)?;
        } else if *name == CONTENT_ENCODING {
            check_content_encoding(value)?;
        } else if *name == EXPECT {
            check_expect(value)?;
        } else if *name == TE {
            check_te(value, version)?;
        } else if *name == X_API_KEY {
            once.claim(X_API_KEY_TWICE, value)?;
        } else if *name == IDEMPOTENCY_KEY {
            once.claim(IDEMPOTENCY_KEY_TWICE, value)?;
        } else if name.as_str().contains('_') {
            return Err(FrameProblem::HeaderName);
        }
    }
    if bytes > rules.head_bytes_max {
        return Err(FrameProblem::HeadTooLarge(rules.head_bytes_max));
    }
    Ok(SeenHeaders { host })
}

/// Headers that must not repeat: each has a bit, and the problem reported for a second line.
type RepeatedHeaders = (u8, FrameProblem);
const HOST_TWICE: RepeatedHeaders = (1, FrameProblem::Host);
const CONTENT_LENGTH_TWICE: RepeatedHeaders = (1 << 1, FrameProblem::ContentLength);
const TRANSFER_ENCODING_TWICE: RepeatedHeaders = (1 << 2, FrameProblem::TransferEncoding);
const AUTHORIZATION_TWICE: RepeatedHeaders =
    (1 << 3, FrameProblem::RepeatedHeader("Authorization"));
const CONTENT_TYPE_TWICE: RepeatedHeaders = (1 << 4, FrameProblem::RepeatedHeader("Content-Type"));
const X_API_KEY_TWICE: RepeatedHeaders = (1 << 5, FrameProblem::RepeatedHeader("X-API-Key"));
const IDEMPOTENCY_KEY_TWICE: RepeatedHeaders =
    (1 << 6, FrameProblem::RepeatedHeader("Idempotency-Key"));

/// The headers seen so far.
#[derive(Default)]
struct SeenOnce(u8);

impl SeenOnce {
    fn claim<'a>(
        &mut self,
        (bit, problem): RepeatedHeaders,
        value: &'a HeaderValue,
    ) -> Result<&'a HeaderValue, FrameProblem> {
        if self.0 & bit != 0 {
            return Err(problem);
        }
        self.0 |= bit;
        Ok(value)
    }
}

/// hyper has checked that it is a number; some software reads a leading zero as octal.
fn check_content_length(value: &HeaderValue) -> Result<(), FrameProblem> {
    match value.as_bytes() {
        [b'0', _, ..] => Err(FrameProblem::ContentLength),
        _ => Ok(()),
    }
}

fn check_transfer_encoding(value: &HeaderValue, version: Version) -> Result<(), FrameProblem> {
    let chunked = value.as_bytes().eq_ignore_ascii_case(b"chunked");
    if chunked && version == Version::HTTP_11 {
        Ok(())
    } else {
        Err(FrameProblem::TransferEncoding)
    }
}

fn check_content_encoding(value: &HeaderValue) -> Result<(), FrameProblem> {
    if value.as_bytes().eq_ignore_ascii_case(b"identity") {
        Ok(())
    } else {
        Err(FrameProblem::ContentEncoding)
    }
}

fn check_expect(value: &HeaderValue) -> Result<(), FrameProblem> {
    if value.as_bytes().eq_ignore_ascii_case(b"100-continue") {
        Ok(())
    } else {
        Err(FrameProblem::Expectation)
    }
}

/// On HTTP/1 a client may ask for transfer codings (and gets none); HTTP/2 has none.
fn check_te(value: &HeaderValue, version: Version) -> Result<(), FrameProblem> {
    let is_refused = version == Version::HTTP_2 && value.as_bytes() != b"trailers";
    if is_refused { Err(FrameProblem::Te) } else { Ok(()) }
}
