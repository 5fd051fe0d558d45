//! A catalogue file brought up to date with a newer OpenAPI document.
//!
//! What the document describes comes from the document: descriptions, scopes, parameters, bodies,
//! responses. What the operator decides is kept: the template (and so the route's name), group,
//! notes, marks, rules, shorthands, auth fields, datasets, and paging that is not marked as a
//! guess.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use domain::method::Method;
use serde_json::Value;

use crate::CatalogError;
use crate::dataset::Dataset;
use crate::file::{self, CatalogFile};
use crate::file_writer;
use crate::openapi_import::{self, scopes::OTHER_SCOPES};
use crate::route::{Route, RouteKind};
use crate::route_changes::details;
use crate::route_docs::{RouteDocs, RouteParameter};
use crate::template::PathTemplate;

/// Notes that an import writes; all others are the operator's.
const IMPORTED_NOTES: [&str; 2] = [OTHER_SCOPES, "Deprecated by the platform."];

/// What to do with routes that the document does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemovedRoutes {
    /// Remove them, unless a dataset of the file reads them.
    Drop,
    /// Keep them.
    Keep,
}

/// An updated file and its differences. Routes have the names that receipts use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogUpdate {
    /// Routes that only the document has.
    pub added: Vec<String>,
    /// Routes that only the file has, and that were removed.
    pub removed: Vec<String>,
    /// Routes that only the file has, and that were kept.
    pub kept: Vec<String>,
    /// Routes that both have and that differ.
    pub changed: Vec<RouteChange>,
    /// The new text of the file.
    pub text: String,
}

/// A route that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteChange {
    /// The route's name.
    pub name: String,
    /// The differences, one fact each.
    pub details: Vec<String>,
}

impl CatalogUpdate {
    /// Whether the file differs from the document.
    pub fn has_differences(&self) -> bool {
        !self.added.is_empty() || !self.removed.is_empty() || !self.changed.is_empty()
    }
}

/// Updates a catalogue file from a document; `prefix` is removed from the document's paths.
pub fn update(
    existing: &str,
    document: &Value,
    prefix: &str,
    removed: RemovedRoutes,
) -> Result<CatalogUpdate, CatalogError> {
    let old = file::parse(existing).map_err(CatalogError::Existing)?;
    let imported = openapi_import::routes(document, prefix)?;
    let CatalogFile { auth_fields, routes, datasets, media_archive } = old;
    let (routes, mut update) = RouteMerge::new(imported.routes).merge(routes, &datasets, removed);
    let body = file_writer::write(&auth_fields, routes.iter(), &datasets, media_archive);
    update.text = imported.header + &body;
    file::parse(&update.text).map_err(CatalogError::Existing)?;
    Ok(update)
}

/// Identifies a route: the method, and which paths it matches.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct UpdateKey {
    method: Method,
    shape: String,
}

impl UpdateKey {
    fn of(route: &Route) -> Self {
        Self { method: route.method, shape: route.parsed.shape() }
    }

    /// The key of the same route with a last parameter that spans several segments if this one's
    /// does not, and the reverse.
    fn other_span(&self) -> Option<Self> {
        let Self { method, shape } = self;
        let (rest, parameter) = ("{*}", "{}");
        let other = match shape.strip_suffix(rest) {
            Some(before) => format!("{before}{parameter}"),
            None => format!("{}{rest}", shape.strip_suffix(parameter)?),
        };
        Some(Self { method: *method, shape: other })
    }
}

/// Merges the routes of a document into those of a file.
struct RouteMerge {
    imported: HashMap<UpdateKey, Route>,
    order: Vec<UpdateKey>,
    update: CatalogUpdate,
}

impl RouteMerge {
    fn new(routes: Vec<Route>) -> Self {
        let keyed: Vec<(UpdateKey, Route)> =
            routes.into_iter().map(|route| (UpdateKey::of(&route), route)).collect();
        let order = keyed.iter().map(|(key, _)| key.clone()).collect();
        let update = CatalogUpdate {
            added: Vec::new(),
            removed: Vec::new(),
            kept: Vec::new(),
            changed: Vec::new(),
            text: String::new(),
        };
        Self { imported: keyed.into_iter().collect(), order, update }
    }

    /// The routes of the new file: the old ones in their order, each followed by the routes that
    /// come after it in the document and are new.
    fn merge(
        mut self,
        old: Vec<Route>,
        datasets: &[Dataset],
        removed: RemovedRoutes,
    ) -> (Vec<Route>, CatalogUpdate) {
        let mut following = self.added(&old);
        let mut routes = following.remove(&None).unwrap_or_default();
        for route in old {
            let key = self.key_of(&route);
            let is_read = route.method == Method::Get
                && datasets.iter().any(|dataset| dataset.route == route.template);
            let stays = removed == RemovedRoutes::Keep || is_read;
            routes.extend(self.merged(&key, route, stays));
            routes.extend(following.remove(&Some(key)).unwrap_or_default());
        }
        self.update.added.extend(following.values().flatten().map(|route| route.name.clone()));
        routes.extend(following.into_values().flatten());
        (routes, self.update)
    }

    /// The document's key for a route of the file, even if only one of the two spans several
    /// segments.
    fn key_of(&self, route: &Route) -> UpdateKey {
        let key = UpdateKey::of(route);
        let other = key.other_span().filter(|other| self.imported.contains_key(other));
        if self.imported.contains_key(&key) { key } else { other.unwrap_or(key) }
    }

    /// The new routes, grouped by the known route that precedes them in the document.
    fn added(&mut self, old: &[Route]) -> HashMap<Option<UpdateKey>, Vec<Route>> {
        let is_listed = |route: &&Route| match route.kind {
            RouteKind::Native | RouteKind::Shorthand(_) => true,
            RouteKind::Upload | RouteKind::Internal => false,
        };
        let listed = old.iter().filter(is_listed);
        let known: HashSet<UpdateKey> = listed.map(|route| self.key_of(route)).collect();
        let mut following: HashMap<Option<UpdateKey>, Vec<Route>> = HashMap::new();
        let mut before = None;
        for key in std::mem::take(&mut self.order) {
            if known.contains(&key) {
                before = Some(key);
            } else if let Some(route) = self.imported.remove(&key) {
                self.update.added.push(route.name.clone());
                following.entry(before.clone()).or_default().push(route);
            }
        }
        following
    }

    /// The updated route, or nothing if it is removed.
    fn merged(&mut self, key: &UpdateKey, old: Route, stays: bool) -> Option<Route> {
        if old.kind != RouteKind::Native {
            return Some(old);
        }
        let Some(imported) = self.imported.get(key) else {
            let names = if stays { &mut self.update.kept } else { &mut self.update.removed };
            names.push(old.name.clone());
            return stays.then_some(old);
        };
        let new = merged(&old, imported);
        let details = details(&old, &new);
        if !details.is_empty() {
            self.update.changed.push(RouteChange { name: old.name, details });
        }
        Some(new)
    }
}

/// Combines what the document describes with what the operator decided.
fn merged(old: &Route, imported: &Route) -> Route {
    let either = |first: &String, second: &String| {
        if first.is_empty() { second.clone() } else { first.clone() }
    };
    Route {
        parsed: template(old, imported),
        group: either(&old.group, &imported.group),
        description: either(&imported.description, &old.description),
        notes: notes(old, imported),
        scopes: imported.scopes.clone(),
        query_parameters: imported.query_parameters.clone(),
        docs: docs(old, imported),
        ..old.clone()
    }
}

/// The template is kept because it is the route's name; only its last parameter may change to span
/// several segments.
fn template(old: &Route, imported: &Route) -> PathTemplate {
    let mut template = old.parsed.clone();
    if imported.parsed.spans() && old.free_text.is_empty() {
        let names: Vec<String> = old.parsed.names().map(str::to_owned).collect();
        template.span_last(&names);
    }
    template
}

/// The imported notes, followed by the operator's own.
fn notes(old: &Route, imported: &Route) -> String {
    let own = IMPORTED_NOTES.iter().fold(old.notes.clone(), |own, note| own.replace(note, ""));
    let notes = [imported.notes.as_str(), own.trim()];
    notes.into_iter().filter(|note| !note.is_empty()).collect::<Vec<_>>().join(" ")
}

fn docs(old: &Route, imported: &Route) -> Option<Arc<RouteDocs>> {
    let mut docs = imported.docs.as_deref().cloned().unwrap_or_default();
    let names: HashMap<&str, &str> = imported.parsed.names().zip(old.parsed.names()).collect();
    for RouteParameter { name, .. } in &mut docs.path_parameters {
        if let Some(own) = names.get(name.as_str()) {
            (*own).clone_into(name);
        }
    }
    let confirmed = old.docs.as_ref().and_then(|known| known.paging.as_ref());
    if let Some(confirmed) = confirmed.filter(|paging| !paging.guessed) {
        docs.paging = Some(confirmed.clone());
    }
    (!docs.is_empty()).then(|| Arc::new(docs))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn document(paths: &Value) -> Value {
        json!({"openapi": "3.1.0", "info": {"title": "T", "version": "1"}, "paths": paths})
    }

    fn get(members: &Value) -> Value {
        json!({"get": members})
    }

    fn updated(existing: &str, paths: &Value) -> CatalogUpdate {
        update(existing, &document(paths), "", RemovedRoutes::Drop).unwrap()
    }

    #[test]
    fn a_file_of_the_same_document_has_no_difference() {
        let paths = json!({
            "/b/{id}": get(&json!({"summary": "B.", "deprecated": true, "parameters": [
                {"name": "id", "in": "path", "description": "which"},
                {"name": "q", "in": "query", "schema": {"type": "string", "pattern": "'"}},
            ]})),
            "/a": get(&json!({})),
        });
        let text = openapi_import::import(&document(&paths), "").unwrap();

        let update = updated(&text, &paths);

        assert!(!update.has_differences(), "{update:?}");
        assert_eq!(update.text, text);
    }

    #[test]
    fn routes_are_added_in_the_order_of_the_document_and_removed() {
        let paths = |names: &[&str]| -> Value {
            names.iter().map(|name| (format!("/{name}"), get(&json!({})))).collect()
        };
        let text = openapi_import::import(&document(&paths(&["b", "d", "f"])), "").unwrap();

        let update = updated(&text, &paths(&["a", "b", "c", "d", "e"]));

        assert_eq!(update.added, ["GET a", "GET c", "GET e"]);
        assert_eq!(update.removed, ["GET f"]);
        let routes = file::parse(&update.text).unwrap().routes;
        let names: Vec<&str> = routes.iter().map(|route| route.template.as_str()).collect();
        assert_eq!(names, ["a", "b", "c", "d", "e"]);
    }

    /// Everything that an operator may have written into the file.
    const BY_HAND: &str = r#"
        media_archive = "disabled"
        [[auth_fields]]
        name = "token"
        kind = "string"
        required = true
        secret = true
        bytes_max = 9
        description = ""
        [[routes]]
        method = "GET"
        template = "files/{file*}"
        group = "own"
        description = "Old."
        notes = "Deprecated by the platform. Slow on Mondays."
        scopes = ["old"]
        verified = true
        sensitive = true
        free_text = []
        default_query = [{ name = "limit", value = "5" }]
        query = [{ name = "gone" }]
        body_rules = [{ kind = "absent_anywhere", field = "a" }]
        paging = { style = "link_header" }
        [[routes]]
        method = "GET"
        template = "users/{name}"
        free_text = ["name"]
        paging = { style = "link_header", guessed = true }
        [[routes]]
        method = "GET"
        template = "me"
        shorthand = { target = "users/{id}" }
        [[routes]]
        method = "GET"
        template = "gone/list"
        [[routes]]
        method = "GET"
        template = "gone"
        [[datasets]]
        name = "chats"
        route = "gone/list"
        rows = ""
        id = "/a"
        time = { field = "/t", unit = "unix_seconds" }
        paging = { style = "offset", parameter = "p", size_parameter = "s", size = 7 }
    "#;

    #[test]
    fn what_an_operator_wrote_survives_and_what_the_document_says_comes_from_it() {
        let paths = json!({
            "/files/{path}": get(&json!({"summary": "New.", "parameters": [
                {"name": "path", "in": "path", "description": "where"}, {"name": "q", "in": "query"},
            ]})),
            "/users/{user_id}": get(&json!({"tags": ["people"]})),
            "/me": get(&json!({})),
        });

        let update = updated(BY_HAND, &paths);

        let file = file::parse(&update.text).unwrap();
        let files = &file.routes[0];
        assert_eq!((files.name.as_str(), files.group.as_str()), ("GET files/{file}", "own"));
        assert_eq!(files.parsed.as_in_file(), "files/{file*}");
        assert_eq!(
            (files.description.as_str(), files.notes.as_str()),
            ("New.", "Slow on Mondays.")
        );
        assert!(files.verified && files.sensitive && files.scopes.is_empty());
        assert_eq!(files.default_query.len() + files.body_rules.len(), 2);
        assert_eq!(files.query_parameters[0].name, "q");
        let docs = files.docs.as_ref().unwrap();
        assert_eq!(docs.path_parameters[0].name, "file");
        assert!(docs.paging.is_some());
        let users = &file.routes[1];
        assert_eq!((users.template.as_str(), users.group.as_str()), ("users/{name}", "people"));
        assert!(users.free_text == ["name"] && users.docs.is_none());
        assert!(file.routes[2].shorthand().is_some());
        assert_eq!((file.auth_fields.len(), file.datasets.len()), (1, 1));
        assert!(file.media_archive.is_some());
        assert_eq!(update.removed, ["GET gone"]);
        assert_eq!(update.kept, ["GET gone/list"]);
        assert_eq!(updated(&update.text, &paths).changed, []);
    }

    #[test]
    fn removed_routes_are_kept_where_that_is_asked_for() {
        let paths = document(&json!({"/me": get(&json!({}))}));

        let kept = update(BY_HAND, &paths, "", RemovedRoutes::Keep).unwrap();

        assert_eq!((kept.removed.len(), kept.kept.len()), (0, 4));
        assert_eq!(file::parse(&kept.text).unwrap().routes.len(), 5);
        assert!(!kept.has_differences());
    }

    #[test]
    fn a_parameter_comes_to_span_segments_where_the_document_says_so() {
        let path = json!({"name": "path", "in": "path", "x-multi-segment": true});
        let paths = json!({"/files/{path}": get(&json!({"parameters": [path]}))});

        let update = updated("[[routes]]\nmethod = \"GET\"\ntemplate = \"files/{file}\"\n", &paths);

        assert_eq!(update.changed.len() + update.added.len() + update.removed.len(), 1);
        assert!(
            update.changed[0]
                .details
                .contains(&"template: files/{file} → files/{file*}".to_owned())
        );
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named() {
        let paths = document(&json!({"/me": get(&json!({}))}));

        let problem = update("[[route]]", &paths, "", RemovedRoutes::Drop).unwrap_err().to_string();

        assert!(problem.starts_with("the catalogue file: "), "{problem}");
    }
}
