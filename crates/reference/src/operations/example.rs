//! Examples of operations: a body as JSON, a call as a command.

use serde_json::Value;

use super::model::OperationBody;

/// A value as indented JSON; empty if there is none.
pub(super) fn pretty(value: &Value) -> String {
    if value.is_null() { String::new() } else { format!("{value:#}") }
}

/// The call as a command, with variables of the shell for the key and the parts of the path. Empty
/// for what only a person with a session can do.
pub(super) fn curl(
    address: &str,
    method: &str,
    body: Option<&OperationBody>,
    access: &str,
) -> String {
    if access == "A session" {
        return String::new();
    }
    let mut lines = vec![match method {
        "get" => format!("curl \"{address}\""),
        other => format!("curl -X {} \"{address}\"", other.to_ascii_uppercase()),
    }];
    if access.contains("key") {
        lines.push("-H \"X-API-Key: $API_KEY\"".to_owned());
    }
    if let Some(body) = body {
        if body.media_type.starts_with("multipart/") {
            lines.push("-F \"file=@photo.jpg\"".to_owned());
        } else {
            lines.push(format!("-H \"Content-Type: {}\"", body.media_type));
            let quoted = body.example.replace('\'', "'\\''");
            let data = if quoted.is_empty() { "{}" } else { quoted.as_str() };
            lines.push(format!("-d '{data}'"));
        }
    }
    lines.join(" \\\n  ")
}

/// The path with its parameters as variables: `{job_id}` becomes `$JOB_ID`.
pub(super) fn variables(path: &str) -> String {
    let mut text = String::new();
    for part in path.split_inclusive('/') {
        let (name, end) = part.strip_suffix('/').map_or((part, ""), |name| (name, "/"));
        match name.strip_prefix('{').and_then(|name| name.strip_suffix('}')) {
            Some(name) => text.extend(["$", &name.to_ascii_uppercase()]),
            None => text.push_str(name),
        }
        text.push_str(end);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_reads_its_key_and_its_parameters_from_the_shell() {
        let body = OperationBody {
            media_type: "application/json".to_owned(),
            is_required: true,
            rows: Vec::new(),
            example: "{\"name\": \"Ada's\"}".to_owned(),
        };

        let get = curl(
            &format!("https://api.example{}", variables("/v1/a/{job_id}/files")),
            "get",
            None,
            "A key",
        );
        let post = curl("https://api.example/v1/a", "post", Some(&body), "A key or a session");

        assert_eq!(
            get,
            "curl \"https://api.example/v1/a/$JOB_ID/files\" \\\n  -H \"X-API-Key: $API_KEY\""
        );
        assert!(post.starts_with("curl -X POST "), "{post}");
        assert!(post.ends_with("-d '{\"name\": \"Ada'\\''s\"}'"), "{post}");
        assert_eq!(curl("x", "get", None, "A session"), "");
    }

    #[test]
    fn a_call_without_credentials_sends_none_and_a_file_is_a_form() {
        let body = |media_type: &str, example: &str| OperationBody {
            media_type: media_type.to_owned(),
            is_required: true,
            rows: Vec::new(),
            example: example.to_owned(),
        };

        assert_eq!(curl("x", "delete", None, "No credentials"), "curl -X DELETE \"x\"");
        let file = curl("x", "post", Some(&body("multipart/form-data", "")), "A key");
        assert!(
            file.ends_with("-H \"X-API-Key: $API_KEY\" \\\n  -F \"file=@photo.jpg\""),
            "{file}"
        );
        let bare = curl("x", "put", Some(&body("application/json", "")), "No credentials");
        assert_eq!(
            bare,
            "curl -X PUT \"x\" \\\n  -H \"Content-Type: application/json\" \\\n  -d '{}'"
        );
    }

    #[test]
    fn only_whole_segments_in_braces_are_parameters() {
        for (path, expected) in [
            ("/v1/{account}/native/{path}", "/v1/$ACCOUNT/native/$PATH"),
            ("/v1/{a}", "/v1/$A"),
            ("/v1/a{b}/", "/v1/a{b}/"),
            ("/", "/"),
            ("", ""),
        ] {
            assert_eq!(variables(path), expected);
        }
    }

    #[test]
    fn a_value_is_shown_indented_and_nothing_is_shown_as_nothing() {
        assert_eq!(pretty(&Value::Null), "");
        assert_eq!(pretty(&serde_json::json!({"a": [1]})), "{\n  \"a\": [\n    1\n  ]\n}");
    }
}
