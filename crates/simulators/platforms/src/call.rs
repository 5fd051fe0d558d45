//! A request as handlers see it: authenticated, with parsed path and body.

use bytes::Bytes;
use serde_json::{Map, Value};

use super::answer::Refusal;
use crate::overlay::{Overlay, OverlayPage};
use crate::settings::PlatformSettings;
use crate::world::World;
use crate::world::series::Series;

/// One request of an authenticated creator.
pub(crate) struct PlatformCall<'a> {
    /// The settings of the platforms.
    pub(crate) settings: &'a PlatformSettings,
    /// The world of the calling creator.
    pub(crate) world: &'a World,
    /// The time of the request; on replay its original time.
    pub(crate) now_ms: i64,
    /// The decoded parameters of the path, by name.
    pub(crate) params: Vec<(&'static str, String)>,
    /// The query, decoded, in order.
    pub(crate) query: Vec<(String, String)>,
    /// The body as JSON; `Null` if there is none or it is not JSON.
    pub(crate) body: Value,
    /// The body as received, for forms.
    pub(crate) raw_body: &'a Bytes,
    /// The header `Content-Type`, for forms.
    pub(crate) content_type: Option<&'a str>,
}

impl PlatformCall<'_> {
    /// The path parameter with this name; empty if the route has none.
    pub(crate) fn param(&self, name: &str) -> &str {
        self.params.iter().find(|(key, _)| *key == name).map_or("", |(_, value)| value)
    }

    /// The first query parameter with this name.
    pub(crate) fn query(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// All query parameters with this name, also with the spelling `name[]`.
    pub(crate) fn query_all(&self, name: &str) -> impl Iterator<Item = &str> {
        let listed = format!("{name}[]");
        self.query
            .iter()
            .filter(move |(key, _)| key == name || *key == listed)
            .map(|(_, value)| value.as_str())
    }

    /// A whole number from the query; 400 if it is not one.
    pub(crate) fn query_number(&self, name: &str) -> Result<Option<u64>, Refusal> {
        let Some(text) = self.query(name) else {
            return Ok(None);
        };
        text.parse().map(Some).map_err(|_| Refusal::bad_request(format!("{name} is not a number")))
    }

    /// A field of the JSON body; `Null` if it is missing.
    pub(crate) fn field(&self, name: &str) -> &Value {
        self.body.get(name).unwrap_or(&Value::Null)
    }

    /// A text field of the JSON body that is required and must not be empty.
    pub(crate) fn text(&self, name: &str) -> Result<&str, Refusal> {
        let text = self.field(name).as_str().map(str::trim).filter(|text| !text.is_empty());
        text.ok_or_else(|| Refusal::bad_request(format!("{name} is required")))
    }

    /// Those of the given fields that the JSON body has.
    pub(crate) fn fields(&self, names: &[&str]) -> Map<String, Value> {
        let Value::Object(body) = &self.body else {
            return Map::new();
        };
        let kept = body.iter().filter(|(name, _)| names.contains(&name.as_str()));
        kept.map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    /// One page of a collection by the query's `limit` (the default if absent)
    /// and `offset`.
    pub(crate) fn page(
        &self,
        overlay: &Overlay,
        table: &str,
        series: Series,
        sizes: PageSizes,
    ) -> Result<OverlayPage, Refusal> {
        let limit = self.query_number("limit")?.unwrap_or(sizes.default).clamp(1, sizes.max);
        let offset = self.query_number("offset")?.unwrap_or(0);
        Ok(overlay.page(table, series, offset, limit))
    }
}

/// How many rows a page may have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PageSizes {
    /// If a request does not say.
    pub(crate) default: u64,
    /// The most.
    pub(crate) max: u64,
}

/// The fields of a JSON object literal, for [`Overlay::set`] and [`Overlay::create`].
pub(crate) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}
