//! The operations of a document.

use serde_json::Value;

/// The methods that operations may have.
pub(super) const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

/// All operations with path and method.
pub(super) fn operations(
    document: &mut Value,
) -> impl Iterator<Item = (String, &'static str, &mut Value)> {
    let paths = document["paths"].as_object_mut().into_iter().flatten();
    paths.flat_map(|(path, item)| {
        let members = item.as_object_mut().into_iter().flatten();
        members.filter_map(move |(member, operation)| {
            let method = METHODS.iter().find(|method| **method == member)?;
            Some((path.clone(), *method, operation))
        })
    })
}
