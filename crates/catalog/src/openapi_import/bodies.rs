//! What an operation accepts and returns: the request body and the response to a successful call.

use serde_json::{Map, Value};

use super::document::OpenapiDocument;
use super::one_line;
use super::schema::{self, SchemaOwner};
use crate::route_docs::{RouteBody, RouteResponse};

/// A response of the document and its status.
#[derive(Clone, Copy)]
pub(super) struct SuccessResponse<'a> {
    status: u16,
    response: &'a Value,
}

/// A media type of a body with its schema.
#[derive(Clone, Copy)]
struct MediaType<'a> {
    name: &'a str,
    schema: Option<&'a Value>,
}

/// The request body of an operation.
pub(super) fn request_body<'a>(
    document: OpenapiDocument<'a>,
    operation: &'a Value,
) -> Option<RouteBody> {
    let body = document.resolved(operation.get("requestBody")?);
    let contents = body.get("content")?.as_object()?;
    let chosen = media_type(contents)?;
    let others = contents.keys().filter(|name| name.as_str() != chosen.name);
    Some(RouteBody {
        content_type: one_line(chosen.name),
        other_content_types: others
            .map(|name| one_line(name))
            .filter(|name| !name.is_empty())
            .collect(),
        required: body.get("required").and_then(Value::as_bool) == Some(true),
        schema: chosen
            .schema
            .and_then(|schema| schema::compact(document, schema, SchemaOwner::Body)),
    })
}

/// The first successful response, preferably with a body.
pub(super) fn success<'a>(
    document: OpenapiDocument<'a>,
    operation: &'a Value,
) -> Option<SuccessResponse<'a>> {
    let responses = operation.get("responses")?.as_object()?;
    let mut successes: Vec<SuccessResponse<'a>> = responses
        .iter()
        .filter_map(|(name, response)| {
            let status = match name.as_str() {
                "2XX" | "2xx" => 200,
                name => name.parse().ok().filter(|status| (200..300).contains(status))?,
            };
            Some(SuccessResponse { status, response: document.resolved(response) })
        })
        .collect();
    successes.sort_by_key(|success| (success.media_type().is_none(), success.status));
    successes.first().copied()
}

impl<'a> SuccessResponse<'a> {
    /// Its entry in the catalogue.
    pub(super) fn docs(self, document: OpenapiDocument<'a>) -> RouteResponse {
        RouteResponse {
            status: self.status,
            content_type: self.media_type().map(|media| one_line(media.name)).unwrap_or_default(),
            schema: self
                .schema()
                .and_then(|schema| schema::compact(document, schema, SchemaOwner::Response)),
        }
    }

    /// The schema of its body.
    pub(super) fn schema(self) -> Option<&'a Value> {
        self.media_type()?.schema
    }

    /// Whether a header is documented.
    pub(super) fn has_header(self, name: &str) -> bool {
        let headers = self.response.get("headers").and_then(Value::as_object);
        headers.is_some_and(|headers| headers.keys().any(|known| known.eq_ignore_ascii_case(name)))
    }

    fn media_type(self) -> Option<MediaType<'a>> {
        media_type(self.response.get("content")?.as_object()?)
    }
}

/// The media type that callers use: JSON if there is one, otherwise a form, otherwise the first.
fn media_type(contents: &Map<String, Value>) -> Option<MediaType<'_>> {
    let rank = |name: &str| {
        let plain = name.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        match plain.as_str() {
            "application/json" => 0,
            other if other.ends_with("+json") => 1,
            "application/x-www-form-urlencoded" => 2,
            "multipart/form-data" => 3,
            _ => 4,
        }
    };
    let usable = contents.iter().filter(|(name, _)| !one_line(name).is_empty());
    let (name, media) = usable.min_by_key(|(name, _)| rank(name))?;
    Some(MediaType { name, schema: media.get("schema") })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_json_of_a_body_is_described_and_other_media_types_are_named() {
        let document = json!({"body": {"required": true, "content": {
            "application/merge-patch+json": {}, "multipart/form-data": {"schema": {"type": "object"}},
            "application/json; charset=utf-8": {"schema": {"type": "array"}},
        }}});
        let operation = json!({"requestBody": {"$ref": "#/body"}});

        let body = request_body(OpenapiDocument::new(&document), &operation).unwrap();

        assert_eq!(body.content_type, "application/json; charset=utf-8");
        assert_eq!(
            body.other_content_types,
            ["application/merge-patch+json", "multipart/form-data"]
        );
        assert!(body.required);
        assert_eq!(body.schema.unwrap().as_str(), "{\"type\":\"array\"}");
    }

    #[test]
    fn the_response_is_the_first_success_with_a_body() {
        let document = json!({});
        let status_of = |responses: Value| {
            let operation = json!({"responses": responses});
            let document = OpenapiDocument::new(&document);
            success(document, &operation).map(|success| {
                let docs = success.docs(document);
                (docs.status, docs.content_type)
            })
        };
        let json_content = json!({"content": {"application/json": {"schema": {}}}});

        assert_eq!(
            status_of(
                json!({"200": {}, "404": json_content, "202": json_content, "201": json_content})
            ),
            Some((201, "application/json".to_owned()))
        );
        assert_eq!(
            status_of(json!({"204": {}, "default": json_content})),
            Some((204, String::new()))
        );
        assert_eq!(status_of(json!({"2XX": json_content})).unwrap().0, 200);
        assert_eq!(status_of(json!({"default": {}, "x-own": 1})), None);
    }
}
