//! Rows flattened into columns.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::flattener::MEMBERS_KEPT_MAX;
use super::*;
use crate::ROW_BYTES_MAX;

fn collected(rows: &[&str]) -> Result<FileColumns, TabularError> {
    let mut flattener = RowFlattener::collecting(FileColumns::new());
    rows.iter().try_for_each(|row| flattener.read(row))?;
    Ok(flattener.into_columns())
}

fn arranged<'a>(columns: &FileColumns, row: &'a str) -> Result<Vec<CellValue<'a>>, TabularError> {
    let mut flattener = RowFlattener::arranging(columns.clone());
    flattener.read(row)?;
    Ok(flattener.cells(row).collect())
}

fn names(rows: &[&str]) -> Vec<String> {
    collected(rows).unwrap().names().to_vec()
}

#[test]
fn columns_are_in_the_order_of_first_appearance() {
    let rows =
        [r#"{"z": 1, "user": {"name": "a", "id": 2}, "a": []}"#, r#"{"b": 1, "user": {"x": 1}}"#];

    assert_eq!(names(&rows), ["z", "user.name", "user.id", "a", "b", "user.x"]);
}

#[test]
fn different_fields_never_share_a_column() {
    let rows = [r#"{"a.b": 1, "a": {"b": 2}, "a\\": {"b": 3}, "a\\.b": 4}"#];

    assert_eq!(names(&rows), [r"a\.b", "a.b", r"a\\.b", r"a\\\.b"]);
}

#[test]
fn values_keep_their_written_form() {
    let row = r#"{"id": 123456789012345678901234567890, "price": 1.10, "exp": 1E+5, "neg": -0,
            "list": [1, {"a": "b"}], "text": "a\u0041\n", "yes": true, "no": false, "none": null, "o": {}}"#;
    let columns = collected(&[row]).unwrap();

    let cells = arranged(&columns, row).unwrap();

    assert_eq!(
        cells,
        [
            CellValue::Number("123456789012345678901234567890"),
            CellValue::Number("1.10"),
            CellValue::Number("1E+5"),
            CellValue::Number("-0"),
            CellValue::Json(r#"[1, {"a": "b"}]"#),
            CellValue::Text("aA\n".into()),
            CellValue::Boolean(true),
            CellValue::Boolean(false),
            CellValue::Empty,
        ]
    );
}

#[test]
fn the_kind_of_a_column_covers_all_its_cells() {
    let columns = collected(&[
        r#"{"a": null, "b": 1, "c": "x", "d": true, "e": [], "f": 1, "g": null}"#,
        r#"{"a": null, "b": 2.5, "c": null, "d": false, "e": [1], "f": "x", "g": 7}"#,
    ])
    .unwrap();

    let kinds: Vec<&str> = columns.kinds().map(ColumnKind::as_str).collect();

    assert_eq!(kinds, ["empty", "number", "text", "boolean", "json", "mixed", "number"]);
}

#[test]
fn the_last_of_duplicate_members_counts() {
    let row = r#"{"a": 1, "a": 2}"#;

    let cells = arranged(&collected(&[row]).unwrap(), row).unwrap();

    assert_eq!(cells, [CellValue::Number("2")]);
}

#[test]
fn deeply_nested_objects_become_text() {
    let nest = |depth: usize| r#"{"a":"#.repeat(depth) + "1" + &"}".repeat(depth);

    let within = nest(DEPTH_MAX);
    let beyond = nest(DEPTH_MAX + 2);
    let far = nest(1_000);

    let cell = |row| arranged(&collected(&[row]).unwrap(), row).unwrap().remove(0);
    assert_eq!(cell(&within), CellValue::Number("1"));
    assert_eq!(cell(&beyond), CellValue::Json(r#"{"a":{"a":1}}"#));
    assert!(matches!(cell(&far), CellValue::Json(_)));
    assert_eq!(names(&[&far]), [["a"; DEPTH_MAX].join(".")]);
}

#[test]
fn an_unpaired_surrogate_does_not_fail_a_row() {
    let row = r#"{"a\udc00": "x\ud800"}"#;

    let columns = collected(&[row]).unwrap();

    assert!(columns.names()[0].starts_with("a\u{fffd}"));
    let CellValue::Text(text) = arranged(&columns, row).unwrap().remove(0) else {
        panic!("no text")
    };
    assert!(text.starts_with("x\u{fffd}"));
}

#[test]
fn a_row_with_other_columns_is_refused() {
    let columns = collected(&[r#"{"a": 1}"#]).unwrap();

    let refused = arranged(&columns, r#"{"a": 1, "b": 2}"#);

    assert!(matches!(refused, Err(TabularError::UnknownColumn(name)) if name == "b"));
}

#[test]
fn errors_name_the_exceeded_limit() {
    let fields = |count: usize| {
        let fields: Vec<String> = (0..count).map(|field| format!("\"f{field}\":1")).collect();
        format!("{{{}}}", fields.join(","))
    };
    let long = |bytes: usize| format!("{{\"a\":\"{}\"}}", "x".repeat(bytes - 8));
    let named = |bytes: usize| format!("{{\"{}\":1}}", "n".repeat(bytes));

    assert_eq!(names(&[&fields(COLUMNS_MAX)]).len(), COLUMNS_MAX);
    assert!(matches!(
        collected(&[&fields(COLUMNS_MAX), r#"{"one more": 1}"#]),
        Err(TabularError::TooManyColumns)
    ));
    assert!(collected(&[&long(ROW_BYTES_MAX)]).is_ok());
    let bytes = ROW_BYTES_MAX + 1;
    assert!(matches!(
        collected(&[&long(bytes)]),
        Err(TabularError::RowTooLong { bytes: found }) if found == bytes
    ));
    assert!(collected(&[&named(COLUMN_NAME_BYTES_MAX)]).is_ok());
    assert!(matches!(
        collected(&[&named(COLUMN_NAME_BYTES_MAX + 1)]),
        Err(TabularError::ColumnNameTooLong)
    ));
}

#[test]
fn rows_that_are_not_objects_are_refused() {
    for row in ["", " ", "[]", "1", "\"{}\"", "null"] {
        assert!(matches!(collected(&[row]), Err(TabularError::NotAnObject)), "{row}");
    }
    for row in ["{", "{}{}", "{\"a\":}", "{\"a\":1,}", "{\"a\":01}", "{'a':1}", "{\"a\":{]}"] {
        assert!(matches!(collected(&[row]), Err(TabularError::NotJson { .. })), "{row}");
    }
}

#[test]
fn rows_of_changing_structure_are_read_correctly() {
    let rows = [
        r#"{"a": 1, "b": {"c": 2, "d": 3}, "e": 4}"#,
        r#"{"e": 5, "b": {"d": 6}, "a": {"x": 7}}"#,
        r#"{"\u0061": 8, "b": {"\u0063": 9, "c": 10}, "a": {}}"#,
        r#"{"b": 11}"#,
    ];
    let mut flattener = RowFlattener::collecting(FileColumns::new());

    let cells = |state: &RowFlattener, row| -> Vec<String> {
        let written = |cell| match cell {
            CellValue::Number(text) => text.to_owned(),
            _ => String::new(),
        };
        state.cells(row).map(written).collect()
    };
    let mut read = Vec::new();
    for row in rows {
        flattener.read(row).unwrap();
        read.push(cells(&flattener, row).join(","));
    }

    assert_eq!(flattener.columns().names(), ["a", "b.c", "b.d", "e", "a.x", "b"]);
    assert_eq!(read, ["1,2,3,4", ",,6,5,7", "8,10,,,", ",,,,,11"]);
}

#[test]
fn names_that_occur_once_do_not_accumulate() {
    let mut flattener = RowFlattener::collecting(FileColumns::new());
    for row in 0..3 * MEMBERS_KEPT_MAX {
        flattener.read(&format!("{{\"by_id\": {{\"{row}\": {{}}}}}}")).unwrap();
    }

    assert!(flattener.members <= MEMBERS_KEPT_MAX + 2, "{}", flattener.members);
    assert_eq!(flattener.columns().names(), [""; 0]);
}

#[test]
fn a_field_that_was_not_collected_is_an_error() {
    let columns = collected(&[r#"{"a": 1}"#]).unwrap();

    let refused = arranged(&columns, r#"{"a": 1, "b": {"c": 2}}"#);

    assert!(matches!(refused, Err(TabularError::UnknownColumn(name)) if name == "b.c"));
}

fn named(name: &str) -> DeclaredColumn {
    DeclaredColumn { name: name.to_owned(), kind: None, unit: None }
}

/// The columns collected from rows, after these ones.
fn behind(columns: FileColumns, rows: &[&str]) -> FileColumns {
    let mut flattener = RowFlattener::collecting(columns);
    rows.iter().try_for_each(|row| flattener.read(row)).unwrap();
    flattener.into_columns()
}

#[test]
fn declared_columns_come_first_and_others_follow_in_order() {
    let declared = FileColumns::declared(["id", "user.name", "at"].map(named)).unwrap();

    let columns = behind(declared.clone(), &[r#"{"x": 1, "user": {"age": 2, "name": "a"}}"#]);

    assert_eq!(behind(declared, &[]).names(), ["id", "user.name", "at"]);
    assert_eq!(columns.names(), ["id", "user.name", "at", "x", "user.age"]);
    let cells = arranged(&columns, r#"{"user": {"name": "b"}, "id": 7}"#).unwrap();
    assert_eq!(cells[..2], [CellValue::Number("7"), CellValue::Text("b".into())]);
    assert_eq!(cells[2..], [const { CellValue::Empty }; 3]);
}

#[test]
fn null_in_place_of_an_object_with_declared_columns_is_not_a_column() {
    let declared = FileColumns::declared(["last.user.name", "a\\.b.c"].map(named)).unwrap();
    let nulls = [r#"{"last": null, "a.b": null}"#, r#"{"last": {"user": null}, "a": null}"#];

    let columns = behind(declared.clone(), &nulls);
    let plain = behind(declared, &[nulls[0], r#"{"last": 5}"#, nulls[0], r#"{"last": null}"#]);

    assert_eq!(columns.names(), ["last.user.name", "a\\.b.c", "a"]);
    assert_eq!(arranged(&columns, nulls[0]).unwrap(), [const { CellValue::Empty }; 3]);
    assert_eq!(plain.names(), ["last.user.name", "a\\.b.c", "last"]);
    let refused = arranged(&columns, r#"{"last": 5}"#);
    assert!(matches!(refused, Err(TabularError::UnknownColumn(name)) if name == "last"));
}

#[test]
fn chosen_columns_leave_out_any_number_of_other_fields() {
    let chosen = FileColumns::chosen(["b", "none", "user.name"].map(named)).unwrap();
    let many: Vec<String> = (0..2 * COLUMNS_MAX).map(|at| format!("\"x{at}\":1")).collect();
    let many = many.join(",");
    let row = format!("{{{many},\"user\":{{\"id\":1,\"name\":\"n\"}},\"b\":[]}}");

    let columns = behind(chosen, &[&row, "{}", &row]);

    assert_eq!(columns.names(), ["b", "none", "user.name"]);
    let cells = arranged(&columns, &row).unwrap();
    assert_eq!(cells, [CellValue::Json("[]"), CellValue::Empty, CellValue::Text("n".into())]);
}

#[test]
fn declared_names_are_deduplicated_and_limited_in_length() {
    let twice = FileColumns::declared(["a", "b", "a"].map(named)).unwrap();
    let name = |length| [named(&"x".repeat(length))];
    let many = |count: usize| (0..count).map(|at| named(&at.to_string()));

    assert_eq!(twice.names(), ["a", "b"]);
    assert_eq!(twice.declarations().len(), 2);
    assert!(FileColumns::declared(name(COLUMN_NAME_BYTES_MAX)).is_ok());
    let long = FileColumns::chosen(name(COLUMN_NAME_BYTES_MAX + 1));
    assert!(matches!(long, Err(TabularError::ColumnNameTooLong)));
    assert!(FileColumns::declared(many(COLUMNS_MAX)).is_ok());
    let more = FileColumns::declared(many(COLUMNS_MAX + 1));
    assert!(matches!(more, Err(TabularError::TooManyColumns)));
}

#[test]
fn cells_keep_their_json_text() {
    let columns = FileColumns::chosen(["a", "b", "c", "d", "e", "f", "g"].map(named)).unwrap();
    let row = r#"{"a":"\u0041\"", "b":1.10, "c":true, "d":false, "e": [1, {}], "f":null}"#;
    let mut flattener = RowFlattener::arranging(columns);
    flattener.read(row).unwrap();

    let values: Vec<&str> = flattener.values(row).collect();

    let text = r#""\u0041\"""#;
    assert_eq!(values, [text, "1.10", "true", "false", "[1, {}]", "null", "null"]);
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "\\PC{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            proptest::collection::hash_map("[a.\\\\]{0,3}", inner, 1..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Rebuilds an arranged row by splitting the names.
fn rebuilt(columns: &FileColumns, cells: &[CellValue<'_>]) -> Value {
    let mut root = json!({});
    for (name, cell) in columns.names().iter().zip(cells) {
        let mut path = vec![String::new()];
        let mut characters = name.chars();
        while let Some(character) = characters.next() {
            match character {
                '.' => path.push(String::new()),
                '\\' => path.last_mut().unwrap().extend(characters.next()),
                other => path.last_mut().unwrap().push(other),
            }
        }
        let value = match cell {
            CellValue::Empty => Value::Null,
            CellValue::Text(text) => json!(text),
            CellValue::Boolean(value) => json!(value),
            CellValue::Number(text) | CellValue::Json(text) => serde_json::from_str(text).unwrap(),
        };
        let mut place = &mut root;
        for step in path {
            place = &mut place[step];
        }
        *place = value;
    }
    root
}

proptest! {
    #[test]
    fn flattening_loses_nothing(
        members in proptest::collection::hash_map("[ab.]{1,3}", value(), 1..5)
    ) {
        let row = Value::Object(members.into_iter().collect());
        let text = row.to_string();
        let columns = collected(&[&text]).unwrap();

        let cells = arranged(&columns, &text).unwrap();

        prop_assert_eq!(rebuilt(&columns, &cells), row);
    }

    #[test]
    fn no_text_causes_a_panic(row in "[{}\\[\\]\":,a1\\\\u.]{0,40}") {
        if let Ok(columns) = collected(&[&row]) {
            prop_assert!(arranged(&columns, &row).is_ok());
        }
    }
}
