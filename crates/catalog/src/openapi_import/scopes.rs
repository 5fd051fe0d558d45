//! The OAuth scopes that an operation needs.

use serde_json::Value;

use super::document::OpenapiDocument;

/// The note on an operation that accepts other sets of scopes.
pub(crate) const OTHER_SCOPES: &str = "The platform takes other sets of scopes as well.";

/// The scopes of an operation.
pub(super) struct OperationScopes {
    pub(super) scopes: Vec<String>,
    /// Whether the platform accepts other sets as well.
    pub(super) has_alternatives: bool,
}

/// The scopes of the operation, or of the document if the operation has none. Alternatives cannot
/// be expressed: the first one with OAuth is used, because accounts are connected through OAuth.
pub(super) fn read(document: OpenapiDocument<'_>, operation: &Value) -> OperationScopes {
    let security = operation.get("security").or_else(|| document.at("/security"));
    let alternatives = security.and_then(Value::as_array).into_iter().flatten();
    let mut with_oauth = alternatives.filter_map(|alternative| oauth(document, alternative));
    let scopes = with_oauth.next().unwrap_or_default();
    let has_alternatives = with_oauth.any(|other| other != scopes);
    OperationScopes { scopes, has_alternatives }
}

/// The scopes of one alternative, or nothing if it does not use OAuth.
fn oauth(document: OpenapiDocument<'_>, alternative: &Value) -> Option<Vec<String>> {
    let mut found = None;
    for (name, scopes) in alternative.as_object()? {
        let name = name.replace('~', "~0").replace('/', "~1");
        let scheme = document.at(&format!("/components/securitySchemes/{name}"));
        let scheme = scheme.map(|entry| document.resolved(entry));
        let kind = scheme.and_then(|scheme| scheme.get("type")).and_then(Value::as_str);
        if !matches!(kind, Some("oauth2" | "openIdConnect")) {
            continue;
        }
        let words = scopes.as_array().into_iter().flatten().filter_map(Value::as_str);
        let usable = words.filter(|word| !word.is_empty() && !word.contains(char::is_whitespace));
        found.get_or_insert_with(Vec::new).extend(usable.map(str::to_owned));
    }
    let mut scopes: Vec<String> = found?;
    scopes.sort_unstable();
    scopes.dedup();
    Some(scopes)
}
