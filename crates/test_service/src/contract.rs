//! The contract, for tests that go through its operations.

use domain::credits::{Credits, MeteringCosts};
use domain::per_platform::PerPlatform;
use node::openapi::{DocumentScope, DocumentSources, OpenapiVersion};
use serde_json::Value;

/// The methods of operations, as the document spells them.
pub const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

/// The document of the service's own routes for the default configuration, as printed by
/// `creator-gateway openapi`.
pub fn document() -> Value {
    written(DocumentScope::Own, OpenapiVersion::Current)
}

/// A document for the default configuration.
pub fn written(scope: DocumentScope, version: OpenapiVersion) -> Value {
    let catalog = catalog::Catalog::built_in().unwrap();
    // Not read from a configuration: reading one declares its platforms.
    let costs = MeteringCosts {
        read: Credits::from_whole(1),
        write: Credits::from_whole(2),
        export: Credits::from_whole(10),
    };
    let reserved = PerPlatform::default();
    node::openapi::written(&DocumentSources { catalog: &catalog, costs, reserved }, scope, version)
}

/// Every operation of the document: (method, path, operation).
pub fn operations(document: &Value) -> Vec<(String, String, Value)> {
    let mut operations = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in METHODS.iter().filter(|method| item.get(**method).is_some()) {
            operations.push(((*method).to_owned(), path.clone(), item[*method].clone()));
        }
    }
    operations
}

/// The target of a reference, or the value itself.
pub fn followed<'d>(document: &'d Value, value: &'d Value) -> &'d Value {
    let reference = value["$ref"].as_str();
    reference.map_or(value, |path| document.pointer(path.trim_start_matches('#')).unwrap())
}
