//! Catalogue files: their shape in TOML, and what is checked when they are read.
//!
//! A file has `[[routes]]`, `[[auth_fields]]` and `[[datasets]]`. Keys that are not known are
//! refused, so that a misspelt one does not silently do nothing. Customers never send these files:
//! operators do.

use domain::method::Method;
use serde::Deserialize;

use crate::auth_fields::AuthField;
use crate::body_rules::BodyRule;
use crate::dataset::{Dataset, MediaArchive};
use crate::dataset_file::{DatasetText, MediaArchiveText};
use crate::entry_problem::{self, EntryProblem};
use crate::route::{Route, RouteKind};
use crate::route_docs_file::{
    self, BodyText, PagingText, ParameterText, ResponseText, RouteDocsText,
};
use crate::shorthand::Shorthand;
use crate::template::{PathTemplate, TemplateSegment};

/// The longest text of an entry, in bytes.
const TEXT_BYTES_MAX: usize = 4096;

/// A file as it was read, each entry checked by itself.
#[derive(Debug, Clone)]
pub(crate) struct CatalogFile {
    pub(crate) auth_fields: Vec<AuthField>,
    pub(crate) routes: Vec<Route>,
    pub(crate) datasets: Vec<Dataset>,
    /// Absent where the file says nothing of it.
    pub(crate) media_archive: Option<MediaArchive>,
}

/// Reads a file. The error says which line and entry are wrong, and how.
pub(crate) fn parse(text: &str) -> Result<CatalogFile, String> {
    let file: FileText = toml::from_str(text).map_err(|error| error.to_string())?;
    file.check().map_err(|problem| problem.in_file(text))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileText {
    #[serde(default)]
    auth_fields: Vec<AuthField>,
    #[serde(default)]
    routes: Vec<RouteText>,
    #[serde(default)]
    datasets: Vec<DatasetText>,
    media_archive: Option<MediaArchiveText>,
}

impl FileText {
    fn check(self) -> Result<CatalogFile, EntryProblem> {
        let file = CatalogFile {
            auth_fields: entry_problem::each("auth_fields", self.auth_fields, AuthField::checked)?,
            routes: entry_problem::each("routes", self.routes, RouteText::check)?,
            datasets: entry_problem::each("datasets", self.datasets, DatasetText::check)?,
            media_archive: self.media_archive.map(MediaArchiveText::value),
        };
        file.check()?;
        Ok(file)
    }
}

/// One `[[routes]]` entry.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RouteText {
    /// `GET`, `POST`, `PUT`, `PATCH` or `DELETE`.
    method: Method,
    /// The path after `/native/`, such as `chats/{chat_id}/messages`; `{name*}` spans several
    /// segments.
    template: String,
    /// `upload` or `internal`; neither: a native route.
    kind: Option<KindText>,
    #[serde(default)]
    group: String,
    /// One line for a reader of the reference.
    #[serde(default)]
    description: String,
    /// What else a caller should know.
    #[serde(default)]
    notes: String,
    /// OAuth scopes, all of which are needed.
    #[serde(default)]
    scopes: Vec<String>,
    /// Whether it was probed and answered 200.
    #[serde(default)]
    verified: bool,
    /// Whether it carries bank, tax or login details.
    #[serde(default)]
    sensitive: bool,
    /// Where a shorthand leads.
    shorthand: Option<ShorthandText>,
    /// What the platform's own reference calls it.
    #[serde(default)]
    operation_id: String,
    /// Whether the platform advises against it.
    #[serde(default)]
    deprecated: bool,
    /// The parameters of the path that are described.
    #[serde(default)]
    parameters: Vec<ParameterText>,
    /// The documented query parameters.
    #[serde(default)]
    query: Vec<ParameterText>,
    /// The documented request headers.
    #[serde(default)]
    headers: Vec<ParameterText>,
    body: Option<BodyText>,
    response: Option<ResponseText>,
    paging: Option<PagingText>,
    /// Query parameters added when the caller does not give them.
    #[serde(default)]
    default_query: Vec<PairText>,
    /// Parameters of the template that are names which creators choose: slashes may stand in them,
    /// as `%2F`.
    #[serde(default)]
    free_text: Vec<String>,
    /// Checks of the body before the call costs anything.
    #[serde(default)]
    body_rules: Vec<BodyRule>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum KindText {
    Upload,
    Internal,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ShorthandText {
    target: String,
    #[serde(default)]
    fills: Vec<PairText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PairText {
    name: String,
    value: String,
}

impl RouteText {
    fn check(self) -> Result<Route, String> {
        let entry = format!("{} {}", self.method, self.template);
        let in_entry = |problem: String| format!("{entry}: {problem}");
        let parsed = PathTemplate::parse(&self.template).map_err(in_entry)?;
        let kind = self.kind(&parsed).map_err(in_entry)?;
        for text in [&self.group, &self.description, &self.notes] {
            if text.len() > TEXT_BYTES_MAX {
                return Err(in_entry(format!("a text is longer than {TEXT_BYTES_MAX} bytes")));
            }
        }
        if self.scopes.iter().any(|scope| scope.is_empty() || scope.contains(char::is_whitespace)) {
            return Err(in_entry("a scope is one word".to_owned()));
        }
        if let Some(name) = self.free_text.iter().find(|name| !parsed.has_parameter(name)) {
            return Err(in_entry(format!(
                "free_text names {name}, which is no parameter of one segment"
            )));
        }
        let docs = RouteDocsText {
            operation_id: self.operation_id,
            deprecated: self.deprecated,
            parameters: self.parameters,
            headers: self.headers,
            body: self.body,
            response: self.response,
            paging: self.paging,
        };
        let docs = docs.check(&parsed).map_err(in_entry)?;
        let query = route_docs_file::parameters(self.query, "query").map_err(in_entry)?;
        let template = parsed.readable();
        Ok(Route {
            name: format!("{} {template}", self.method),
            method: self.method,
            template,
            group: self.group,
            scopes: self.scopes,
            notes: self.notes,
            description: self.description,
            verified: self.verified,
            sensitive: self.sensitive,
            kind,
            default_query: pairs(self.default_query),
            query_parameters: query,
            free_text: self.free_text,
            body_rules: self.body_rules,
            docs,
            parsed,
        })
    }

    fn kind(&self, template: &PathTemplate) -> Result<RouteKind, String> {
        let Some(shorthand) = &self.shorthand else {
            return Ok(match self.kind {
                None => RouteKind::Native,
                Some(KindText::Upload) => RouteKind::Upload,
                Some(KindText::Internal) => RouteKind::Internal,
            });
        };
        if self.kind.is_some() || self.method != Method::Get {
            return Err("a shorthand is for GET and has no other kind".to_owned());
        }
        if template.names().next().is_some() {
            return Err("the path of a shorthand has no parameters".to_owned());
        }
        let target = PathTemplate::parse(&shorthand.target)?;
        if target.segments.iter().any(|segment| matches!(segment, TemplateSegment::Rest(_)))
            || target.names().any(|name| name != "id")
        {
            return Err("the target of a shorthand has no parameter but {id}".to_owned());
        }
        let fills = &shorthand.fills;
        if let Some(pair) = fills.iter().find(|pair| !is_fillable(pair)) {
            return Err(format!(
                "the shorthand cannot fill in {:?} = {:?}: a value has no braces but {{id}}, and a name none",
                pair.name, pair.value
            ));
        }
        let fills = fills.iter().map(|pair| (pair.name.clone(), pair.value.clone())).collect();
        Ok(RouteKind::Shorthand(Shorthand { target: shorthand.target.clone(), fills }))
    }
}

fn is_fillable(pair: &PairText) -> bool {
    let has_braces = |text: &str| text.contains(['{', '}']);
    !pair.name.is_empty() && !has_braces(&pair.name) && !has_braces(&pair.value.replace("{id}", ""))
}

pub(crate) fn pairs(texts: Vec<PairText>) -> Vec<(String, String)> {
    texts.into_iter().map(|pair| (pair.name, pair.value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file_writer::write;

    fn problem(text: &str) -> String {
        parse(text).unwrap_err()
    }

    #[test]
    fn a_misspelt_key_is_refused_wherever_it_stands() {
        let entry = "[[routes]]\nmethod = \"GET\"\ntemplate = \"me\"\n";
        for line in [
            "scope = [\"a\"]",
            "shorthand = { target = \"user\", fill = [] }",
            "query = [{ name = \"limit\", needed = true }]",
            "default_query = [{ name = \"limit\", value = \"5\", unit = \"\" }]",
            "body_rules = [{ kind = \"absent_anywhere\", field = \"a\", depth = 1 }]",
            "body_rules = [{ kind = \"unheard_of\", field = \"a\" }]",
        ] {
            assert!(parse(&format!("{entry}{line}\n")).is_err(), "{line}");
        }
        assert!(parse("[[route]]\n").is_err());
    }

    #[test]
    fn the_problem_names_the_line_and_the_entry() {
        let text = "[[routes]]\nmethod = \"POST\"\ntemplate = \"a//b\"\n";

        assert_eq!(problem(text), "line 1: POST a//b: a segment is empty");
    }

    #[test]
    fn a_repeated_entry_is_refused_with_the_line_of_the_second() {
        let route =
            |template: &str| format!("[[routes]]\nmethod = \"GET\"\ntemplate = \"{template}\"\n\n");
        let field = "[[auth_fields]]\nname = \"a\"\nkind = \"string\"\nrequired = true\n\
                     secret = true\nbytes_max = 9\ndescription = \"d\"\n";

        let routes = problem(&[route("a/{x}"), route("b"), route("a/{y}")].concat());
        let fields = problem(&[field, field].concat());

        assert_eq!(routes, "line 9: two entries are for GET a/{y}");
        assert_eq!(fields, "line 8: two auth fields are called a");
    }

    #[test]
    fn an_auth_field_has_a_name_that_can_be_written_and_a_length_that_can_be_sent() {
        let field = |name: &str, bytes_max: usize| {
            format!(
                "[[auth_fields]]\nname = {name:?}\nkind = \"string\"\nrequired = true\nsecret = true\n\
                 bytes_max = {bytes_max}\ndescription = \"d\"\n"
            )
        };

        for (name, bytes_max) in [("a", 1), ("Session-ID_2", 65_536), (&*"n".repeat(64), 9)] {
            assert!(parse(&field(name, bytes_max)).is_ok(), "{name} {bytes_max}");
        }
        for name in ["", "a.b", "a b", "a{b}", "é", &*"n".repeat(65)] {
            let told = problem(&field(name, 9));
            assert!(told.starts_with("line 1: ") && told.contains(&format!("{name:?}")), "{told}");
        }
        for bytes_max in [0, 65_537] {
            assert_eq!(problem(&field("a", bytes_max)), "line 1: a: bytes_max is 1 to 65536");
        }
    }

    #[test]
    fn a_shorthand_fills_in_the_id_and_no_other_placeholder() {
        let entry = |name: &str, value: &str| {
            format!(
                "[[routes]]\nmethod = \"GET\"\ntemplate = \"me\"\n\
                 shorthand = {{ target = \"user\", fills = [{{ name = {name:?}, value = {value:?} }}] }}\n"
            )
        };

        for (name, value) in [("user", "{id}"), ("user", "u-{id}-{id}"), ("sort", ""), ("a[]", "1")]
        {
            assert!(parse(&entry(name, value)).is_ok(), "{name} {value}");
        }
        for (name, value) in
            [("user", "{ id }"), ("user", "{account}"), ("user", "{id"), ("{id}", "1"), ("", "1")]
        {
            let told = problem(&entry(name, value));
            assert!(told.contains("a value has no braces but {id}"), "{told}");
        }
    }

    #[test]
    fn free_text_is_a_parameter_of_one_segment() {
        let entry = |template: &str| {
            format!(
                "[[routes]]\nmethod = \"GET\"\ntemplate = {template:?}\nfree_text = [\"name\"]\n"
            )
        };

        assert!(parse(&entry("folders/{name}/media")).is_ok());
        assert!(parse(&entry("folders/{other}")).is_err());
        assert!(parse(&entry("folders/name")).is_err());
        assert!(parse(&entry("folders/{name*}")).is_err());
    }

    #[test]
    fn a_shorthand_is_for_get_and_has_one_known_parameter() {
        let entry = |method: &str, template: &str, target: &str| {
            format!(
                "[[routes]]\nmethod = {method:?}\ntemplate = {template:?}\nshorthand = {{ target = {target:?} }}\n"
            )
        };

        assert!(parse(&entry("GET", "me", "user/{id}")).is_ok());
        assert!(parse(&entry("POST", "me", "user/{id}")).is_err());
        assert!(parse(&entry("GET", "me/{id}", "user/{id}")).is_err());
        assert!(parse(&entry("GET", "me", "user/{other}")).is_err());
        assert!(parse(&entry("GET", "me", "user/{id*}")).is_err());
    }

    /// A file with all that can stand in one.
    const WHOLE: &str = r#"
        media_archive = "disabled"

        [[auth_fields]]
        name = "token"
        kind = "string_map"
        required = false
        secret = true
        bytes_max = 9
        description = "a \"quoted\" \\ text\u007F\u0000"

        [[routes]]
        method = "GET"
        template = "a/{b*}"
        group = "g\n[[routes]]"
        description = "d\tü"
        notes = "n"
        scopes = ["read:a", "write:b"]
        verified = true
        sensitive = true
        operation_id = "things/list's"
        deprecated = true
        parameters = [{ name = "b", description = "the b", schema = '{"type":"string"}' }]
        query = [
            { name = "limit", required = true, description = "x", schema = '{"type":"integer","default":1}' },
            { name = "y" },
        ]
        headers = [{ name = "X-A", required = true, schema = """{"description":"it's\u007F"}""" }]
        body = { content_type = "a/b", other_content_types = ["c/d"], required = true, schema = '{"type":"object"}' }
        response = { status = 201, content_type = "a/b", schema = '{ "type": "array" }' }
        paging = { style = "cursor", parameter = "c", size_parameter = "limit", rows = "", next = "/n.m", guessed = true }
        default_query = [{ name = "limit", value = "50" }]
        body_rules = [
            { kind = "absent_anywhere", field = "a" },
            { kind = "at_least", field = "b", minimum = -3, unit = "mills" },
            { kind = "zero_or_at_least", field = "c", minimum = 3, unit = "cents" },
            { kind = "flag_requires", list = "l", field = "f", flag = 4, requires = "m.t" },
        ]

        [[routes]]
        method = "DELETE"
        template = "folders/{name}/{other}.json"
        free_text = ["name", "other"]
        body = { content_type = "a/b" }
        response = { status = 204 }
        paging = { style = "link_header" }

        [[routes]]
        method = "GET"
        template = "reels"
        shorthand = { target = "reels/{id}", fills = [{ name = "user_id", value = "{id}" }] }

        [[routes]]
        method = "POST"
        template = "media/upload"
        kind = "upload"

        [[routes]]
        method = "GET"
        template = "groups"
        kind = "internal"

        [[datasets]]
        name = "chats"
        description = "d"
        route = "groups"
        path = [{ name = "a", value = "{id}" }]
        query = [{ name = "b", value = "c" }]
        rows = ""
        id = "/a/b"
        time = { field = "/t", unit = "unix_seconds", optional = true }
        paging = { style = "cursor", parameter = "p", size_parameter = "s", size = 7, next = "/n", total = "/t" }
        days = { from = "x", to = "y" }
        columns = [
            { name = "a.b", type = "integer" },
            { name = "t", type = "time", unit = "unix_seconds" },
            { name = "x\\.y \"z\"", type = "number", unit = "dollars" },
        ]

        [[datasets]]
        name = "chat_messages"
        route = "groups"
        rows = "/r"
        id = "/i"
        time = { field = "/t", unit = "unix_millis" }
        paging = { style = "page", parameter = "p", size_parameter = "s", size = 7, more = "/m", empty_body = true }
        chat = { form = "word", lookup = { dataset = "chats", fan = "/f", chat = "/g" } }
    "#;

    #[test]
    fn what_is_written_reads_back_the_same() {
        let read = parse(WHOLE).unwrap();

        let written =
            write(&read.auth_fields, read.routes.iter(), &read.datasets, read.media_archive);
        let again = parse(&written).unwrap();

        assert_eq!(again.routes, read.routes);
        assert_eq!(again.auth_fields, read.auth_fields);
        assert_eq!(again.datasets, read.datasets);
        assert_eq!(again.media_archive, read.media_archive);
    }
}
