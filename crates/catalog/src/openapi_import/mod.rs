//! Catalogue files from OpenAPI documents: methods, paths, groups, OAuth scopes, descriptions.
//!
//! What a catalogue cannot express (a path with a parameter inside a segment, say) is left out and named in a
//! comment at the top of the file, never silently.

use std::collections::HashSet;

use domain::method::Method;
use serde_json::{Map, Value};

use crate::CatalogError;
use crate::file;
use crate::route::{QueryParameter, Route, RouteKind};
use crate::template::PathTemplate;

/// Descriptions are one line of at most this many characters.
const DESCRIPTION_CHARS_MAX: usize = 200;

/// Turns an OpenAPI 3.0 or 3.1 document in JSON into the text of a catalogue file.
///
/// `prefix` is the part of each path that the gateway adds by itself, such as `/api/v1`; paths that do not lie
/// below it are left out. YAML is not read: convert the document to JSON first.
pub fn import(document: &Value, prefix: &str) -> Result<String, CatalogError> {
    check_version(document)?;
    let Some(Value::Object(paths)) = document.get("paths") else {
        return Err(CatalogError::Document("it has no object `paths`".to_owned()));
    };
    let mut import = OpenapiImport {
        document,
        routes: Vec::new(),
        left_out: Vec::new(),
        shapes: HashSet::new(),
    };
    for (path, item) in paths {
        import.path(path, item, prefix.trim_end_matches('/'));
    }
    if import.routes.is_empty() {
        let problem = format!("no operation lies below {prefix:?} that a catalogue can list");
        return Err(CatalogError::Document(problem));
    }
    let mut text = header(document, &import);
    text.push_str(&file::write(&[], import.routes.iter(), &[], None));
    Ok(text)
}

fn check_version(document: &Value) -> Result<(), CatalogError> {
    let problem = match document.get("openapi").and_then(Value::as_str) {
        Some(version) if version.starts_with("3.0") || version.starts_with("3.1") => return Ok(()),
        Some(version) => format!("its version is {version:?}; 3.0 and 3.1 are read"),
        None if document.is_string() => {
            "it is a text and not a JSON object; YAML is not supported, convert it to JSON"
                .to_owned()
        }
        None => "it has no `openapi` version; OpenAPI 3.0 and 3.1 in JSON are read, YAML and \
                 Swagger 2 are not supported"
            .to_owned(),
    };
    Err(CatalogError::Document(problem))
}

fn header(document: &Value, import: &OpenapiImport<'_>) -> String {
    let info = |name: &str| {
        let text = document.pointer(&format!("/info/{name}")).and_then(Value::as_str);
        one_line(text.unwrap_or_default())
    };
    let title = format!("{} {}", info("title"), info("version"));
    let mut text = format!("# Made from the OpenAPI document: {}\n", title.trim());
    for left_out in &import.left_out {
        text.push_str("# Left out: ");
        text.push_str(left_out);
        text.push('\n');
    }
    text.push('\n');
    text
}

struct OpenapiImport<'a> {
    document: &'a Value,
    routes: Vec<Route>,
    left_out: Vec<String>,
    shapes: HashSet<(Method, String)>,
}

impl<'a> OpenapiImport<'a> {
    fn path(&mut self, path: &str, item: &'a Value, prefix: &str) {
        let below = path.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('/'));
        let Some(below) = below else {
            return self.leave_out(path, "it does not lie below the prefix");
        };
        let template = match PathTemplate::parse(below) {
            Ok(template) => template,
            Err(problem) => return self.leave_out(path, &problem),
        };
        let Value::Object(item) = self.resolved(item) else {
            return self.leave_out(path, "it is not an object");
        };
        for method in Method::ALL {
            if let Some(operation) = item.get(&method.as_str().to_ascii_lowercase()) {
                self.operation(*method, &template, (item, operation));
            }
        }
    }

    fn operation(
        &mut self,
        method: Method,
        template: &PathTemplate,
        place: (&'a Map<String, Value>, &'a Value),
    ) {
        let (item, operation) = place;
        let readable = template.readable();
        let name = format!("{method} {readable}");
        if !self.shapes.insert((method, template.shape())) {
            return self.leave_out(&name, "another operation matches the same paths");
        }
        let text = |key| operation.get(key).and_then(Value::as_str).map(one_line);
        let (scopes, scope_note) = self.scopes(operation);
        let deprecated = operation.get("deprecated").and_then(Value::as_bool) == Some(true);
        let notes = [deprecated.then_some("Deprecated by the platform."), scope_note];
        let notes: Vec<&str> = notes.into_iter().flatten().collect();
        let described = text("summary").filter(|summary| !summary.is_empty());
        self.routes.push(Route {
            name,
            method,
            group: group(operation, &readable),
            template: readable,
            scopes,
            notes: notes.join(" "),
            description: described.or_else(|| text("description")).unwrap_or_default(),
            verified: false,
            sensitive: false,
            kind: RouteKind::Native,
            default_query: Vec::new(),
            query_parameters: self.query_parameters(item, operation),
            free_text: Vec::new(),
            body_rules: Vec::new(),
            parsed: template.clone(),
        });
    }

    /// The scopes of the operation, or of the document where the operation says nothing. Alternatives cannot
    /// be expressed: the first with OAuth is taken, for accounts are connected by OAuth.
    fn scopes(&self, operation: &Value) -> (Vec<String>, Option<&'static str>) {
        let security = operation.get("security").or_else(|| self.document.get("security"));
        let Some(Value::Array(alternatives)) = security else { return (Vec::new(), None) };
        let mut with_oauth = alternatives.iter().filter_map(|alternative| self.oauth(alternative));
        let first = with_oauth.next().unwrap_or_default();
        let differs = with_oauth.any(|other| other != first);
        (first, differs.then_some("The platform takes other sets of scopes as well."))
    }

    /// The scopes of one alternative, or nothing if OAuth has no part in it.
    fn oauth(&self, alternative: &Value) -> Option<Vec<String>> {
        let mut found = None;
        for (name, scopes) in alternative.as_object()? {
            let pointer = format!("/components/securitySchemes/{}", pointer_escaped(name));
            let scheme = self.document.pointer(&pointer).map(|entry| self.resolved(entry));
            let kind = scheme.and_then(|scheme| scheme.get("type")).and_then(Value::as_str);
            if !matches!(kind, Some("oauth2" | "openIdConnect")) {
                continue;
            }
            let words = scopes.as_array().into_iter().flatten().filter_map(Value::as_str);
            let usable =
                words.filter(|word| !word.is_empty() && !word.contains(char::is_whitespace));
            found.get_or_insert_with(Vec::new).extend(usable.map(str::to_owned));
        }
        let mut scopes: Vec<String> = found?;
        scopes.sort_unstable();
        scopes.dedup();
        Some(scopes)
    }

    /// The query parameters of the path and of the operation, whose own go before.
    fn query_parameters(
        &self,
        item: &'a Map<String, Value>,
        operation: &'a Value,
    ) -> Vec<QueryParameter> {
        let lists = [operation.get("parameters"), item.get("parameters")];
        let entries = lists.into_iter().flatten().filter_map(Value::as_array).flatten();
        let mut parameters: Vec<QueryParameter> = Vec::new();
        for entry in entries {
            let entry = self.resolved(entry);
            let text = |key| entry.get(key).and_then(Value::as_str).unwrap_or_default();
            let name = text("name");
            let known = parameters.iter().any(|parameter| parameter.name == name);
            if text("in") == "query" && !name.is_empty() && !known {
                parameters.push(QueryParameter {
                    name: name.to_owned(),
                    required: entry.get("required").and_then(Value::as_bool) == Some(true),
                    description: one_line(text("description")),
                });
            }
        }
        parameters
    }

    /// Follows one local reference; others stay as they are and are passed over for want of members.
    fn resolved(&self, value: &'a Value) -> &'a Value {
        let reference = value.get("$ref").and_then(Value::as_str);
        let target = reference.and_then(|reference| reference.strip_prefix('#'));
        target.and_then(|pointer| self.document.pointer(pointer)).unwrap_or(value)
    }

    fn leave_out(&mut self, what: &str, why: &str) {
        self.left_out.push(one_line(&format!("{what}: {why}")));
    }
}

/// The first tag, or the first word of the path.
fn group(operation: &Value, template: &str) -> String {
    let tag = operation.pointer("/tags/0").and_then(Value::as_str).map(one_line);
    let first = || template.split('/').next().unwrap_or_default().to_owned();
    tag.filter(|tag| !tag.is_empty()).unwrap_or_else(first)
}

/// Text of a document in one line without control characters: it also stands in comments.
fn one_line(text: &str) -> String {
    let words: Vec<&str> = text
        .split(|character: char| character.is_whitespace() || character.is_control())
        .filter(|word| !word.is_empty())
        .collect();
    words.join(" ").chars().take(DESCRIPTION_CHARS_MAX).collect()
}

fn pointer_escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
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
                "/v1/old": {"get": {}},
                "/v22/near": {"get": {}}
            }
        })
    }

    #[test]
    fn a_document_becomes_a_file_that_the_catalogue_takes() {
        let text = import(&document(), "/v2/").unwrap();

        let catalog = Catalog::built_in().unwrap().with_extra(Platform::Delta, &text).unwrap();
        let delta = catalog.platform(Platform::Delta);
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
        assert_eq!(
            patch.notes,
            "Deprecated by the platform. The platform takes other sets of scopes as well."
        );
        assert!(delta.find(Method::Post, "open/").unwrap().route.scopes.is_empty());
    }

    #[test]
    fn what_is_left_out_is_named() {
        let text = import(&document(), "/v2").unwrap();

        for left_out in [
            "# Left out: /v1/old: it does not lie below the prefix",
            "# Left out: /v22/near: it does not lie below the prefix",
            "# Left out: GET users/{name}: another operation matches the same paths",
            "# Left out: /v2/files/{name}.json: ",
            "# Made from the OpenAPI document: A platform [[routes]] 2",
        ] {
            assert!(text.contains(left_out), "{left_out}\n{text}");
        }
        assert_eq!(text.matches("\n[[routes]]\n").count(), 3);
    }

    #[test]
    fn what_is_not_such_a_document_is_refused_with_the_reason() {
        let refused = |document: Value| import(&document, "").unwrap_err().to_string();

        assert!(refused(json!("openapi: 3.0.0\npaths: {}")).contains("YAML is not supported"));
        assert!(refused(json!({"swagger": "2.0"})).contains("Swagger 2"));
        assert!(refused(json!({"openapi": "4.0.0"})).contains("\"4.0.0\""));
        assert!(refused(json!({"openapi": "3.0.3"})).contains("`paths`"));
        assert!(refused(json!({"openapi": "3.0.3", "paths": {"/": {}}})).contains("no operation"));
    }
}
