//! The text of OpenAPI documents (JSON or YAML, of bounded size), and the local references in them.

use serde_json::Value;

use crate::CatalogError;
use crate::shorthand;

/// Maximum size of a document, in bytes.
pub const DOCUMENT_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Maximum depth of YAML; the JSON parser has the same limit.
const DEPTH_MAX: usize = 128;

/// Maximum number of values in YAML. Values that an alias repeats count each time.
const NODES_MAX: usize = 2_000_000;

/// Maximum text in YAML, in bytes. Text that an alias repeats counts each time.
const SCALAR_BYTES_MAX: usize = 2 * DOCUMENT_BYTES_MAX;

/// Maximum number of values that aliases may repeat.
const REPEATED_MAX: usize = 250_000;

/// Maximum length of a chain of references.
const REFERENCES_MAX: usize = 16;

/// Reads an OpenAPI document: JSON if it starts with a brace, otherwise YAML.
pub fn read(text: &str) -> Result<Value, CatalogError> {
    if text.len() > DOCUMENT_BYTES_MAX {
        let mebibytes = DOCUMENT_BYTES_MAX / (1024 * 1024);
        let problem = format!("it is larger than {mebibytes} MiB: split it, or remove examples");
        return Err(CatalogError::Document(problem));
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let read = if text.trim_start().starts_with('{') {
        serde_json::from_str(text).map_err(|error| format!("it is not JSON: {error}"))
    } else {
        yaml(text)
    };
    read.map_err(CatalogError::Document)
}

fn yaml(text: &str) -> Result<Value, String> {
    let options = serde_saphyr::options! {
        with_snippet: false,
        // OpenAPI uses YAML 1.2, in which `on` and `no` are strings.
        strict_booleans: true,
        budget: serde_saphyr::budget! {
            max_depth: DEPTH_MAX,
            flow_nesting_limit: DEPTH_MAX,
            max_nodes: NODES_MAX,
            max_events: 3 * NODES_MAX,
            max_total_scalar_bytes: SCALAR_BYTES_MAX,
            max_documents: 1,
            // Documents may use one value everywhere; `alias_limits` bounds the repetitions.
            enforce_alias_anchor_ratio: false,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: REPEATED_MAX,
        },
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let problem = error.to_string();
        let first_line = problem.lines().next().unwrap_or_default();
        format!("it is neither JSON nor YAML that can be read: {first_line}")
    })
}

/// A document and its references.
#[derive(Clone, Copy)]
pub(super) struct OpenapiDocument<'a> {
    root: &'a Value,
}

impl<'a> OpenapiDocument<'a> {
    pub(super) const fn new(root: &'a Value) -> Self {
        Self { root }
    }

    /// The value at a JSON pointer of the document.
    pub(super) fn at(self, pointer: &str) -> Option<&'a Value> {
        self.root.pointer(pointer)
    }

    /// The target of a local reference such as `#/components/schemas/Pet`.
    pub(super) fn target(self, reference: &str) -> Option<&'a Value> {
        let pointer = reference.strip_prefix('#')?;
        let found = self.root.pointer(pointer);
        // Pointers in URLs may be percent-encoded.
        found.or_else(|| {
            let decoded = String::from_utf8(shorthand::decode(pointer)).ok()?;
            self.root.pointer(&decoded)
        })
    }

    /// Follows references to a value that is not a reference. A broken, external or circular
    /// reference is returned as it is, and ignored because it has no members.
    pub(super) fn resolved(self, value: &'a Value) -> &'a Value {
        let mut current = value;
        for _ in 0..REFERENCES_MAX {
            let reference = current.get("$ref").and_then(Value::as_str);
            match reference.and_then(|reference| self.target(reference)) {
                Some(target) => current = target,
                None => break,
            }
        }
        current
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn problem(text: &str) -> String {
        read(text).unwrap_err().to_string()
    }

    #[test]
    fn yaml_and_json_are_read_alike() {
        let yaml = "\
# a comment
openapi: '3.0.3'
paths:
  /a: &shared
    get:
      deprecated: true
      responses:
        200: { description: \"yes\" }
        '404': {}
      parameters:
        - name: on
          example: 2026-11-23
  /b: *shared
";
        let get = json!({"get": {
            "deprecated": true,
            "responses": {"200": {"description": "yes"}, "404": {}},
            "parameters": [{"name": "on", "example": "2026-11-23"}],
        }});
        let expected = json!({"openapi": "3.0.3", "paths": {"/a": get, "/b": get}});

        assert_eq!(read(yaml).unwrap(), expected);
        assert_eq!(read(&expected.to_string()).unwrap(), expected);
        assert_eq!(read(&format!("\u{feff} \n{expected}")).unwrap(), expected);
    }

    #[test]
    fn the_problem_names_the_place() {
        assert!(problem("{\"a\": 1,}").contains("it is not JSON: "));
        assert!(problem("{\"a\": 1,}").contains("line 1 column"));
        assert!(problem("a: 1\nb: [\n").contains("line "), "{}", problem("a: 1\nb: [\n"));
        assert!(problem("a: 1\na: 2\n").contains("line 2"), "{}", problem("a: 1\na: 2\n"));
    }

    /// Nine levels of nine aliases each: half a gigabyte of values from a few hundred bytes.
    #[test]
    fn aliases_that_multiply_are_refused() {
        let mut lines = vec!["a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned()];
        for level in 1..9 {
            let aliases = vec![format!("*a{}", level - 1); 9].join(", ");
            lines.push(format!("a{level}: &a{level} [{aliases}]\n"));
        }
        let text = lines.concat();

        assert!(problem(&text).contains("neither JSON nor YAML"), "{}", problem(&text));
    }

    #[test]
    fn a_small_value_may_be_repeated_often() {
        let text = format!("a: &a {{ type: string }}\nb: [{}]\n", vec!["*a"; 2000].join(", "));

        assert_eq!(read(&text).unwrap()["b"][1999]["type"], "string");
    }

    #[test]
    fn one_large_text_repeated_by_aliases_is_refused() {
        let large = "x".repeat(1024 * 1024);
        let text = format!("a: &a {large}\nb: [{}]\n", vec!["*a"; 90].join(", "));

        assert!(problem(&text).contains("neither JSON nor YAML"), "{}", problem(&text));
    }

    #[test]
    fn deep_and_large_documents_are_refused() {
        assert!(read(&format!("a: {}1{}", "[".repeat(1000), "]".repeat(1000))).is_err());
        assert!(read(&"{\"a\":".repeat(100_000)).is_err());
        let large = " ".repeat(DOCUMENT_BYTES_MAX + 1);
        assert!(problem(&large).contains("larger than 32 MiB"));
    }

    #[test]
    fn references_are_followed_within_the_document_and_not_in_circles() {
        let document = json!({
            "a": {"$ref": "#/b"}, "b": {"$ref": "#/x~1y/z%20z"}, "x/y": {"z z": {"end": 1}},
            "round": {"$ref": "#/round"}, "out": {"$ref": "other.yaml#/a"}, "gone": {"$ref": "#/none"},
        });
        let openapi = OpenapiDocument::new(&document);

        assert_eq!(openapi.resolved(&document["a"])["end"], 1);
        for name in ["round", "out", "gone"] {
            assert!(openapi.resolved(&document[name]).get("$ref").is_some(), "{name}");
        }
    }
}
