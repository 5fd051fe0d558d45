//! Extractors with our errors: what a handler takes, parsed at the edge.
//!
//! A wrong field answers 422 with the way down to it; an unknown or repeated field is wrong too, so that a
//! misspelt setting is never silently ignored.

use std::collections::HashSet;

use axum::extract::{FromRequest, FromRequestParts, Request};
use http::request::Parts;
use serde::de::{DeserializeOwned, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::app::App;
use crate::error::{ApiError, FieldProblem};

/// A JSON body of the service's own routes.
pub(crate) struct Json<T>(pub(crate) T);

/// The same where a request may come without a body.
pub(crate) struct OptionalJson<T>(pub(crate) T);

/// Query parameters.
pub(crate) struct Query<T>(pub(crate) T);

/// The one parameter of a path.
pub(crate) struct Path<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<App> for Json<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> Result<Self, ApiError> {
        let (parts, incoming) = request.into_parts();
        if !is_json(&parts.headers) {
            return Err(ApiError::UnsupportedMediaType);
        }
        let bytes_max = app.config.http.limits.json_body_bytes_max;
        let bytes = app.read_body(&parts.extensions, incoming, bytes_max).await?;
        parse_json(&bytes).map(Self)
    }
}

impl<T: DeserializeOwned + Default> FromRequest<App> for OptionalJson<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> Result<Self, ApiError> {
        let is_empty = axum::body::HttpBody::is_end_stream(request.body());
        if is_empty && !request.headers().contains_key(http::header::CONTENT_TYPE) {
            return Ok(Self(T::default()));
        }
        Json::from_request(request, app).await.map(|Json(body)| Self(body))
    }
}

/// Whether the caller says that the body is JSON.
pub(crate) fn is_json(headers: &http::HeaderMap) -> bool {
    let Some(value) = headers.get(http::header::CONTENT_TYPE).and_then(|value| value.to_str().ok())
    else {
        return false;
    };
    let mut parts = value.split(';').map(str::trim);
    let essence = parts.next().unwrap_or_default();
    let utf8 = parts.all(|parameter| {
        let charset = parameter.to_ascii_lowercase();
        !charset.starts_with("charset=") || charset.trim_matches('"').ends_with("utf-8")
    });
    essence.eq_ignore_ascii_case("application/json") && utf8
}

/// Reads JSON of the expected shape; an error says where it is.
pub(crate) fn parse_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    read_json::<NamesOnce>(bytes)?;
    // A list would be taken for the fields in their order.
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return Err(field_problem("body", ".", "invalid type: the body must be a JSON object"));
    }
    read_json(bytes)
}

fn read_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        field_problem("body", &error.path().to_string(), &error.inner().to_string())
    })?;
    reader.end().map_err(|error| field_problem("body", ".", &error.to_string()))?;
    Ok(value)
}

/// Any JSON in which no object names a field twice: a map would keep the last one without a word.
struct NamesOnce;

impl<'de> Deserialize<'de> for NamesOnce {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(NamesOnceVisitor)
    }
}

struct NamesOnceVisitor;

impl<'de> Visitor<'de> for NamesOnceVisitor {
    type Value = NamesOnce;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<NamesOnce, E> {
        Ok(NamesOnce)
    }

    fn visit_bool<E>(self, _: bool) -> Result<NamesOnce, E> {
        Ok(NamesOnce)
    }

    fn visit_i64<E>(self, _: i64) -> Result<NamesOnce, E> {
        Ok(NamesOnce)
    }

    fn visit_u64<E>(self, _: u64) -> Result<NamesOnce, E> {
        Ok(NamesOnce)
    }

    fn visit_f64<E>(self, _: f64) -> Result<NamesOnce, E> {
        Ok(NamesOnce)
    }

    fn visit_str<E>(self, _: &str) -> Result<NamesOnce, E> {
        Ok(NamesOnce)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<NamesOnce, A::Error> {
        while let Some(NamesOnce) = list.next_element()? {}
        Ok(NamesOnce)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<NamesOnce, A::Error> {
        let mut names = HashSet::new();
        while let Some(name) = object.next_key::<String>()? {
            if names.contains(&name) {
                return Err(serde::de::Error::custom(format!("duplicate field `{name}`")));
            }
            names.insert(name);
            object.next_value::<NamesOnce>()?;
        }
        Ok(NamesOnce)
    }
}

impl<T: DeserializeOwned> FromRequestParts<App> for Query<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _app: &App) -> Result<Self, ApiError> {
        let raw = parts.uri.query().unwrap_or_default();
        let reader = serde_urlencoded::Deserializer::new(form_urlencoded::parse(raw.as_bytes()));
        serde_path_to_error::deserialize(reader).map(Self).map_err(|error| {
            field_problem("query", &error.path().to_string(), &error.inner().to_string())
        })
    }
}

impl<T> FromRequestParts<App> for Path<T>
where
    T: std::str::FromStr + Send,
{
    type Rejection = ApiError;

    /// A path parameter that is not even of the right form names nothing that exists.
    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let raw = axum::extract::RawPathParams::from_request_parts(parts, app)
            .await
            .map_err(|_| ApiError::NotFound("nothing is at this path"))?;
        let text = raw.iter().next().map(|(_, value)| value).unwrap_or_default();
        text.parse().map(Self).map_err(|_| ApiError::NotFound("there is nothing of that id"))
    }
}

/// Turns serde's message into a field and a sentence.
fn field_problem(place: &str, path: &str, message: &str) -> ApiError {
    let message = message.split(" at line ").next().unwrap_or(message);
    let mut loc = vec![place.to_owned()];
    loc.extend(path.split('.').filter(|step| !matches!(*step, "" | "?")).map(str::to_owned));
    let named = |start: &str| {
        message.strip_prefix(start).and_then(|rest| rest.split('`').next()).map(str::to_owned)
    };
    let missing = named("missing field `");
    let kind = match (&missing, message) {
        (Some(_), _) => "missing",
        (None, text) if text.starts_with("unknown field") => "extra_forbidden",
        (None, text) if text.starts_with("duplicate field") => "duplicate",
        (None, text) if text.starts_with("invalid type") => "type_error",
        _ => "value_error",
    };
    let field = missing.or_else(|| named("unknown field `")).or_else(|| named("duplicate field `"));
    if let Some(field) = field
        && loc.last() != Some(&field)
    {
        loc.push(field);
    }
    FieldProblem { loc, msg: without_value(message), kind }.into()
}

/// The sentence without the value that it is about, which may be a secret in the wrong place.
fn without_value(message: &str) -> String {
    let Some((_, expected)) = message.rsplit_once(", expected ") else {
        return message.to_owned();
    };
    for kind in ["invalid type", "invalid value", "unknown variant"] {
        if message.starts_with(kind) {
            return format!("{kind}: expected {expected}");
        }
    }
    message.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Form {
        #[expect(dead_code, reason = "only the errors are looked at")]
        email: domain::customer::Email,
        #[expect(dead_code, reason = "only the errors are looked at")]
        count: Option<u8>,
    }

    fn problem(text: &str) -> (String, &'static str) {
        match parse_json::<Form>(text.as_bytes()) {
            Err(ApiError::Invalid(fields)) => (fields[0].loc.join("."), fields[0].kind),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_wrong_field_is_named_with_the_kind_of_mistake() {
        assert_eq!(problem("{}"), ("body.email".to_owned(), "missing"));
        assert_eq!(problem(r#"{"email":"x"}"#), ("body.email".to_owned(), "value_error"));
        assert_eq!(
            problem(r#"{"email":"a@b.c","count":"1"}"#),
            ("body.count".to_owned(), "type_error")
        );
        assert_eq!(
            problem(r#"{"email":"a@b.c","role":1}"#),
            ("body.role".to_owned(), "extra_forbidden")
        );
        assert_eq!(
            problem(r#"{"email":"a@b.c","email":"a@b.c"}"#),
            ("body.email".to_owned(), "duplicate")
        );
        assert_eq!(problem("{"), ("body".to_owned(), "value_error"));
        assert_eq!(problem(r#"{"email":"a@b.c"} x"#), ("body".to_owned(), "value_error"));
    }

    #[test]
    fn a_message_never_repeats_the_value() {
        for (message, shown) in [
            ("invalid type: string \"secret\", expected u8", "invalid type: expected u8"),
            ("invalid type: string \"a, expected b\", expected u8", "invalid type: expected u8"),
            ("invalid value: integer `7`, expected a word", "invalid value: expected a word"),
            (
                "unknown variant `secret`, expected `a` or `b`",
                "unknown variant: expected `a` or `b`",
            ),
            ("missing field `name`", "missing field `name`"),
        ] {
            assert_eq!(without_value(message), shown);
        }
    }

    #[test]
    fn json_in_another_encoding_is_not_json() {
        let say = |value: &'static str| {
            let mut headers = http::HeaderMap::new();
            headers.insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static(value));
            is_json(&headers)
        };

        assert!(say("application/json"));
        assert!(say("Application/JSON; charset=UTF-8"));
        assert!(!say("application/json; charset=utf-7"));
        assert!(!say("text/plain"));
        assert!(!is_json(&http::HeaderMap::new()));
    }
}
