//! Catalogue files from OpenAPI documents: routes with their parameters, bodies, responses, scopes
//! and paging.
//!
//! Whatever a catalogue cannot express, such as two parameters in one segment of a path, is left
//! out and named in a comment at the top of the file.

mod bodies;
mod document;
mod paging;
mod paging_fields;
mod parameters;
mod schema;
pub(crate) mod scopes;

use std::collections::HashSet;
use std::sync::Arc;

use domain::method::Method;
use serde_json::{Map, Value};

use crate::CatalogError;
use crate::file_writer;
use crate::route::{Route, RouteKind};
use crate::route_docs::{RouteDocs, RouteParameter};
use crate::template::PathTemplate;

use document::OpenapiDocument;
use parameters::OperationParameters;

pub use document::{DOCUMENT_BYTES_MAX, read};

/// Maximum length of a description, in characters.
const DESCRIPTION_CHARS_MAX: usize = 200;

/// Methods of OpenAPI that native calls cannot have.
const OTHER_METHODS: [&str; 4] = ["head", "options", "trace", "query"];

/// The routes of a document.
#[derive(Debug)]
pub(crate) struct ImportedRoutes {
    /// The comment at the top of the file.
    pub(crate) header: String,
    pub(crate) routes: Vec<Route>,
}

/// Turns an OpenAPI 3.0 or 3.1 document into the text of a catalogue file.
///
/// `prefix` is the part of each path that the gateway adds, such as `/api/v1`. Paths that do not
/// start with it are left out.
pub fn import(document: &Value, prefix: &str) -> Result<String, CatalogError> {
    let ImportedRoutes { mut header, routes } = routes(document, prefix)?;
    header.push_str(&file_writer::write(&[], routes.iter(), &[], None));
    Ok(header)
}

/// The routes of a document, and the comment for the top of the file.
pub(crate) fn routes(document: &Value, prefix: &str) -> Result<ImportedRoutes, CatalogError> {
    check_version(document)?;
    let Some(Value::Object(paths)) = document.get("paths") else {
        let problem = "it has no object `paths`: a document of webhooks alone lists no routes";
        return Err(CatalogError::Document(problem.to_owned()));
    };
    let mut import = OpenapiImport {
        document: OpenapiDocument::new(document),
        routes: Vec::new(),
        left_out: Vec::new(),
        shapes: HashSet::new(),
    };
    for (path, item) in paths {
        import.path(path, item, prefix.trim_end_matches('/'));
    }
    if import.routes.is_empty() {
        let example = paths.keys().next().map_or_else(String::new, |path| one_line(path));
        let problem = format!(
            "no operation lies below the prefix {prefix:?} that a catalogue can list; its first path is \
             {example:?}"
        );
        return Err(CatalogError::Document(problem));
    }
    Ok(ImportedRoutes { header: header(document, &import.left_out), routes: import.routes })
}

fn check_version(document: &Value) -> Result<(), CatalogError> {
    let problem = match document.get("openapi").and_then(Value::as_str) {
        Some(version) if version.starts_with("3.0") || version.starts_with("3.1") => return Ok(()),
        Some(version) => format!("its version is {version:?}; 3.0 and 3.1 are read"),
        None if document.get("swagger").is_some() => {
            "it is Swagger 2; convert it to OpenAPI 3.0, with swagger2openapi for example"
                .to_owned()
        }
        None => {
            "it has no text `openapi` with its version; OpenAPI 3.0 and 3.1 are read".to_owned()
        }
    };
    Err(CatalogError::Document(problem))
}

fn header(document: &Value, left_out: &[String]) -> String {
    let info = |name: &str| {
        let text = document.pointer(&format!("/info/{name}")).and_then(Value::as_str);
        one_line(text.unwrap_or_default())
    };
    let title = format!("{} {}", info("title"), info("version"));
    let mut text = format!("# Made from the OpenAPI document: {}\n", title.trim());
    for operation in left_out {
        text.push_str("# Left out: ");
        text.push_str(operation);
        text.push('\n');
    }
    text.push('\n');
    text
}

/// An operation and its path.
#[derive(Clone, Copy)]
struct DocumentOperation<'a> {
    method: Method,
    path: &'a str,
    item: &'a Map<String, Value>,
    operation: &'a Value,
}

struct OpenapiImport<'a> {
    document: OpenapiDocument<'a>,
    routes: Vec<Route>,
    left_out: Vec<String>,
    shapes: HashSet<(Method, String)>,
}

impl<'a> OpenapiImport<'a> {
    fn path(&mut self, path: &'a str, item: &'a Value, prefix: &str) {
        if path.starts_with("x-") {
            return;
        }
        let Value::Object(item) = self.document.resolved(item) else {
            return self.leave_out(path, "it is not an object");
        };
        let below = path.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('/'));
        let template =
            below.ok_or_else(|| "it does not lie below the prefix".to_owned()).and_then(|below| {
                match below {
                    "" => Err("a call to the root has no path".to_owned()),
                    below => PathTemplate::parse(below),
                }
            });
        for method in Method::ALL {
            let Some(operation) = item.get(&method.as_str().to_ascii_lowercase()) else { continue };
            match &template {
                Ok(template) => {
                    let operation = DocumentOperation { method: *method, path, item, operation };
                    self.operation(operation, template.clone());
                }
                Err(problem) => self.leave_out(&format!("{method} {path}"), problem),
            }
        }
        for method in OTHER_METHODS.iter().filter(|method| item.contains_key(**method)) {
            let name = format!("{} {path}", method.to_ascii_uppercase());
            self.leave_out(&name, "native calls are GET, POST, PUT, PATCH and DELETE");
        }
    }

    fn operation(&mut self, found: DocumentOperation<'a>, mut template: PathTemplate) {
        let DocumentOperation { method, path, item, operation } = found;
        let parameters = parameters::read(self.document, item, operation);
        template.span_last(&parameters.spanning);
        let readable = template.readable();
        if !self.shapes.insert((method, template.shape())) {
            let name = format!("{method} {path}");
            return self.leave_out(&name, "another operation matches the same paths");
        }
        let text = |key| operation.get(key).and_then(Value::as_str).map(one_line);
        let scopes = scopes::read(self.document, operation);
        let notes = if scopes.has_alternatives { scopes::OTHER_SCOPES } else { "" };
        let described = text("summary").filter(|summary| !summary.is_empty());
        let docs = self.docs(found, &parameters, &template);
        self.routes.push(Route {
            name: format!("{method} {readable}"),
            method,
            group: group(operation, &readable),
            template: readable,
            scopes: scopes.scopes,
            notes: notes.to_owned(),
            description: described.or_else(|| text("description")).unwrap_or_default(),
            verified: false,
            sensitive: false,
            kind: RouteKind::Native,
            default_query: Vec::new(),
            query_parameters: parameters.query,
            free_text: Vec::new(),
            body_rules: Vec::new(),
            docs,
            parsed: template,
        });
    }

    fn docs(
        &self,
        found: DocumentOperation<'a>,
        parameters: &OperationParameters,
        template: &PathTemplate,
    ) -> Option<Arc<RouteDocs>> {
        let DocumentOperation { method, operation, .. } = found;
        let success = bodies::success(self.document, operation);
        let in_template = template.names().filter_map(|name| {
            let known = parameters.path.iter().find(|parameter| parameter.name == name)?;
            Some(RouteParameter { required: true, ..known.clone() })
        });
        let operation_id = operation.get("operationId").and_then(Value::as_str);
        let docs = RouteDocs {
            operation_id: operation_id.map(one_line).unwrap_or_default(),
            deprecated: operation.get("deprecated").and_then(Value::as_bool) == Some(true),
            path_parameters: in_template.filter(says_something).collect(),
            headers: parameters.headers.clone(),
            body: bodies::request_body(self.document, operation),
            response: success.map(|success| success.docs(self.document)),
            paging: (method == Method::Get)
                .then(|| paging::guess(self.document, &parameters.query, success))
                .flatten(),
        };
        (!docs.is_empty()).then(|| Arc::new(docs))
    }

    fn leave_out(&mut self, what: &str, why: &str) {
        let line: Vec<&str> = words(what).chain([":"]).chain(words(why)).collect();
        self.left_out.push(line.join(" ").replacen(" :", ":", 1));
    }
}

/// Whether a parameter is documented beyond its name.
fn says_something(parameter: &RouteParameter) -> bool {
    parameter.schema.is_some() || !parameter.description.is_empty()
}

/// The first tag, or the first word of the path.
fn group(operation: &Value, template: &str) -> String {
    let tag = operation.pointer("/tags/0").and_then(Value::as_str).map(one_line);
    let first = || template.split('/').next().unwrap_or_default().to_owned();
    tag.filter(|tag| !tag.is_empty()).unwrap_or_else(first)
}

/// The words of a text, without control characters, so that they can be in a comment.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|character: char| character.is_whitespace() || character.is_control())
        .filter(|word| !word.is_empty())
}

/// A text on one line of bounded length.
fn one_line(text: &str) -> String {
    let mut line = String::new();
    let mut characters = 0;
    for word in words(text) {
        let letters = word.chars().count();
        if characters > 0 && characters + 1 + letters > DESCRIPTION_CHARS_MAX {
            line.push('…');
            break;
        }
        if characters > 0 {
            line.push(' ');
            characters += 1;
        }
        line.extend(word.chars().take(DESCRIPTION_CHARS_MAX));
        characters += letters;
    }
    line
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Catalog;
    use domain::platform::Platform;

    fn document() -> Value {
        json!({
            "openapi": "3.1.0",
            "info": {"title": "A platform\n[[routes]]", "version": "2"},
            "security": [{"key": []}, {"login": ["read:self"]}],
            "components": {
                "securitySchemes": {
                    "login": {"type": "oauth2"},
                    "alias": {"$ref": "#/components/securitySchemes/login"},
                    "key": {"type": "apiKey"}
                },
                "parameters": {"Page": {"name": "page", "in": "query", "description": "the\npage"}}
            },
            "paths": {
                "/v2/users/{id}": {
                    "parameters": [{"name": "id", "in": "path"}, {"name": "full", "in": "query"}],
                    "get": {
                        "tags": ["users", "people"],
                        "summary": "One \"user\".",
                        "parameters": [
                            {"$ref": "#/components/parameters/Page"},
                            {"name": "full", "in": "query", "required": true},
                        ]
                    },
                    "patch": {
                        "description": "Changes\n a user.",
                        "deprecated": true,
                        "security": [{"login": ["write:self", "read:self"], "key": []}, {"alias": ["admin"]}]
                    },
                    "trace": {}
                },
                "/v2/users/{name}": {"get": {}},
                "/v2/open/": {"post": {"security": []}},
                "/v2/files/{name}.json": {"get": {}},
                "/v2/compare/{base}...{head}": {"get": {}, "post": {}},
                "/v2/contents/{path}": {
                    "get": {"parameters": [{"name": "path", "in": "path", "x-multi-segment": true}]}
                },
                "/v1/old": {"get": {}},
                "/v22/near": {"get": {}}
            }
        })
    }

    #[test]
    fn a_document_becomes_a_file_that_the_catalogue_takes() {
        let text = import(&document(), "/v2/").unwrap();

        let catalog = Catalog::built_in().unwrap().with_extra(Platform::DELTA, &text).unwrap();
        let delta = catalog.platform(Platform::DELTA);
        let get = delta.find(Method::Get, "users/7").unwrap().route;
        assert_eq!((get.group.as_str(), get.description.as_str()), ("users", "One \"user\"."));
        assert_eq!(get.scopes, ["read:self"]);
        let names: Vec<_> = get.query_parameters.iter().map(|found| found.name.as_str()).collect();
        assert_eq!(names, ["page", "full"]);
        assert!(get.query_parameters[1].required);
        let patch = delta.find(Method::Patch, "users/7").unwrap().route;
        assert_eq!(patch.scopes, ["read:self", "write:self"]);
        assert_eq!(
            (patch.group.as_str(), patch.description.as_str()),
            ("users", "Changes a user.")
        );
        assert_eq!(patch.notes, "The platform takes other sets of scopes as well.");
        assert!(patch.docs.as_ref().unwrap().deprecated);
        assert!(delta.find(Method::Get, "files/a.json").is_some());
        assert_eq!(delta.find(Method::Get, "contents/a/b").unwrap().parameters, [("path", "a/b")]);
        assert!(delta.find(Method::Post, "open/").unwrap().route.scopes.is_empty());
    }

    #[test]
    fn what_is_left_out_is_named() {
        let text = import(&document(), "/v2").unwrap();

        for left_out in [
            "# Left out: GET /v1/old: it does not lie below the prefix",
            "# Left out: GET /v22/near: it does not lie below the prefix",
            "# Left out: GET /v2/users/{name}: another operation matches the same paths",
            "# Left out: TRACE /v2/users/{id}: native calls are GET, POST, PUT, PATCH and DELETE",
            "# Left out: GET /v2/compare/{base}...{head}: \"{base}...{head}\" has two parameters",
            "# Left out: POST /v2/compare/{base}...{head}: ",
            "# Made from the OpenAPI document: A platform [[routes]] 2",
        ] {
            assert!(text.contains(left_out), "{left_out}\n{text}");
        }
        assert_eq!(text.matches("\n[[routes]]\n").count(), 5);
    }

    #[test]
    fn what_is_not_such_a_document_is_refused_with_the_reason() {
        let refused = |document: Value| import(&document, "").unwrap_err().to_string();

        assert!(refused(json!("openapi: 3.0.0")).contains("no text `openapi`"));
        assert!(refused(json!({"swagger": "2.0"})).contains("it is Swagger 2; convert it"));
        assert!(refused(json!({"openapi": "4.0.0"})).contains("\"4.0.0\""));
        assert!(refused(json!({"openapi": "3.0.3"})).contains("`paths`"));
        assert!(refused(json!({"openapi": "3.0.3", "paths": {"/": {}}})).contains("no operation"));
    }

    #[test]
    fn everything_that_is_known_of_an_operation_is_in_the_file() {
        let document = read(
            "
openapi: 3.0.3
info: { title: Notes, version: '1' }
paths:
  /boards/{board}/notes:
    parameters:
      - { name: board, in: path, required: true, description: Which board., schema: { type: string } }
    get:
      operationId: listNotes
      parameters:
        - { name: page, in: query, schema: { type: integer, default: 1 } }
        - { name: per_page, in: query, schema: { type: integer, maximum: 100 } }
        - { name: X-Version, in: header, required: true }
      responses:
        200:
          headers: { Link: {} }
          content: { application/json: { schema: { type: array, items: { $ref: '#/components/schemas/Note' } } } }
    post:
      requestBody: { required: true, content: { application/json: { schema: { $ref: '#/components/schemas/Note' } } } }
      responses: { 201: {} }
components:
  schemas:
    Note: { type: object, properties: { text: { type: string } } }
",
        )
        .unwrap();

        let text = import(&document, "").unwrap();

        let note = r#"{"type":"object","properties":{"text":{"type":"string"}}}"#;
        for line in [
            "operation_id = \"listNotes\"".to_owned(),
            "    { name = \"board\", description = \"Which board.\", schema = '{\"type\":\"string\"}' },"
                .to_owned(),
            "    { name = \"page\", required = false, description = \"\", schema = \
             '{\"type\":\"integer\",\"default\":1}' },"
                .to_owned(),
            "    { name = \"X-Version\", required = true, description = \"\" },".to_owned(),
            format!(
                "response = {{ status = 200, content_type = \"application/json\", schema = \
                 '{{\"type\":\"array\",\"items\":{note}}}' }}"
            ),
            "paging = { style = \"page\", parameter = \"page\", size_parameter = \"per_page\", rows = \"\", \
             guessed = true }"
                .to_owned(),
            format!(
                "body = {{ content_type = \"application/json\", required = true, schema = '{note}' }}"
            ),
            "response = { status = 201 }".to_owned(),
        ] {
            assert!(text.lines().any(|known| known == line), "{line}\n{text}");
        }
        let again = crate::file::parse(&text).unwrap();
        assert_eq!(again.routes, routes(&document, "").unwrap().routes);
    }

    #[test]
    fn a_line_is_bounded_and_ends_between_words() {
        assert_eq!(one_line(" a\n\tb\u{7f}c  "), "a b c");
        let line = one_line(&"word ".repeat(100));
        assert!(
            line.ends_with("word…") && line.chars().count() <= DESCRIPTION_CHARS_MAX + 1,
            "{line}"
        );
        assert_eq!(one_line(&"x".repeat(500)).chars().count(), DESCRIPTION_CHARS_MAX);
    }
}
