//! The documentation of routes in catalogue files: its shape in TOML, checked, read and written.
//!
//! Schemas are JSON text and not TOML tables: JSON Schema is written in JSON everywhere, TOML has
//! no null, and the text passes through unchanged.

use std::sync::Arc;

use serde::Deserialize;

use crate::dataset::JsonPointer;
use crate::route::Route;
use crate::route_docs::{
    RouteBody, RouteDocs, RoutePaging, RoutePagingStyle, RouteParameter, RouteResponse, SchemaText,
};
use crate::template::PathTemplate;
use crate::toml_text::{line, quoted};

/// The longest description of a parameter, in bytes.
const TEXT_BYTES_MAX: usize = 4096;

/// The documentation in a `[[routes]]` entry.
pub(crate) struct RouteDocsText {
    pub(crate) operation_id: String,
    pub(crate) deprecated: bool,
    pub(crate) parameters: Vec<ParameterText>,
    pub(crate) headers: Vec<ParameterText>,
    pub(crate) body: Option<BodyText>,
    pub(crate) response: Option<ResponseText>,
    pub(crate) paging: Option<PagingText>,
}

/// A path parameter, query parameter or header.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ParameterText {
    name: String,
    #[serde(default)]
    required: bool,
    #[serde(default)]
    description: String,
    schema: Option<String>,
}

/// A request body.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BodyText {
    content_type: String,
    #[serde(default)]
    other_content_types: Vec<String>,
    #[serde(default)]
    required: bool,
    schema: Option<String>,
}

/// The response to a call that succeeded.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResponseText {
    status: u16,
    #[serde(default)]
    content_type: String,
    schema: Option<String>,
}

/// How pages are requested.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PagingText {
    style: PagingStyleText,
    parameter: Option<String>,
    size_parameter: Option<String>,
    rows: Option<String>,
    next: Option<String>,
    #[serde(default)]
    guessed: bool,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum PagingStyleText {
    Cursor,
    Page,
    Offset,
    LinkHeader,
    NextUrl,
}

impl RouteDocsText {
    /// Checks the documentation; nothing if there is none.
    pub(crate) fn check(self, template: &PathTemplate) -> Result<Option<Arc<RouteDocs>>, String> {
        if self.operation_id.len() > TEXT_BYTES_MAX {
            return Err(format!("operation_id is longer than {TEXT_BYTES_MAX} bytes"));
        }
        let names: Vec<&str> = template.names().collect();
        let unknown =
            self.parameters.iter().find(|parameter| !names.contains(&parameter.name.as_str()));
        if let Some(ParameterText { name, .. }) = unknown {
            return Err(format!("parameters names {name}, which the template does not have"));
        }
        // Every path parameter is required.
        let path = parameters(self.parameters, "parameters")?
            .into_iter()
            .map(|parameter| RouteParameter { required: true, ..parameter });
        let docs = RouteDocs {
            operation_id: self.operation_id,
            deprecated: self.deprecated,
            path_parameters: path.collect(),
            headers: parameters(self.headers, "headers")?,
            body: self.body.map(BodyText::check).transpose()?,
            response: self.response.map(ResponseText::check).transpose()?,
            paging: self.paging.map(PagingText::check).transpose()?,
        };
        Ok((!docs.is_empty()).then(|| Arc::new(docs)))
    }
}

/// Checks a list of parameters; `key` is its name in the file.
pub(crate) fn parameters(
    texts: Vec<ParameterText>,
    key: &str,
) -> Result<Vec<RouteParameter>, String> {
    let mut checked: Vec<RouteParameter> = Vec::new();
    for text in texts {
        let parameter = text.check(key)?;
        if checked.iter().any(|known| known.name == parameter.name) {
            return Err(format!("{key}: {} appears twice", parameter.name));
        }
        checked.push(parameter);
    }
    Ok(checked)
}

fn checked_schema(text: Option<&str>, place: &str) -> Result<Option<SchemaText>, String> {
    let read = text.map(SchemaText::parse).transpose();
    read.map_err(|problem| format!("{place}: {problem}"))
}

impl ParameterText {
    fn check(self, key: &str) -> Result<RouteParameter, String> {
        let place = format!("{key}: {}", self.name);
        if self.name.is_empty() || self.name.len() > TEXT_BYTES_MAX {
            return Err(format!("{key}: a name has 1 to {TEXT_BYTES_MAX} bytes"));
        }
        if self.description.len() > TEXT_BYTES_MAX {
            return Err(format!("{place}: the description is longer than {TEXT_BYTES_MAX} bytes"));
        }
        Ok(RouteParameter {
            schema: checked_schema(self.schema.as_deref(), &place)?,
            name: self.name,
            required: self.required,
            description: self.description,
        })
    }
}

impl BodyText {
    fn check(self) -> Result<RouteBody, String> {
        if self.content_type.is_empty() || self.other_content_types.iter().any(String::is_empty) {
            return Err("body: a content type is a text such as application/json".to_owned());
        }
        Ok(RouteBody {
            content_type: self.content_type,
            other_content_types: self.other_content_types,
            required: self.required,
            schema: checked_schema(self.schema.as_deref(), "body")?,
        })
    }
}

impl ResponseText {
    fn check(self) -> Result<RouteResponse, String> {
        if !(200..300).contains(&self.status) {
            return Err("response: status is that of a success, 200 to 299".to_owned());
        }
        Ok(RouteResponse {
            status: self.status,
            content_type: self.content_type,
            schema: checked_schema(self.schema.as_deref(), "response")?,
        })
    }
}

impl PagingText {
    fn check(self) -> Result<RoutePaging, String> {
        let style = self.style.value();
        let name = style.as_str();
        let (needs_parameter, may_have_next) = match style {
            RoutePagingStyle::Cursor => (true, true),
            RoutePagingStyle::Page | RoutePagingStyle::Offset => (true, false),
            RoutePagingStyle::LinkHeader => (false, false),
            RoutePagingStyle::NextUrl => (false, true),
        };
        if needs_parameter && self.parameter.as_deref().unwrap_or_default().is_empty() {
            return Err(format!("paging: the style {name} needs `parameter`"));
        }
        if self.next.is_some() && !may_have_next {
            return Err(format!("paging: the style {name} has no `next`"));
        }
        if self.next.is_none() && style == RoutePagingStyle::NextUrl {
            return Err(format!("paging: the style {name} needs `next`"));
        }
        let pointer = |text: Option<String>| {
            let read = text.as_deref().map(JsonPointer::parse).transpose();
            read.map_err(|problem| format!("paging: {problem}"))
        };
        Ok(RoutePaging {
            style,
            parameter: self.parameter,
            size_parameter: self.size_parameter,
            rows: pointer(self.rows)?,
            next: pointer(self.next)?,
            guessed: self.guessed,
        })
    }
}

impl PagingStyleText {
    const fn value(self) -> RoutePagingStyle {
        match self {
            Self::Cursor => RoutePagingStyle::Cursor,
            Self::Page => RoutePagingStyle::Page,
            Self::Offset => RoutePagingStyle::Offset,
            Self::LinkHeader => RoutePagingStyle::LinkHeader,
            Self::NextUrl => RoutePagingStyle::NextUrl,
        }
    }
}

/// Writes the keys that come before the query parameters.
pub(crate) fn write_head(text: &mut String, route: &Route) {
    let Some(docs) = &route.docs else { return };
    if !docs.operation_id.is_empty() {
        line(text, "operation_id", &quoted(&docs.operation_id));
    }
    if docs.deprecated {
        line(text, "deprecated", "true");
    }
    write_parameters(text, "parameters", &docs.path_parameters);
}

/// Writes the keys that come after the query parameters.
pub(crate) fn write_tail(text: &mut String, route: &Route) {
    let Some(docs) = &route.docs else { return };
    write_parameters(text, "headers", &docs.headers);
    if let Some(body) = &docs.body {
        line(text, "body", &body_text(body));
    }
    if let Some(response) = &docs.response {
        line(text, "response", &response_text(response));
    }
    if let Some(paging) = &docs.paging {
        line(text, "paging", &paging_text(paging));
    }
}

/// Writes a list of parameters, one on each line; nothing if it is empty.
pub(crate) fn write_parameters(text: &mut String, key: &str, parameters: &[RouteParameter]) {
    if parameters.is_empty() {
        return;
    }
    let mut list = String::from("[\n");
    for parameter in parameters {
        // Every path parameter is required.
        let required = (key != "parameters").then(|| parameter.required.to_string());
        list.push_str("    ");
        list.push_str(&inline_table([
            ("name", Some(quoted(&parameter.name))),
            ("required", required),
            ("description", Some(quoted(&parameter.description))),
            ("schema", parameter.schema.as_ref().map(json_text)),
        ]));
        list.push_str(",\n");
    }
    list.push(']');
    line(text, key, &list);
}

fn body_text(body: &RouteBody) -> String {
    let others: Vec<String> = body.other_content_types.iter().map(|other| quoted(other)).collect();
    inline_table([
        ("content_type", Some(quoted(&body.content_type))),
        ("other_content_types", (!others.is_empty()).then(|| format!("[{}]", others.join(", ")))),
        ("required", Some(body.required.to_string())),
        ("schema", body.schema.as_ref().map(json_text)),
    ])
}

fn response_text(response: &RouteResponse) -> String {
    let has_body = !response.content_type.is_empty();
    inline_table([
        ("status", Some(response.status.to_string())),
        ("content_type", has_body.then(|| quoted(&response.content_type))),
        ("schema", response.schema.as_ref().map(json_text)),
    ])
}

fn paging_text(paging: &RoutePaging) -> String {
    let name = |name: &Option<String>| name.as_ref().map(|name| quoted(name));
    let pointer = |pointer: &Option<JsonPointer>| {
        pointer.as_ref().map(|pointer| quoted(&pointer.to_string()))
    };
    inline_table([
        ("style", Some(quoted(paging.style.as_str()))),
        ("parameter", name(&paging.parameter)),
        ("size_parameter", name(&paging.size_parameter)),
        ("rows", pointer(&paging.rows)),
        ("next", pointer(&paging.next)),
        ("guessed", paging.guessed.then(|| "true".to_owned())),
    ])
}

/// A TOML table on one line, without members that have no value.
fn inline_table<const N: usize>(members: [(&str, Option<String>); N]) -> String {
    let members: Vec<String> = members
        .into_iter()
        .filter_map(|(key, value)| Some(format!("{key} = {}", value?)))
        .collect();
    format!("{{ {} }}", members.join(", "))
}

/// A TOML literal string, which keeps JSON readable, or a basic string if the text needs escapes.
fn json_text(schema: &SchemaText) -> String {
    let text = schema.as_str();
    if text.contains(|character: char| character == '\'' || character.is_control()) {
        quoted(text)
    } else {
        format!("'{text}'")
    }
}

#[cfg(test)]
mod tests {
    use crate::file;

    fn parse(line: &str) -> Result<file::CatalogFile, String> {
        file::parse(&format!("[[routes]]\nmethod = \"GET\"\ntemplate = \"a/{{b}}\"\n{line}\n"))
    }

    fn problem(line: &str) -> String {
        parse(line).unwrap_err()
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        for (line, expected) in [
            (
                "parameters = [{ name = \"c\" }]",
                "GET a/{b}: parameters names c, which the template",
            ),
            (
                "parameters = [{ name = \"b\", schema = \"[]\" }]",
                "parameters: b: the schema is not a",
            ),
            (
                "query = [{ name = \"c\", schema = \"{\" }]",
                "GET a/{b}: query: c: the schema is not a",
            ),
            ("headers = [{ name = \"\" }]", "headers: a name has 1 to"),
            ("body = { content_type = \"\" }", "body: a content type is a text such as"),
            ("body = { content_type = \"a/b\", schema = \"x\" }", "body: the schema is not a"),
            ("response = { status = 404 }", "response: status is that of a success"),
            ("response = { status = 200, schema = \"1\" }", "response: the schema is not a"),
            ("paging = { style = \"page\" }", "paging: the style page needs `parameter`"),
            ("paging = { style = \"next_url\" }", "paging: the style next_url needs `next`"),
            ("paging = { style = \"link_header\", next = \"/n\" }", "link_header has no `next`"),
            ("paging = { style = \"link_header\", rows = \"x\" }", "paging: "),
        ] {
            assert!(problem(line).contains(expected), "{line}: {}", problem(line));
        }
    }

    #[test]
    fn a_misspelt_key_is_refused_wherever_it_stands() {
        for line in [
            "operation = \"x\"",
            "parameters = [{ name = \"b\", type = \"string\" }]",
            "headers = [{ name = \"b\", type = \"string\" }]",
            "body = { content_type = \"a/b\", media = \"\" }",
            "response = { status = 200, media = \"\" }",
            "paging = { style = \"link_header\", guess = true }",
            "paging = { style = \"unheard_of\" }",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn a_route_without_documentation_has_none() {
        assert!(parse("").unwrap().routes[0].docs.is_none());
        assert!(parse("deprecated = true").unwrap().routes[0].docs.is_some());
    }
}
