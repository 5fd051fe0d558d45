//! Schemas in a few words, as the reference and `catalog show` print them.

use catalog::SchemaText;
use serde_json::{Value, json};

fn said(schema: &Value) -> String {
    SchemaText::parse(&schema.to_string()).unwrap().summary()
}

/// Each member with a mark if it is required.
fn members(schema: &Value) -> Vec<String> {
    let members = SchemaText::parse(&schema.to_string()).unwrap().members();
    let word = |required: bool| if required { "!" } else { "" };
    members
        .iter()
        .map(|one| format!("{}{}: {}", one.name, word(one.required), one.summary))
        .collect()
}

#[test]
fn what_may_be_null_says_so_whatever_else_it_is() {
    let text = json!({"type": "string"});
    for (schema, expected) in [
        (json!({"type": ["string", "null"]}), "string or null"),
        (json!({"type": ["null", "integer"], "minimum": 1}), "integer or null, at least 1"),
        (json!({"type": ["array", "null"], "items": text}), "list of string or null"),
        (json!({"type": ["null", "array"], "items": text}), "list of string or null"),
        (json!({"type": "array", "nullable": true, "items": text}), "list of string or null"),
        (json!({"type": ["array", "null"]}), "array or null"),
        (json!({"type": ["string", "null"], "format": "uri"}), "string (uri) or null"),
        (json!({"type": ["null"]}), "null"),
        (json!({"type": "null"}), "null"),
        (json!({"type": ["integer", "string"]}), "integer or string"),
        (json!({"type": ["array", "string"], "items": text}), "array or string"),
    ] {
        assert_eq!(said(&schema), expected, "{schema}");
    }
}

#[test]
fn values_are_listed_up_to_twelve_and_read_as_they_are_sent() {
    let values = |count: usize| (0..count).collect::<Vec<_>>();

    assert_eq!(said(&json!({"enum": values(12)})), "anything, 0|1|2|3|4|5|6|7|8|9|10|11");
    assert_eq!(said(&json!({"enum": values(13)})), "anything, 0|1|2|3|4|5|6|7|8|9|10|11|…");
    let mixed = json!({"type": "string", "enum": ["a b", null, true], "default": "a b"});
    assert_eq!(said(&mixed), "string, a b|null|true, default a b");
    assert_eq!(said(&json!({"const": "é", "default": null})), "anything, always é");
    assert_eq!(said(&json!({"maximum": 2.5, "enum": "no list"})), "anything, at most 2.5");
}

#[test]
fn a_member_is_required_wherever_the_parts_of_its_object_say_so() {
    let base = json!({"properties": {"id": {"type": "string"}, "note": {"type": "string"}}});
    let outside = json!({"required": ["id"], "allOf": [base]});
    let beside =
        json!({"allOf": [base, {"required": ["note"], "properties": {"id": {"type": "integer"}}}]});
    let deep = json!({"type": "array", "items": {"allOf": [{"allOf": [outside]}]}});

    assert_eq!(members(&outside), ["id!: string", "note: string"]);
    assert_eq!(members(&beside), ["id: string", "note!: string"]);
    assert_eq!(members(&deep), ["id!: string", "note: string"]);
}

#[test]
fn what_describes_no_object_has_no_members() {
    for schema in [
        json!({}),
        json!({"type": "array", "items": {"type": "string"}}),
        json!({"properties": []}),
        json!({"properties": {}, "required": ["gone"]}),
        json!({"oneOf": [{"properties": {"a": {}}}]}),
    ] {
        assert_eq!(members(&schema), [""; 0], "{schema}");
    }
}

#[test]
fn schemas_within_schemas_end() {
    let deep = (0..50)
        .fold(json!({"type": "string"}), |inner, _| json!({"type": "array", "items": inner}));
    let parts =
        (0..50).fold(json!({"properties": {"a": {}}}), |inner, _| json!({"allOf": [inner]}));

    assert_eq!(said(&deep), "list of list of list of list of array");
    assert_eq!(members(&parts), [""; 0]);
}
