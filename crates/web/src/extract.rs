//! Extractors that parse a handler's arguments and refuse wrong ones with our errors.
//!
//! A request with wrong fields gets a 422 that names all of them. Unknown and repeated fields are
//! wrong too, so that a misspelt setting is never silently ignored. `fields` has the rules.

use axum::extract::FromRef;
use axum::extract::{FromRequest, FromRequestParts, Request};
use failures::Failure;
use http::request::Parts;

use crate::WebState;
use crate::error::ApiError;
use crate::fields::{self, RequestBody, RequestQuery};

/// A JSON body of the service's own routes, with no query beside it.
pub struct Json<T>(pub T);

/// The same for routes whose body has no required field: an absent body is an empty object.
pub struct OptionalJson<T>(pub T);

/// Query parameters.
pub struct Query<T>(pub T);

/// No query parameters: an argument of every route that takes neither query parameters nor a JSON
/// body.
pub struct NoQuery;

/// The one parameter of a path.
pub struct Path<T>(pub T);

impl<S, T: RequestBody> FromRequest<S> for Json<T>
where
    WebState: FromRef<S>,
    S: Send + Sync,
{
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let web = &WebState::from_ref(state);
        let (parts, incoming) = request.into_parts();
        if !is_json(&parts.headers) {
            return Err(ApiError::UnsupportedMediaType);
        }
        let bytes_max = web.config.http.limits.json_body_bytes_max;
        let bytes = web.read_body(&parts.extensions, incoming, bytes_max).await?;
        fields::read_body(web, parts.uri.query(), &bytes).map(Self)
    }
}

impl<S, T: RequestBody> FromRequest<S> for OptionalJson<T>
where
    WebState: FromRef<S>,
    S: Send + Sync,
{
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let is_empty = axum::body::HttpBody::is_end_stream(request.body());
        let headers = request.headers();
        if is_empty && (!headers.contains_key(http::header::CONTENT_TYPE) || is_json(headers)) {
            let web = &WebState::from_ref(state);
            return fields::read_body(web, request.uri().query(), b"{}").map(Self);
        }
        Json::from_request(request, state).await.map(|Json(body)| Self(body))
    }
}

impl<S, T: RequestQuery> FromRequestParts<S> for Query<T>
where
    WebState: FromRef<S>,
    S: Send + Sync,
{
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let web = &WebState::from_ref(state);
        fields::read_query(web, parts.uri.query()).map(Self)
    }
}

impl<S> FromRequestParts<S> for NoQuery
where
    S: Send + Sync,
{
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ApiError> {
        fields::refuse_query(parts.uri.query()).map(|()| Self)
    }
}

/// Whether the request's `Content-Type` is JSON in UTF-8.
pub fn is_json(headers: &http::HeaderMap) -> bool {
    let Some(value) = headers.get(http::header::CONTENT_TYPE).and_then(|value| value.to_str().ok())
    else {
        return false;
    };
    let mut parts = value.split(';').map(str::trim);
    let essence = parts.next().unwrap_or_default();
    let utf8 = parts.all(|parameter| {
        let Some((name, charset)) = parameter.split_once('=') else { return true };
        let charset = charset.trim();
        let quoted = charset.strip_prefix('"').and_then(|inner| inner.strip_suffix('"'));
        !name.trim().eq_ignore_ascii_case("charset")
            || quoted.unwrap_or(charset).eq_ignore_ascii_case("utf-8")
    });
    essence.eq_ignore_ascii_case("application/json") && utf8
}

impl<S, T> FromRequestParts<S> for Path<T>
where
    S: Send + Sync,
    T: std::str::FromStr + Send,
{
    type Rejection = ApiError;

    /// A path parameter of the wrong form cannot name anything that exists, so it is a 404.
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let raw = axum::extract::RawPathParams::from_request_parts(parts, state)
            .await
            .map_err(|_| ApiError::Failure(Failure::NotFound("nothing is at this path")))?;
        let text = raw.iter().next().map(|(_, value)| value).unwrap_or_default();
        text.parse()
            .map(Self)
            .map_err(|_| ApiError::Failure(Failure::NotFound("nothing has that id")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_must_be_utf_8() {
        let say = |value: &'static str| {
            let mut headers = http::HeaderMap::new();
            headers.insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static(value));
            is_json(&headers)
        };

        assert!(say("application/json"));
        assert!(say("Application/JSON; charset=UTF-8"));
        assert!(say("application/json; charset=\"utf-8\"; profile=x"));
        for other in ["utf-7", "x-utf-8", "\"x-utf-8\"", "\"utf-8", "utf-8\"", ""] {
            let value: &'static str = format!("application/json; charset={other}").leak();
            assert!(!say(value), "{other}");
        }
        assert!(!say("text/plain"));
        assert!(!is_json(&http::HeaderMap::new()));
    }
}
