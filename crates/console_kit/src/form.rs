//! Forms of our pages: read, checked to be ours, and shown again with what is wrong.

use std::collections::BTreeMap;

use axum::extract::{FromRequest, FromRequestParts, Request};
use domain::field_error::FieldErrorKind;
use failures::FieldProblem;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};
use pages::plain::sentence;
use web::BodyOf;
use web::auth::csrf;
use web::error::ApiError;
use web::fields::{FieldProblems, short};

use crate::ConsoleState;
use crate::failure::PageFailure;
use crate::service::{ServiceProblem, name_of};
use crate::visitor::ConsoleVisitor;

/// The field with the token that shows that a form is ours.
const TOKEN_FIELD: &str = "csrf";

/// The fields that are lists in every form that has them: several checkboxes of one name.
const LISTS: [&str; 2] = ["accounts", "columns"];

/// The fields of a form, as they were sent.
#[derive(Debug, Clone, Default)]
pub struct FormData(BTreeMap<String, Vec<String>>);

/// A form that a signed-in person sent from one of our pages.
pub struct SentForm {
    /// Who sent it.
    pub visitor: ConsoleVisitor,
    /// Its fields.
    pub data: FormData,
}

/// A form of a page that needs no session: signing in, registering.
pub struct OpenForm(pub FormData);

/// A form as a page shows it: values that were sent, and what is wrong with them.
#[derive(Debug, Clone, Default)]
pub struct FormView {
    data: FormData,
    /// What is wrong, by the field's name.
    problems: BTreeMap<String, String>,
    /// What is wrong with the whole; empty if nothing is.
    pub summary: String,
    /// The status of the service's refusal.
    refused_with: Option<StatusCode>,
}

impl FormData {
    /// The value of a field, without spaces around it; empty if it was not sent.
    pub fn text(&self, name: &str) -> &str {
        self.raw(name).trim()
    }

    /// The value of a field as it was sent: for passwords.
    pub fn raw(&self, name: &str) -> &str {
        self.0.get(name).and_then(|values| values.first()).map_or("", String::as_str)
    }

    /// The value, or none if it is empty.
    pub fn optional(&self, name: &str) -> Option<&str> {
        Some(self.text(name)).filter(|text| !text.is_empty())
    }

    /// Every value of a field that may be sent several times, such as checkboxes.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.get(name).into_iter().flatten().map(|value| value.trim())
    }

    /// Whether a checkbox was ticked.
    pub fn is_ticked(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Sets a field that may have several values.
    #[must_use]
    pub fn with_all(mut self, name: &str, values: Vec<String>) -> Self {
        self.0.insert(name.to_owned(), values);
        self
    }

    /// Removes fields that a page must not show again: secrets.
    #[must_use]
    pub fn without<'a>(mut self, names: impl IntoIterator<Item = &'a str>) -> Self {
        for name in names {
            self.0.remove(name);
        }
        self
    }

    /// Sets a field, for a form that is filled in advance.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.0.insert(name.to_owned(), vec![value.into()]);
        self
    }

    /// The fields of an address.
    pub fn of_query(query: &str) -> Self {
        Self::parse(query.as_bytes())
    }

    /// Refuses fields that are given more than once, lists aside: which of their values counts is
    /// nothing to guess. `part` is the part of the request that they are in.
    pub(crate) fn given_once(self, part: &str, lists: &[&str]) -> Result<Self, ApiError> {
        let mut problems = FieldProblems::default();
        let is_one = |name: &String| !lists.contains(&name.as_str());
        let repeated = self.0.iter().filter(|(name, values)| values.len() > 1 && is_one(name));
        for (name, _) in repeated {
            let (name, message) = (short(name), "is given more than once; send it once");
            problems.add(FieldProblem::new(part, &name, FieldErrorKind::Duplicate, message));
        }
        problems.finish().map(|()| self)
    }

    fn parse(bytes: &[u8]) -> Self {
        let mut fields: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (name, value) in form_urlencoded::parse(bytes) {
            fields.entry(name.into_owned()).or_default().push(value.into_owned());
        }
        Self(fields)
    }
}

impl FormView {
    /// A form filled in advance, with nothing wrong.
    pub fn filled(data: FormData) -> Self {
        Self { data, ..Self::default() }
    }

    /// The form that was sent, with what the service found wrong. Fields of the request whose name
    /// differs from the form's are named in `renamed`, as (request, form); what is below such a
    /// field belongs to it.
    pub fn refused(data: FormData, problem: &ServiceProblem, renamed: &[(&str, &str)]) -> Self {
        let mut view = Self { data, refused_with: Some(problem.status), ..Self::default() };
        for wrong in &problem.fields {
            let name = name_of(wrong);
            let shown = renamed.iter().find(|(request, _)| is_in(&name, request));
            let name = shown.map_or(name.clone(), |(_, form)| (*form).to_owned());
            view.problems.entry(name).or_insert_with(|| sentence(&wrong.msg));
        }
        view.summary = if problem.fields.is_empty() {
            sentence(&problem.detail)
        } else {
            "Check the fields marked below.".to_owned()
        };
        view
    }

    /// Marks a field as wrong.
    #[must_use]
    pub fn mark(mut self, name: &str, problem: impl Into<String>) -> Self {
        self.problems.insert(name.to_owned(), problem.into());
        if self.summary.is_empty() {
            "Check the fields marked below.".clone_into(&mut self.summary);
        }
        self
    }

    /// The status of a page with this form.
    pub fn status(&self) -> StatusCode {
        let unsent =
            if self.summary.is_empty() { StatusCode::OK } else { StatusCode::UNPROCESSABLE_ENTITY };
        self.refused_with.unwrap_or(unsent)
    }

    /// The value of a field.
    pub fn value(&self, name: &str) -> &str {
        self.data.raw(name)
    }

    /// Whether a field has this value.
    pub fn is(&self, name: &str, value: &str) -> bool {
        self.data.raw(name) == value
    }

    /// Whether a field has this value among those that were sent.
    pub fn has(&self, name: &str, value: &str) -> bool {
        self.data.all(name).any(|sent| sent == value)
    }

    /// What is wrong with a field; empty if nothing is.
    pub fn problem(&self, name: &str) -> &str {
        self.problems.get(name).map_or("", String::as_str)
    }

    /// Every wrong field with its problem, for the summary.
    pub fn problems(&self) -> impl Iterator<Item = (&String, &String)> {
        self.problems.iter()
    }
}

/// Whether a field is this one, or an entry or a member of it.
fn is_in(name: &str, field: &str) -> bool {
    name.strip_prefix(field).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

impl FromRequest<ConsoleState> for SentForm {
    type Rejection = PageFailure;

    async fn from_request(request: Request, console: &ConsoleState) -> Result<Self, PageFailure> {
        let (mut parts, body) = request.into_parts();
        let visitor = ConsoleVisitor::from_request_parts(&mut parts, console).await?;
        parts.extensions.insert(BodyOf(visitor.customer.id));
        let data = read(console, &parts, body).await.map_err(PageFailure::Edge)?;
        if !visitor.is_own_form(parts.uri.path(), data.raw(TOKEN_FIELD)) {
            return Err(PageFailure::BadForm(visitor.page_frame()));
        }
        Ok(Self { visitor, data })
    }
}

impl FromRequest<ConsoleState> for OpenForm {
    type Rejection = ApiError;

    async fn from_request(request: Request, console: &ConsoleState) -> Result<Self, ApiError> {
        let (parts, body) = request.into_parts();
        console.web.own_pages().check(&parts.headers)?;
        read(console, &parts, body).await.map(Self)
    }
}

async fn read(
    console: &ConsoleState,
    parts: &http::request::Parts,
    body: axum::body::Body,
) -> Result<FormData, ApiError> {
    debug_assert!(csrf::is_change(&parts.method), "a form is sent by POST");
    if !is_form(&parts.headers) {
        return Err(ApiError::UnsupportedMediaType);
    }
    let bytes_max = console.config.http.limits.json_body_bytes_max;
    let bytes = console.web.read_body(&parts.extensions, body, bytes_max).await?;
    FormData::parse(&bytes).given_once("body", &LISTS)
}

fn is_form(headers: &HeaderMap) -> bool {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = value.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/x-www-form-urlencoded")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_with_all_their_values() {
        let data = FormData::parse(b"name=+My+key+&accounts=a&accounts=b&empty=&on=1");

        assert_eq!(data.text("name"), "My key");
        assert_eq!(data.raw("name"), " My key ");
        assert_eq!(data.all("accounts").collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(data.optional("empty"), None);
        assert!(data.is_ticked("on"));
        assert!(!data.is_ticked("off"));
        assert_eq!(data.text("missing"), "");
    }

    #[test]
    fn fields_that_are_given_again_are_named_however_they_are_written_and_lists_are_not() {
        let refused = |text: &str, lists: &[&str]| {
            let read = FormData::of_query(text).given_once("body", lists);
            let problems = read.err().and_then(|error| error.field_problems()).unwrap_or_default();
            problems.into_iter().map(|problem| problem.loc.join(".")).collect::<Vec<_>>()
        };

        assert_eq!(refused("next=/a&x=1&n%65xt=/b&x=1&y", &[]), ["body.next", "body.x"]);
        assert_eq!(refused("accounts=a&accounts=b&columns=c&columns=c", &LISTS), [""; 0]);
        assert_eq!(refused("accounts=a&accounts=b", &[]), ["body.accounts"]);
        assert_eq!(refused("next=/a&x=1", &[]), [""; 0]);
        assert_eq!(refused("", &[]), [""; 0]);
        let long = "x".repeat(1_000);
        assert!(refused(&format!("{long}&{long}"), &[])[0].len() < 100);
    }
}
