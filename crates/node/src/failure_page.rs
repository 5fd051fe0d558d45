//! Failures for people: a browser that opens an address gets a page where a program gets JSON.

use axum::extract::Request;
use axum::response::Response;
use http::header::{CONTENT_TYPE, VARY};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use pages::accept::wants_html;
use pages::plain::{self, FailureText, sentence};
use pages::{PageFrame, PagesState};
use web::error::ApiError;
use web::error::render::{render, written};

/// Who reads the response if the request fails.
pub(crate) enum FailureReader {
    /// A program, whatever the request accepts.
    Program,
    /// A program, because the request does not ask for a page; another one might.
    ProgramByAccept,
    /// A person.
    Person(PageFrame),
}

impl FailureReader {
    /// Who reads the response to this request.
    pub(crate) fn of(pages: &PagesState, request: &Request) -> Self {
        let (path, headers) = (request.uri().path(), request.headers());
        let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
        if gateway::is_native(path) || !(is_read || is_below(path, "/console")) {
            return Self::Program;
        }
        // Some HTTP libraries accept HTML by habit, so the API wants to see that a page is opened.
        let is_opened = !is_below(path, "/v1") || is_navigation(headers);
        if is_opened && wants_html(headers) {
            Self::Person(pages.frame(headers))
        } else {
            Self::ProgramByAccept
        }
    }

    /// The response to a failed request. `is_harmless`: it certainly changed nothing.
    pub(crate) fn response(&self, failure: &ApiError, id: &str, is_harmless: bool) -> Response {
        let mut response = match self {
            Self::Program | Self::ProgramByAccept => render(failure, id, is_harmless),
            Self::Person(frame) => page(frame, failure, id, is_harmless),
        };
        if !matches!(self, Self::Program) {
            let by = HeaderValue::from_static("Accept, Sec-Fetch-Mode");
            response.headers_mut().append(VARY, by);
        }
        response
    }
}

fn is_below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether a browser opens the address itself, rather than a script or a library.
fn is_navigation(headers: &HeaderMap) -> bool {
    headers.get("sec-fetch-mode").is_some_and(|mode| mode == "navigate")
}

/// The page, with the headers that programs get too.
fn page(frame: &PageFrame, failure: &ApiError, id: &str, is_harmless: bool) -> Response {
    let (status, headers, _) = written(failure, id, is_harmless);
    let code = failure.row_of(is_harmless).code;
    let (title, detail) = words(failure, status);
    let text = FailureText { title, detail, code: code.to_owned(), request_id: id.to_owned() };
    let mut response = plain::failure(frame, status, &text);
    for (name, value) in headers.iter().filter(|(name, _)| *name != CONTENT_TYPE) {
        response.headers_mut().insert(name.clone(), value.clone());
    }
    response
}

fn words(failure: &ApiError, status: StatusCode) -> (String, String) {
    match status {
        StatusCode::NOT_FOUND => {
            let detail = "There’s nothing here, or it isn’t yours. Check the address, or search the documentation.";
            ("Nothing here".to_owned(), detail.to_owned())
        }
        StatusCode::INTERNAL_SERVER_ERROR => (
            "Something went wrong on our side".to_owned(),
            "Try again in a moment. Quote the request’s ID if you contact support.".to_owned(),
        ),
        _ => (failure.row().title.to_owned(), detail(failure)),
    }
}

/// What happened; for wrong fields, what is wrong with each.
fn detail(failure: &ApiError) -> String {
    let Some(fields) = failure.field_problems() else { return sentence(&failure.to_string()) };
    let lines = fields.iter().map(|field| {
        let name = field.loc.last().map(String::as_str).unwrap_or_default();
        sentence(&format!("`{name}` {}", field.msg))
    });
    lines.collect::<Vec<_>>().join(" ")
}
