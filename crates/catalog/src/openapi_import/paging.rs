//! Guesses how the pages of a list are requested, from the names that an operation uses.
//!
//! A guess needs at least two signs: rows in the response or a parameter for the page size, and
//! something that leads to the next page. Nothing confirms a guess, so the catalogue marks it as
//! one.

use serde_json::Value;

use super::bodies::SuccessResponse;
use super::document::OpenapiDocument;
use super::paging_fields::{self, PageFields};
use crate::route_docs::{RoutePaging, RoutePagingStyle, RouteParameter, SchemaText};

/// Query parameters for a page number.
const PAGE: [&str; 8] =
    ["page", "pagenumber", "pageno", "pagenum", "pageindex", "currentpage", "page[number]", "p"];

/// Query parameters for the number of rows before a page.
const OFFSET: [&str; 7] =
    ["offset", "skip", "startindex", "pageoffset", "page[offset]", "start", "from"];

/// Query parameters for a value from the previous page.
const CURSOR: [&str; 20] = [
    "cursor",
    "after",
    "nexttoken",
    "pagetoken",
    "nextpagetoken",
    "nextcursor",
    "startingafter",
    "startcursor",
    "pagecursor",
    "paginationtoken",
    "continuation",
    "continuationtoken",
    "marker",
    "scrollid",
    "nextkey",
    "bookmark",
    "page[after]",
    "page[cursor]",
    "aftercursor",
    "next",
];

/// Query parameters for the page size.
const SIZE: [&str; 17] = [
    "perpage",
    "pagesize",
    "limit",
    "size",
    "count",
    "maxresults",
    "pagelimit",
    "take",
    "top",
    "itemsperpage",
    "resultsperpage",
    "maxitems",
    "first",
    "max",
    "page[size]",
    "page[limit]",
    "n",
];

/// The signs of paging in an operation.
struct PagingSigns<'a> {
    page: Option<&'a RouteParameter>,
    offset: Option<&'a RouteParameter>,
    cursor: Option<&'a RouteParameter>,
    size: Option<&'a RouteParameter>,
    link_header: bool,
    fields: PageFields,
}

/// Guesses how the pages of an operation are requested; nothing if there are too few signs.
pub(super) fn guess<'a>(
    document: OpenapiDocument<'a>,
    query: &[RouteParameter],
    success: Option<SuccessResponse<'a>>,
) -> Option<RoutePaging> {
    let success = success?;
    let fields = paging_fields::read(document, success.schema());
    let numbers = |parameter: &&RouteParameter| !is_text(parameter);
    let signs = PagingSigns {
        page: named(query, &PAGE).filter(numbers),
        offset: named(query, &OFFSET).filter(numbers),
        // A page parameter of type string takes a value from the previous page.
        cursor: named(query, &CURSOR).or_else(|| named(query, &PAGE).filter(|page| is_text(page))),
        size: named(query, &SIZE),
        link_header: success.has_header("Link"),
        fields,
    };
    signs.guess()
}

impl PagingSigns<'_> {
    /// The clearest sign wins: a cursor in the response, a number, a URL, then a cursor that is not
    /// in the response.
    fn guess(self) -> Option<RoutePaging> {
        let has_rows = self.fields.rows.is_some();
        let is_list = has_rows || self.size.is_some();
        let (style, parameter) = if self.cursor.is_some() && self.fields.next_cursor.is_some() {
            (RoutePagingStyle::Cursor, self.cursor)
        } else if self.page.is_some() && (is_list || self.link_header) {
            (RoutePagingStyle::Page, self.page)
        } else if self.offset.is_some() && is_list {
            (RoutePagingStyle::Offset, self.offset)
        } else if self.link_header && is_list {
            (RoutePagingStyle::LinkHeader, self.cursor)
        } else if self.fields.next_url.is_some() && has_rows {
            (RoutePagingStyle::NextUrl, self.cursor)
        } else if self.cursor.is_some() && has_rows && self.size.is_some() {
            (RoutePagingStyle::Cursor, self.cursor)
        } else {
            return None;
        };
        let name = |named: Option<&RouteParameter>| named.map(|found| found.name.clone());
        Some(RoutePaging {
            style,
            parameter: name(parameter),
            size_parameter: name(self.size),
            rows: self.fields.rows,
            next: match style {
                RoutePagingStyle::Cursor => self.fields.next_cursor,
                RoutePagingStyle::NextUrl => self.fields.next_url,
                RoutePagingStyle::Page
                | RoutePagingStyle::Offset
                | RoutePagingStyle::LinkHeader => None,
            },
            guessed: true,
        })
    }
}

/// The parameter whose name is first in the list.
fn named<'a>(query: &'a [RouteParameter], names: &[&str]) -> Option<&'a RouteParameter> {
    names.iter().find_map(|name| query.iter().find(|known| plain(&known.name) == *name))
}

/// A normalized name: `pageToken`, `page_token` and `$page-token` are equal.
pub(super) fn plain(name: &str) -> String {
    let kept =
        name.chars().filter(|letter| letter.is_ascii_alphanumeric() || "[]".contains(*letter));
    kept.map(|letter| letter.to_ascii_lowercase()).collect()
}

/// Whether a parameter is of type string; one without a type may be anything.
fn is_text(parameter: &RouteParameter) -> bool {
    let schema = parameter.schema.as_ref().map(SchemaText::value);
    schema.and_then(|schema| schema.get("type").cloned()) == Some(Value::from("string"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{bodies, parameters};
    use super::*;

    /// The guess for query parameters with their types, the schema of the response, and its
    /// headers.
    fn guessed(query: &[(&str, &str)], schema: &Value, headers: &[&str]) -> String {
        let parameters: Vec<Value> = query
            .iter()
            .map(|(name, kind)| json!({"name": name, "in": "query", "schema": {"type": kind}}))
            .collect();
        let headers: Value = headers.iter().map(|name| ((*name).to_owned(), json!({}))).collect();
        let operation = json!({"parameters": parameters, "responses": {"200": {
            "headers": headers, "content": {"application/json": {"schema": schema}},
        }}});
        let document = OpenapiDocument::new(&Value::Null);
        let item = serde_json::Map::new();
        let read = parameters::read(document, &item, &operation);
        let Some(paging) = guess(document, &read.query, bodies::success(document, &operation))
        else {
            return "none".to_owned();
        };
        assert!(paging.guessed);
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        format!(
            "{} {} {} {:?} {}",
            paging.style.as_str(),
            or_none(paging.parameter),
            or_none(paging.size_parameter),
            or_none(paging.rows.map(|rows| rows.to_string())),
            or_none(paging.next.map(|next| next.to_string()))
        )
    }

    fn list() -> Value {
        json!({"type": "array", "items": {"type": "object"}})
    }

    fn object(members: &[(&str, Value)]) -> Value {
        let members: Value =
            members.iter().map(|(name, schema)| ((*name).to_owned(), schema.clone())).collect();
        json!({"type": "object", "properties": members})
    }

    #[test]
    fn page_numbers_beside_a_link_header_are_page_numbers() {
        let query = [("per_page", "integer"), ("page", "integer")];

        assert_eq!(guessed(&query, &list(), &["Link"]), "page page per_page \"\" -");
        assert_eq!(guessed(&query, &list(), &[]), "page page per_page \"\" -");
        assert_eq!(
            guessed(&[("pageNumber", "integer")], &object(&[("items", list())]), &[]),
            "page pageNumber - \"/items\" -"
        );
    }

    #[test]
    fn a_cursor_is_one_where_the_response_has_the_next() {
        let text = json!({"type": "string"});
        let meta = object(&[("next_cursor", text.clone())]);
        let nested = object(&[("data", list()), ("meta", meta)]);
        let token = object(&[("events", list()), ("nextPageToken", text.clone())]);

        assert_eq!(
            guessed(&[("cursor", "string"), ("limit", "integer")], &nested, &[]),
            "cursor cursor limit \"/data\" /meta/next_cursor"
        );
        assert_eq!(
            guessed(&[("pageToken", "string"), ("maxResults", "integer")], &token, &[]),
            "cursor pageToken maxResults \"/events\" /nextPageToken"
        );
        assert_eq!(
            guessed(&[("page", "string")], &object(&[("data", list()), ("next_page", text)]), &[]),
            "cursor page - \"/data\" /next_page"
        );
        assert_eq!(
            guessed(
                &[("starting_after", "string"), ("limit", "integer")],
                &object(&[("data", list()), ("has_more", json!({"type": "boolean"}))]),
                &[]
            ),
            "cursor starting_after limit \"/data\" -"
        );
    }

    #[test]
    fn offsets_links_and_urls_are_told_apart() {
        let url = json!({"type": "string", "format": "uri"});

        assert_eq!(
            guessed(&[("offset", "integer"), ("limit", "integer")], &list(), &[]),
            "offset offset limit \"\" -"
        );
        assert_eq!(
            guessed(&[("after", "string"), ("per_page", "integer")], &list(), &["link"]),
            "link_header after per_page \"\" -"
        );
        assert_eq!(
            guessed(&[], &object(&[("results", list()), ("next", url)]), &[]),
            "next_url - - \"/results\" /next"
        );
    }

    #[test]
    fn too_little_is_no_guess() {
        assert_eq!(guessed(&[], &list(), &[]), "none");
        assert_eq!(guessed(&[("limit", "integer")], &list(), &[]), "none");
        assert_eq!(guessed(&[("page", "integer")], &object(&[]), &[]), "none");
        assert_eq!(guessed(&[("from", "string"), ("limit", "integer")], &list(), &[]), "none");
        assert_eq!(guessed(&[("cursor", "string")], &object(&[]), &[]), "none");
    }
}
