//! The query of a page's address.

use std::collections::HashSet;

use axum::extract::{FromRequestParts, Query};
use domain::field_error::FieldErrorKind;
use http::request::Parts;
use serde::de::DeserializeOwned;
use web::error::ApiError;
use web::fields::FieldProblems;

/// The query of a page's address, read into `T`. Unknown parameters are ignored, since other
/// programs add some to links. A repeated one is refused: people read why on a page, programs in
/// the problem.
pub struct PageQuery<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for PageQuery<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let mut problems = FieldProblems::default();
        if let Some(name) = repeated(parts.uri.query().unwrap_or_default()) {
            let message = "is given more than once; send it once";
            problems.query(&name, FieldErrorKind::Duplicate, message);
            problems.finish()?;
        }
        match Query::try_from_uri(&parts.uri) {
            Ok(Query(read)) => Ok(Self(read)),
            Err(rejection) => Err(ApiError::Failure(failures::Failure::Invalid(vec![
                failures::FieldProblem::new(
                    "query",
                    "",
                    FieldErrorKind::WrongType,
                    rejection.body_text(),
                ),
            ]))),
        }
    }
}

/// The first name that is given again.
fn repeated(query: &str) -> Option<String> {
    let mut seen = HashSet::new();
    let mut names = form_urlencoded::parse(query.as_bytes()).map(|(name, _)| name.into_owned());
    names.find(|name| !seen.insert(name.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_parameter_is_named_however_it_is_written() {
        assert_eq!(repeated("next=/a&x=1&n%65xt=/b"), Some("next".to_owned()));
        assert_eq!(repeated("next=/a&x=1"), None);
        assert_eq!(repeated(""), None);
    }
}
