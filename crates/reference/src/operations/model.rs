//! The operations, read from the OpenAPI document once.

use pages::plain::sentence;
use serde_json::Value;

use super::example;
use super::schema::{FieldRow, SchemaReader};
use crate::markdown;

/// Every operation, in groups.
#[derive(Debug, Default)]
pub(crate) struct OperationBook {
    /// What the API is, as HTML.
    pub(crate) about: String,
    /// In the order in which a new customer needs them.
    pub(crate) groups: Vec<OperationGroup>,
}

/// Operations that belong together.
#[derive(Debug)]
pub(crate) struct OperationGroup {
    /// Its name in addresses.
    pub(crate) name: String,
    /// What they are for.
    pub(crate) about: String,
    pub(crate) operations: Vec<ApiOperation>,
}

/// One operation.
#[derive(Debug)]
pub(crate) struct ApiOperation {
    pub(crate) id: String,
    /// In capitals.
    pub(crate) method: String,
    pub(crate) path: String,
    /// What it does, without a full stop.
    pub(crate) summary: String,
    /// The rest of what it does, as HTML; may be empty.
    pub(crate) about: String,
    /// Which credentials it accepts, in words.
    pub(crate) access: &'static str,
    pub(crate) is_deprecated: bool,
    pub(crate) parameters: Vec<ParameterRow>,
    pub(crate) body: Option<OperationBody>,
    pub(crate) responses: Vec<OperationResponse>,
    pub(crate) failures: Vec<OperationFailure>,
    /// The call as a command; empty if programs cannot make it.
    pub(crate) curl: String,
}

/// A parameter, and where it stands.
#[derive(Debug)]
pub(crate) struct ParameterRow {
    /// `path`, `query` or `header`.
    pub(crate) place: String,
    pub(crate) field: FieldRow,
}

/// What is sent.
#[derive(Debug)]
pub(crate) struct OperationBody {
    pub(crate) media_type: String,
    pub(crate) is_required: bool,
    pub(crate) rows: Vec<FieldRow>,
    /// As JSON text; empty without one.
    pub(crate) example: String,
}

/// What comes back when it works.
#[derive(Debug)]
pub(crate) struct OperationResponse {
    pub(crate) status: String,
    /// What it means, as HTML.
    pub(crate) about: String,
    pub(crate) media_types: String,
    pub(crate) rows: Vec<FieldRow>,
    pub(crate) example: String,
}

/// A way in which it fails.
#[derive(Debug)]
pub(crate) struct OperationFailure {
    pub(crate) status: String,
    pub(crate) code: String,
    pub(crate) title: String,
}

impl OperationBook {
    /// Reads a document. The base is the address of the service, for examples.
    pub(crate) fn read(document: &Value, base: &str) -> Self {
        let reader = OperationReader { document, base, schemas: SchemaReader::new(document) };
        let tags = document["tags"].as_array().into_iter().flatten();
        let mut groups: Vec<OperationGroup> = tags.map(group).collect();
        let paths = document["paths"].as_object().into_iter().flatten();
        for (path, item) in paths {
            for method in ["get", "post", "put", "patch", "delete"] {
                let Some(operation) = item.get(method) else { continue };
                let read = reader.operation(path, item, method, operation);
                let tag = operation.pointer("/tags/0").map(text).unwrap_or_default();
                if let Some(group) = groups.iter_mut().find(|group| group.name == tag) {
                    group.operations.push(read);
                }
            }
        }
        groups.retain(|group| !group.operations.is_empty());
        let about = markdown::render_text(
            document.pointer("/info/description").map(text).unwrap_or_default(),
        );
        Self { about, groups }
    }

    /// The group with this name.
    pub(crate) fn group(&self, name: &str) -> Option<&OperationGroup> {
        self.groups.iter().find(|group| group.name == name)
    }
}

impl OperationGroup {
    /// The operation with this id.
    pub(crate) fn find(&self, id: &str) -> Option<&ApiOperation> {
        self.operations.iter().find(|operation| operation.id == id)
    }
}

impl ApiOperation {
    /// What it does, as HTML.
    pub(crate) fn summary_html(&self) -> String {
        markdown::render_inline(&self.summary)
    }

    /// The class of its method in the stylesheet.
    pub(crate) fn verb_class(&self) -> &'static str {
        verb_class(&self.method)
    }
}

/// Writes and deletions have colors of their own.
pub(crate) fn verb_class(method: &str) -> &'static str {
    match method {
        "GET" => "verb",
        "DELETE" => "verb d",
        _ => "verb w",
    }
}

fn group(tag: &Value) -> OperationGroup {
    let about = text(&tag["description"]).to_owned();
    OperationGroup { name: text(&tag["name"]).to_owned(), about, operations: Vec::new() }
}

/// Reads operations of one document.
struct OperationReader<'a> {
    document: &'a Value,
    base: &'a str,
    schemas: SchemaReader<'a>,
}

impl OperationReader<'_> {
    fn operation(&self, path: &str, item: &Value, method: &str, from: &Value) -> ApiOperation {
        let (summary, rest) = parts(text(&from["summary"]));
        let about = format!("{rest}\n\n{}", text(&from["description"]));
        let access = access(from.get("security").unwrap_or(&self.document["security"]));
        let body = from.get("requestBody").and_then(|body| self.body(body));
        let responses = from["responses"].as_object().into_iter().flatten();
        let (good, bad): (Vec<_>, Vec<_>) =
            responses.partition(|(status, _)| !status.starts_with(['4', '5']));
        ApiOperation {
            id: text(&from["operationId"]).to_owned(),
            method: method.to_ascii_uppercase(),
            path: path.to_owned(),
            curl: example::curl(
                &format!("{}{}", self.base, example::variables(path)),
                method,
                body.as_ref(),
                access,
            ),
            summary,
            about: markdown::render_text(about.trim()),
            access,
            is_deprecated: from["deprecated"] == true,
            parameters: self.parameters(item, from),
            body,
            responses: good
                .iter()
                .map(|(status, response)| self.response(status, response))
                .collect(),
            failures: bad.iter().flat_map(|(status, one)| self.failures(status, one)).collect(),
        }
    }

    /// The parameters of a path and of one of its operations, whose own replace those of the path.
    fn parameters(&self, item: &Value, from: &Value) -> Vec<ParameterRow> {
        let of_path = self.listed_parameters(item).into_iter();
        let own = self.listed_parameters(from);
        let is_replaced = |row: &ParameterRow| {
            own.iter().any(|one| one.place == row.place && one.field.name == row.field.name)
        };
        let mut parameters: Vec<ParameterRow> = of_path.filter(|row| !is_replaced(row)).collect();
        parameters.extend(own);
        parameters
    }

    fn listed_parameters(&self, from: &Value) -> Vec<ParameterRow> {
        let listed = from.get("parameters").and_then(Value::as_array).into_iter().flatten();
        let row = |parameter: &Value| {
            let parameter = self.schemas.resolved(parameter);
            let required = parameter["required"] == true;
            let mut field =
                self.schemas.row(text(&parameter["name"]), &parameter["schema"], required);
            if let Some(about) = parameter["description"].as_str() {
                field.about = markdown::render_text(&sentence(about));
            }
            ParameterRow { place: text(&parameter["in"]).to_owned(), field }
        };
        listed.map(row).collect()
    }

    fn body(&self, from: &Value) -> Option<OperationBody> {
        let from = self.schemas.resolved(from);
        let (media_type, content) = from["content"].as_object()?.iter().next()?;
        Some(OperationBody {
            media_type: media_type.clone(),
            is_required: from["required"] == true,
            rows: self.schemas.rows(&content["schema"]),
            example: example::pretty(&content["example"]),
        })
    }

    fn response(&self, status: &str, from: &Value) -> OperationResponse {
        let from = self.schemas.resolved(from);
        let contents = from["content"].as_object();
        let types: Vec<&str> =
            contents.into_iter().flat_map(|all| all.keys()).map(String::as_str).collect();
        let first = contents.and_then(|all| all.values().next());
        OperationResponse {
            status: status.to_owned(),
            about: markdown::render_text(&sentence(text(&from["description"]))),
            media_types: types.join(", "),
            rows: first.map(|one| self.schemas.rows(&one["schema"])).unwrap_or_default(),
            example: first.map(|one| example::pretty(&one["example"])).unwrap_or_default(),
        }
    }

    /// The codes of a status, from the list in its description.
    fn failures(&self, status: &str, from: &Value) -> Vec<OperationFailure> {
        let description = text(&self.schemas.resolved(from)["description"]);
        let mut failures: Vec<OperationFailure> = Vec::new();
        for line in description.lines() {
            let Some((code, title)) =
                line.strip_prefix("* `").and_then(|rest| rest.split_once("`: "))
            else {
                continue;
            };
            if failures.iter().all(|known| known.code != code) {
                let (code, title) = (code.to_owned(), title.to_owned());
                failures.push(OperationFailure { status: status.to_owned(), code, title });
            }
        }
        failures
    }
}

/// The first sentence without its full stop, and the rest.
fn parts(summary: &str) -> (String, String) {
    let summary = summary.replace('\n', " ");
    match summary.split_once(". ") {
        Some((first, rest)) => (first.to_owned(), rest.to_owned()),
        None => (summary.trim_end_matches('.').to_owned(), String::new()),
    }
}

/// Which credentials the operation accepts.
fn access(security: &Value) -> &'static str {
    let accepts =
        |name: &str| security.as_array().into_iter().flatten().any(|one| one.get(name).is_some());
    match (accepts("key"), accepts("session")) {
        (true, true) => "A key or a session",
        (true, false) => "A key",
        (false, true) => "A session",
        (false, false) => "No credentials",
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
