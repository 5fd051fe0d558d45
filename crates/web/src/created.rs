//! The response to a creation: 201, the created resource, and its `Location`.

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};

/// A created resource. `GET` works on its path.
pub struct CreatedResource<T> {
    /// Its path.
    pub location: String,
    /// Its representation.
    pub body: T,
}

impl<T: serde::Serialize> IntoResponse for CreatedResource<T> {
    fn into_response(self) -> Response {
        let mut response = (StatusCode::CREATED, axum::Json(self.body)).into_response();
        // Ids contain only visible characters, so the conversion always succeeds.
        if let Ok(location) = HeaderValue::try_from(self.location) {
            response.headers_mut().insert(header::LOCATION, location);
        }
        response
    }
}
