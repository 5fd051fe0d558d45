//! Operations under their paths, for one platform or for several whose paths have the same shape.

use std::collections::BTreeMap;

use catalog::{Route, RouteOperation};
use serde_json::{Map, Value, json};

/// The operations of one or several platforms.
#[derive(Default)]
pub(crate) struct PathItems {
    /// By shape, so that several routes of one shape meet.
    items: BTreeMap<String, PathItem>,
}

/// The operations of a path.
struct PathItem {
    path: String,
    names: Vec<String>,
    /// By method, in lower case.
    operations: Map<String, Value>,
}

impl PathItems {
    /// Adds the operation of a route.
    pub(crate) fn add(&mut self, route: &Route, named: &RouteOperation, operation: Value) {
        let item = self.items.entry(route.shape()).or_insert_with(|| PathItem {
            path: named.path.clone(),
            names: named.parameters.clone(),
            operations: Map::new(),
        });
        // A route may span several segments where another has one: they are one path here.
        let method = route.method.as_str().to_ascii_lowercase();
        item.operations.entry(method).or_insert(operation);
    }

    /// Adds the operations of another platform. `merge` joins two of one path and method.
    pub(crate) fn add_all(&mut self, others: Self, merge: impl Fn(&mut Value, Value)) {
        for (shape, other) in others.items {
            let Some(item) = self.items.get_mut(&shape) else {
                self.items.insert(shape, other);
                continue;
            };
            for (method, mut operation) in other.operations {
                rename(&mut operation, &other.names, &item.names);
                match item.operations.get_mut(&method) {
                    Some(known) => merge(known, operation),
                    None => {
                        item.operations.insert(method, operation);
                    }
                }
            }
        }
    }

    /// All operations, to be changed.
    pub(crate) fn operations(&mut self) -> impl Iterator<Item = &mut Value> {
        self.items.values_mut().flat_map(|item| item.operations.values_mut())
    }

    /// The `paths` of a document.
    pub(crate) fn into_json(self) -> Value {
        let account = json!({ "$ref": "#/components/parameters/account" });
        super::object(self.items.into_values().map(|mut item| {
            item.operations.insert("parameters".to_owned(), json!([account]));
            (item.path, Value::Object(item.operations))
        }))
    }
}

/// Gives path parameters other names.
fn rename(operation: &mut Value, from: &[String], to: &[String]) {
    if from == to {
        return;
    }
    let parameters = operation.get_mut("parameters").and_then(Value::as_array_mut);
    for parameter in parameters.into_iter().flatten().filter(|each| each["in"] == "path") {
        let position = from.iter().position(|name| parameter["name"] == name.as_str());
        if let Some(name) = position.and_then(|index| to.get(index)) {
            parameter["name"] = json!(name);
        }
    }
}
