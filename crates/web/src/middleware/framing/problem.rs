//! Why a head is refused: the status, the code and the texts of each reason.

use http::StatusCode;

/// Why a head is refused. `Display` is the `detail` for the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameProblem {
    /// `Transfer-Encoding` is not a single `chunked`, or the version is not HTTP/1.1.
    #[error("`Transfer-Encoding` must be given once, as `chunked`, on HTTP/1.1")]
    TransferEncoding,
    /// The length has a leading zero or is sent twice.
    #[error("`Content-Length` must be one number without leading zeros")]
    ContentLength,
    /// There is no host, more than one, or an invalid one.
    #[error("the request must name one valid host")]
    Host,
    /// The host does not belong to this service.
    #[error("this service does not serve the host that the request names")]
    MisdirectedHost,
    /// The target is not a path, or is an absolute address of another host.
    #[error("the request target must be a path that starts with `/`")]
    Target,
    /// A method that no route serves.
    #[error("the method must be GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS")]
    Method,
    /// An expectation that cannot be met.
    #[error("`Expect` may only be `100-continue`")]
    Expectation,
    /// A GET or HEAD request has a body.
    #[error("a GET or HEAD request must not have a body")]
    UnexpectedBody,
    /// A header name with `_`, which other software may read as another header.
    #[error("header names must not contain `_`")]
    HeaderName,
    /// A header whose value matters for security or framing is repeated.
    #[error("`{0}` must be given once")]
    RepeatedHeader(&'static str),
    /// The body is compressed.
    #[error("request bodies must not be compressed (`Content-Encoding`)")]
    ContentEncoding,
    /// The target is too long.
    #[error("the request target is longer than {0} bytes")]
    UriTooLong(usize),
    /// The head is too large.
    #[error("the request's headers are larger than {0} bytes")]
    HeadTooLarge(usize),
    /// There are too many headers.
    #[error("the request has more than {0} headers")]
    TooManyHeaders(usize),
    /// hyper refused the head as too large, or as having too many headers.
    #[error("the request's head is larger than {0} bytes or has more than {1} headers")]
    HeadNotRead(usize, usize),
    /// hyper could not read the request.
    #[error(
        "the request could not be read: in its path and query, spaces, quotes, `<`, `>` and bytes that are not UTF-8 must \
         be percent-encoded, and its header lines must be well formed"
    )]
    Malformed,
    /// `TE` asks for transfer codings, which HTTP/2 does not have.
    #[error("`TE` may only be `trailers` on HTTP/2")]
    Te,
}

impl FrameProblem {
    /// The status of the response.
    pub const fn status(self) -> StatusCode {
        match self {
            Self::TransferEncoding
            | Self::ContentLength
            | Self::Host
            | Self::Target
            | Self::UnexpectedBody
            | Self::HeaderName
            | Self::RepeatedHeader(_)
            | Self::Malformed
            | Self::Te => StatusCode::BAD_REQUEST,
            Self::MisdirectedHost => StatusCode::MISDIRECTED_REQUEST,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::Expectation => StatusCode::EXPECTATION_FAILED,
            Self::ContentEncoding => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::UriTooLong(_) => StatusCode::URI_TOO_LONG,
            Self::HeadTooLarge(_) | Self::TooManyHeaders(_) | Self::HeadNotRead(..) => {
                StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE
            }
        }
    }

    /// The stable code.
    pub const fn code(self) -> &'static str {
        match self {
            Self::TransferEncoding => "invalid_transfer_encoding",
            Self::ContentLength => "invalid_content_length",
            Self::Host => "invalid_host",
            Self::MisdirectedHost => "misdirected_host",
            Self::Target => "invalid_request_target",
            Self::Method => "method_not_supported",
            Self::Expectation => "expectation_failed",
            Self::UnexpectedBody => "unexpected_body",
            Self::HeaderName => "invalid_header_name",
            Self::RepeatedHeader(_) => "repeated_header",
            Self::ContentEncoding => "content_encoding_not_supported",
            Self::UriTooLong(_) => "uri_too_long",
            Self::HeadTooLarge(_) | Self::HeadNotRead(..) => "head_too_large",
            Self::TooManyHeaders(_) => "too_many_headers",
            Self::Malformed => "malformed_request",
            Self::Te => "invalid_te",
        }
    }

    /// A short name for people.
    pub const fn title(self) -> &'static str {
        match self {
            Self::TransferEncoding => "Invalid transfer encoding",
            Self::ContentLength => "Invalid content length",
            Self::Host => "Invalid host",
            Self::MisdirectedHost => "Misdirected request",
            Self::Target => "Invalid request target",
            Self::Method => "Method not supported",
            Self::Expectation => "Expectation failed",
            Self::UnexpectedBody => "Unexpected body",
            Self::HeaderName => "Invalid header name",
            Self::RepeatedHeader(_) => "Repeated header",
            Self::ContentEncoding => "Compressed body",
            Self::UriTooLong(_) => "Target too long",
            Self::HeadTooLarge(_) | Self::HeadNotRead(..) => "Head too large",
            Self::TooManyHeaders(_) => "Too many headers",
            Self::Malformed => "Malformed request",
            Self::Te => "Invalid TE",
        }
    }
}
