//! The response to a creation: 201, what was created, and where it can be found.

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};

/// Something that was created. The path is one that `GET` answers.
pub struct CreatedResource<T> {
    /// Where it is.
    pub location: String,
    /// What it is.
    pub body: T,
}

impl<T: serde::Serialize> IntoResponse for CreatedResource<T> {
    fn into_response(self) -> Response {
        let mut response = (StatusCode::CREATED, axum::Json(self.body)).into_response();
        // Ids are visible characters, so this is always a header.
        if let Ok(location) = HeaderValue::try_from(self.location) {
            response.headers_mut().insert(header::LOCATION, location);
        }
        response
    }
}
