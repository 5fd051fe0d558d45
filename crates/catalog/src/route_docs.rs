//! Documentation of a route that calls do not need: parameters, bodies, responses, paging.
//!
//! It is for people and for programs that write calls. Neither the matcher nor a call reads it, so
//! a route stores it behind one pointer.

use std::fmt;

use serde::Deserialize;
use serde_json::Value;

use crate::dataset::JsonPointer;

/// The longest schema, in bytes of JSON text.
pub(crate) const SCHEMA_BYTES_MAX: usize = 64 * 1024;

/// The documentation of one route.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RouteDocs {
    /// The operation's name in the platform's own reference; may be empty.
    pub operation_id: String,
    /// Whether the platform advises against it.
    pub deprecated: bool,
    /// The documented path parameters.
    pub path_parameters: Vec<RouteParameter>,
    /// The documented request headers.
    pub headers: Vec<RouteParameter>,
    /// The request body.
    pub body: Option<RouteBody>,
    /// The response to a call that succeeded.
    pub response: Option<RouteResponse>,
    /// How its pages are requested, if it is a list.
    pub paging: Option<RoutePaging>,
}

/// A documented path parameter, query parameter or header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteParameter {
    /// Its name.
    pub name: String,
    /// Whether the platform refuses a call without it.
    pub required: bool,
    /// What it does, in one line; may be empty.
    pub description: String,
    /// Its type, values and default.
    pub schema: Option<SchemaText>,
}

/// A documented request body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteBody {
    /// The media type that the schema describes.
    pub content_type: String,
    /// Other media types that the platform accepts.
    pub other_content_types: Vec<String>,
    /// Whether the platform refuses a call without a body.
    pub required: bool,
    /// The schema of its content.
    pub schema: Option<SchemaText>,
}

/// A documented response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteResponse {
    /// Its status, 200 to 299.
    pub status: u16,
    /// Its media type; empty if it has no body.
    pub content_type: String,
    /// The schema of its content.
    pub schema: Option<SchemaText>,
}

/// How the pages of a list are requested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoutePaging {
    /// What selects a page.
    pub style: RoutePagingStyle,
    /// The query parameter that selects a page, if there is one.
    pub parameter: Option<String>,
    /// The query parameter for the number of rows in a page, if there is one.
    pub size_parameter: Option<String>,
    /// Where the rows are in the response. The empty pointer means that the response is the list.
    pub rows: Option<JsonPointer>,
    /// Where the next cursor or URL is in the response.
    pub next: Option<JsonPointer>,
    /// Whether this was guessed from names in a document and not confirmed.
    pub guessed: bool,
}

/// What selects a page of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoutePagingStyle {
    /// A value from the previous page.
    Cursor,
    /// Its number.
    Page,
    /// The number of rows before it.
    Offset,
    /// The URL in the `Link` header of the previous page.
    LinkHeader,
    /// The URL in the body of the previous page.
    NextUrl,
}

/// A JSON Schema as the compact text of a JSON object.
#[derive(Clone, PartialEq, Eq)]
pub struct SchemaText(Box<str>);

impl RouteDocs {
    /// Whether nothing is documented.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl RoutePagingStyle {
    /// Its name in catalogue files.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cursor => "cursor",
            Self::Page => "page",
            Self::Offset => "offset",
            Self::LinkHeader => "link_header",
            Self::NextUrl => "next_url",
        }
    }
}

impl SchemaText {
    /// Reads the JSON text of a schema. The error says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > SCHEMA_BYTES_MAX {
            return Err(format!("the schema is longer than {SCHEMA_BYTES_MAX} bytes: shorten it"));
        }
        let problem = |why: &str| format!("the schema is not a JSON object as text: {why}");
        if !text.starts_with('{') {
            return Err(problem("it does not begin with a brace"));
        }
        serde_json::from_str::<JsonObject>(text).map_err(|error| problem(&error.to_string()))?;
        Ok(Self(text.into()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The schema as a JSON value.
    pub fn value(&self) -> Value {
        // The text was parsed before.
        serde_json::from_str(&self.0).unwrap_or_default()
    }
}

/// Any JSON object, checked but not stored.
#[derive(Deserialize)]
struct JsonObject {}

impl fmt::Debug for SchemaText {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_is_a_json_object_of_bounded_size() {
        assert_eq!(SchemaText::parse(r#"{"type":"string"}"#).unwrap().value()["type"], "string");
        for text in ["", "true", "[]", "{", "{} {}", "type: string"] {
            assert!(SchemaText::parse(text).unwrap_err().contains("not a JSON object"), "{text}");
        }
        let long = format!("{{\"description\":\"{}\"}}", "x".repeat(SCHEMA_BYTES_MAX));
        assert!(SchemaText::parse(&long).unwrap_err().contains("shorten it"));
        assert!(SchemaText::parse(&"{\"a\":".repeat(10_000)).is_err());
    }
}
