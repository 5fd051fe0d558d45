//! The reference of all error codes, generated from the table: `docs/errors.md` and
//! `GET /docs/errors`.

use std::fmt::Write as _;

use domain::field_error::FieldErrorKind;

use super::table;
use crate::middleware::framing::FrameProblem;

/// One problem of each kind, for their codes.
pub(super) const HEAD_PROBLEMS: &[FrameProblem] = &[
    FrameProblem::TransferEncoding,
    FrameProblem::ContentLength,
    FrameProblem::Host,
    FrameProblem::MisdirectedHost,
    FrameProblem::Target,
    FrameProblem::Method,
    FrameProblem::Expectation,
    FrameProblem::UnexpectedBody,
    FrameProblem::HeaderName,
    FrameProblem::RepeatedHeader("X-API-Key"),
    FrameProblem::ContentEncoding,
    FrameProblem::UriTooLong(8_192),
    FrameProblem::HeadTooLarge(16_384),
    FrameProblem::TooManyHeaders(64),
    FrameProblem::Malformed,
    FrameProblem::Te,
];

/// The whole reference, as Markdown.
pub fn markdown() -> String {
    let mut text = String::from(
        "# Errors\n\n\
         Every failure of this service has a stable `code`; match it, and show `detail` to people. Failures are\n\
         `application/problem+json` (RFC 9457) with `type`, `title`, `status`, `code`, `detail`, `request_id` and\n\
         `retryable`. Every 422 has the same members, with a list of the wrong fields as `detail`, and is therefore\n\
         `application/json`. Errors of a platform are passed through as they are, with `X-Error-Source: platform`. The\n\
         header `X-Should-Retry` (`true` or `false`) says the same as `retryable`, also on errors of a platform. A code that\n\
         comes with several statuses has a line for each.\n\n\
         None of the failures below is charged.\n",
    );
    let mut last = "";
    for row in table::ALL {
        if row.code != last {
            let _written = write!(text, "\n## {}\n", row.code);
            last = row.code;
        }
        let again = if row.retryable { "; the same request may succeed later" } else { "" };
        let (status, title, meaning) = (row.status.as_u16(), row.title, row.meaning);
        let _written = write!(text, "\n{status}, {title}{again}. {meaning}\n");
    }
    text.push_str("\n# Wrong fields\n\nEach entry of a 422 has `loc` (the path to the field), `msg` (what to send instead) and `type`:\n\n");
    for kind in FieldErrorKind::ALL {
        let _written = writeln!(text, "* `{kind}`: {}", kind.meaning());
    }
    text.push_str(
        "\n# Refused request heads\n\nThe head of every request must follow these rules.\n",
    );
    for problem in HEAD_PROBLEMS {
        let (code, status, title) = (problem.code(), problem.status().as_u16(), problem.title());
        let _written = write!(text, "\n## {code}\n\n{status}, {title}: {problem}.\n");
    }
    text
}
