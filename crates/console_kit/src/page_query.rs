//! The query of a page's address.

use axum::extract::{FromRequestParts, Query};
use domain::field_error::FieldErrorKind;
use http::request::Parts;
use serde::de::DeserializeOwned;
use web::error::ApiError;

use crate::form::FormData;

/// The query of a page's address, read into `T`. Unknown parameters are ignored, since other
/// programs add some to links. A repeated one is refused: people read why on a page, programs in
/// the problem.
pub struct PageQuery<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for PageQuery<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        of_address(parts)?;
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

/// The query of the address of a list with filters, read field by field. A repeated one is refused.
pub struct PageFilters(pub FormData);

impl<S: Send + Sync> FromRequestParts<S> for PageFilters {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        of_address(parts).map(Self)
    }
}

fn of_address(parts: &Parts) -> Result<FormData, ApiError> {
    FormData::of_query(parts.uri.query().unwrap_or_default()).given_once("query", &[])
}
