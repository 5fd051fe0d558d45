//! Pages that stand alone: what is shown where nobody is signed in and something failed.

use askama::Template;
use axum::response::{IntoResponse, Response};
use http::StatusCode;

use crate::PageFrame;
use crate::respond::{PagePolicy, page};

/// What a person reads when a request failed.
#[derive(Debug, Clone, Default)]
pub struct FailureText {
    /// What happened, in a few words.
    pub title: String,
    /// What it means for the reader, and what to do.
    pub detail: String,
    /// The code of the API for it.
    pub code: String,
    /// The id to quote to support; empty if there is none.
    pub request_id: String,
}

#[derive(Template)]
#[template(path = "pages/failure.html")]
struct FailurePage<'a> {
    frame: &'a PageFrame,
    status: u16,
    text: &'a FailureText,
}

/// The page about a failed request.
pub fn failure(frame: &PageFrame, status: StatusCode, text: &FailureText) -> Response {
    let shown = FailurePage { frame, status: status.as_u16(), text };
    page(status, &shown, &PagePolicy::default())
        .unwrap_or_else(|_| (status, text.detail.clone()).into_response())
}

/// Renders a page, or says that it could not be written.
pub fn or_apology<T: Template>(status: StatusCode, shown: &T, policy: &PagePolicy) -> Response {
    page(status, shown, policy).unwrap_or_else(|_| {
        let text = "Something went wrong on our side. Nothing was changed. Try again.";
        (StatusCode::INTERNAL_SERVER_ERROR, text).into_response()
    })
}

/// The text as a sentence: details of the API begin in lower case and have no full stop.
pub fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let Some(first) = letters.next() else { return String::new() };
    let starts_code = text.split(' ').next().is_some_and(|word| word.contains(['_', '`', '/']));
    let first = if starts_code { first.to_string() } else { first.to_uppercase().to_string() };
    let end = if text.ends_with(['.', '!', '?', ':']) { "" } else { "." };
    format!("{first}{}{end}", letters.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn details_become_sentences() {
        assert_eq!(sentence("the pack is not for sale"), "The pack is not for sale.");
        assert_eq!(sentence("platform_beta refused it"), "platform_beta refused it.");
        assert_eq!(sentence("Nothing was charged."), "Nothing was charged.");
        assert_eq!(sentence(""), "");
    }
}
