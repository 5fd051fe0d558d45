//! Flattening: nested objects become dotted columns, arrays become JSON text.
//!
//! * `{"a": {"b": 1}}` is the column `a.b`. A dot or backslash inside a member's name is written with a
//!   backslash before it, so that two different fields never share a column.
//! * Numbers keep the digits they came with: no rounding of long ids, no `1.10` that becomes `1.1`.
//! * `null` and a missing field are empty cells; an empty object has no cell.
//! * Objects nested deeper than [`DEPTH_MAX`] become JSON text as arrays do.
//! * Of a member that stands twice in an object, the last one counts, as for most readers of JSON.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::{COLUMN_NAME_BYTES_MAX, COLUMNS_MAX, TabularError, check_length};

/// How many objects deep fields become columns of their own.
pub const DEPTH_MAX: usize = 16;

/// The columns of a file, in the order in which their fields were first seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Columns {
    names: Vec<String>,
    kinds: Vec<ColumnKind>,
    positions: HashMap<String, usize>,
}

/// What the cells of a column hold, over all rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnKind {
    /// Nothing but `null`.
    Empty,
    /// Texts.
    Text,
    /// Numbers.
    Number,
    /// `true` and `false`.
    Boolean,
    /// JSON text of arrays, or of objects nested too deep.
    Json,
    /// More than one of these.
    Mixed,
}

/// One value of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cell<'a> {
    /// `null`, or no such field.
    Empty,
    /// A text.
    Text(Cow<'a, str>),
    /// A number, as it was written.
    Number(&'a str),
    /// `true` or `false`.
    Boolean(bool),
    /// JSON text, as it was written.
    Json(&'a str),
}

impl Columns {
    /// No columns yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the columns of one row.
    pub fn add(&mut self, row: &str) -> Result<(), TabularError> {
        flatten(row, &mut |name, cell| {
            let kind = kind_of(&cell);
            if let Some(known) = self.position(name).and_then(|at| self.kinds.get_mut(at)) {
                *known = merged(*known, kind);
                return Ok(());
            }
            if self.names.len() >= COLUMNS_MAX {
                return Err(TabularError::TooManyColumns);
            }
            self.positions.insert(name.to_owned(), self.names.len());
            self.names.push(name.to_owned());
            self.kinds.push(kind);
            Ok(())
        })
    }

    /// The names, in order.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// What each column holds, in the order of the names.
    pub fn kinds(&self) -> &[ColumnKind] {
        &self.kinds
    }

    /// Where a column stands.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.positions.get(name).copied()
    }

    /// The cells of a row in the order of the columns. A field that is none of them is an error: the columns
    /// were then collected over other rows.
    pub fn arrange<'a>(&self, row: &'a str) -> Result<Vec<Cell<'a>>, TabularError> {
        let mut cells = vec![Cell::Empty; self.names.len()];
        flatten(row, &mut |name, cell| {
            let place = self.position(name).and_then(|at| cells.get_mut(at));
            *place.ok_or_else(|| TabularError::UnknownColumn(name.to_owned()))? = cell;
            Ok(())
        })?;
        Ok(cells)
    }
}

impl ColumnKind {
    /// The word in manifests.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Text => "text",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::Json => "json",
            Self::Mixed => "mixed",
        }
    }
}

const fn kind_of(cell: &Cell<'_>) -> ColumnKind {
    match cell {
        Cell::Empty => ColumnKind::Empty,
        Cell::Text(_) => ColumnKind::Text,
        Cell::Number(_) => ColumnKind::Number,
        Cell::Boolean(_) => ColumnKind::Boolean,
        Cell::Json(_) => ColumnKind::Json,
    }
}

fn merged(one: ColumnKind, other: ColumnKind) -> ColumnKind {
    match (one, other) {
        (ColumnKind::Empty, kind) | (kind, ColumnKind::Empty) => kind,
        (one, other) if one == other => one,
        _ => ColumnKind::Mixed,
    }
}

/// What is done with each cell of a row: its column's name, and the cell.
type Visit<'v, 'a> = &'v mut dyn FnMut(&str, Cell<'a>) -> Result<(), TabularError>;

fn flatten<'a>(row: &'a str, visit: Visit<'_, 'a>) -> Result<(), TabularError> {
    check_length(row)?;
    if !row.trim_start().starts_with('{') {
        return Err(TabularError::NotAnObject);
    }
    flatten_object(row, &mut String::new(), 1, visit)
}

/// The depth is at most [`DEPTH_MAX`], and so is the number of times that a byte is read.
fn flatten_object<'a>(
    object: &'a str,
    name: &mut String,
    depth: usize,
    visit: Visit<'_, 'a>,
) -> Result<(), TabularError> {
    let members: Members<'a> = serde_json::from_str(object)?;
    let parent_bytes = name.len();
    for (member, value) in members.0 {
        if depth > 1 {
            name.push('.');
        }
        push_escaped(name, &member);
        if name.len() > COLUMN_NAME_BYTES_MAX {
            return Err(TabularError::ColumnNameTooLong);
        }
        let text = value.get();
        match text.as_bytes().first() {
            Some(b'{') if depth < DEPTH_MAX => flatten_object(text, name, depth + 1, visit)?,
            Some(b'{' | b'[') => visit(name, Cell::Json(text))?,
            Some(b'"') => visit(name, Cell::Text(string(text)?))?,
            Some(b't') => visit(name, Cell::Boolean(true))?,
            Some(b'f') => visit(name, Cell::Boolean(false))?,
            Some(b'n') | None => visit(name, Cell::Empty)?,
            Some(_) => visit(name, Cell::Number(text))?,
        }
        name.truncate(parent_bytes);
    }
    Ok(())
}

fn push_escaped(name: &mut String, member: &str) {
    for character in member.chars() {
        if matches!(character, '.' | '\\') {
            name.push('\\');
        }
        name.push(character);
    }
}

/// The members of an object in the order of the text; `serde_json::Map` would sort them.
struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor)
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members<'de>;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some((name, value)) = map.next_entry::<Text<'de>, &'de RawValue>()? {
            members.push((name.0, value));
        }
        Ok(Members(members))
    }
}

/// A JSON string as text. Half a surrogate pair, which JSON allows and text cannot hold, becomes U+FFFD.
fn string(json: &str) -> Result<Cow<'_, str>, TabularError> {
    Ok(serde_json::from_str::<Text<'_>>(json)?.0)
}

struct Text<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_bytes(TextVisitor).map(Text)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Cow<'de, str>;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a JSON string")
    }

    fn visit_borrowed_bytes<E>(self, bytes: &'de [u8]) -> Result<Self::Value, E> {
        Ok(String::from_utf8_lossy(bytes))
    }

    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Self::Value, E> {
        Ok(Cow::Owned(String::from_utf8_lossy(bytes).into_owned()))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::ROW_BYTES_MAX;

    fn collected(rows: &[&str]) -> Result<Columns, TabularError> {
        let mut columns = Columns::new();
        rows.iter().try_for_each(|row| columns.add(row))?;
        Ok(columns)
    }

    fn names(rows: &[&str]) -> Vec<String> {
        collected(rows).unwrap().names().to_vec()
    }

    #[test]
    fn columns_stand_in_the_order_in_which_they_were_first_seen() {
        let rows = [
            r#"{"z": 1, "user": {"name": "a", "id": 2}, "a": []}"#,
            r#"{"b": 1, "user": {"x": 1}}"#,
        ];

        assert_eq!(names(&rows), ["z", "user.name", "user.id", "a", "b", "user.x"]);
    }

    #[test]
    fn different_fields_never_share_a_column() {
        let rows = [r#"{"a.b": 1, "a": {"b": 2}, "a\\": {"b": 3}, "a\\.b": 4}"#];

        assert_eq!(names(&rows), [r"a\.b", "a.b", r"a\\.b", r"a\\\.b"]);
    }

    #[test]
    fn values_keep_the_form_they_came_in() {
        let row = r#"{"id": 123456789012345678901234567890, "price": 1.10, "exp": 1E+5, "neg": -0,
            "list": [1, {"a": "b"}], "text": "a\u0041\n", "yes": true, "no": false, "none": null, "o": {}}"#;
        let columns = collected(&[row]).unwrap();

        let cells = columns.arrange(row).unwrap();

        assert_eq!(
            cells,
            [
                Cell::Number("123456789012345678901234567890"),
                Cell::Number("1.10"),
                Cell::Number("1E+5"),
                Cell::Number("-0"),
                Cell::Json(r#"[1, {"a": "b"}]"#),
                Cell::Text("aA\n".into()),
                Cell::Boolean(true),
                Cell::Boolean(false),
                Cell::Empty,
            ]
        );
    }

    #[test]
    fn the_kind_of_a_column_is_that_of_all_its_cells() {
        let columns = collected(&[
            r#"{"a": null, "b": 1, "c": "x", "d": true, "e": [], "f": 1, "g": null}"#,
            r#"{"a": null, "b": 2.5, "c": null, "d": false, "e": [1], "f": "x", "g": 7}"#,
        ])
        .unwrap();

        let kinds: Vec<&str> = columns.kinds().iter().map(|kind| kind.as_str()).collect();

        assert_eq!(kinds, ["empty", "number", "text", "boolean", "json", "mixed", "number"]);
    }

    #[test]
    fn of_a_member_that_stands_twice_the_last_one_counts() {
        let row = r#"{"a": 1, "a": 2}"#;

        let cells = collected(&[row]).unwrap().arrange(row).unwrap();

        assert_eq!(cells, [Cell::Number("2")]);
    }

    #[test]
    fn deep_objects_become_text_and_not_endless_names() {
        let nest = |depth: usize| r#"{"a":"#.repeat(depth) + "1" + &"}".repeat(depth);

        let within = nest(DEPTH_MAX);
        let beyond = nest(DEPTH_MAX + 2);
        let far = nest(1_000);

        let cell = |row| collected(&[row]).unwrap().arrange(row).unwrap().remove(0);
        assert_eq!(cell(&within), Cell::Number("1"));
        assert_eq!(cell(&beyond), Cell::Json(r#"{"a":{"a":1}}"#));
        assert!(matches!(cell(&far), Cell::Json(_)));
        assert_eq!(names(&[&far]), [["a"; DEPTH_MAX].join(".")]);
    }

    #[test]
    fn half_a_surrogate_pair_does_not_fail_a_row() {
        let row = r#"{"a\udc00": "x\ud800"}"#;

        let columns = collected(&[row]).unwrap();

        assert!(columns.names()[0].starts_with("a\u{fffd}"));
        let Cell::Text(text) = columns.arrange(row).unwrap().remove(0) else { panic!("no text") };
        assert!(text.starts_with("x\u{fffd}"));
    }

    #[test]
    fn each_limit_is_named_when_it_is_exceeded() {
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
    fn what_is_no_object_is_refused() {
        for row in ["", " ", "[]", "1", "\"{}\"", "null"] {
            assert!(matches!(collected(&[row]), Err(TabularError::NotAnObject)), "{row}");
        }
        for row in ["{", "{}{}", "{\"a\":}", "{\"a\":1,}", "{\"a\":01}", "{'a':1}", "{\"a\":{]}"] {
            assert!(matches!(collected(&[row]), Err(TabularError::NotJson(_))), "{row}");
        }
    }

    #[test]
    fn a_field_that_was_not_collected_is_an_error_and_not_a_loss() {
        let columns = collected(&[r#"{"a": 1}"#]).unwrap();

        let refused = columns.arrange(r#"{"a": 1, "b": {"c": 2}}"#);

        assert!(matches!(refused, Err(TabularError::UnknownColumn(name)) if name == "b.c"));
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

    /// Puts an arranged row together again, by taking the names apart.
    fn rebuilt(columns: &Columns, cells: &[Cell<'_>]) -> Value {
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
                Cell::Empty => Value::Null,
                Cell::Text(text) => json!(text),
                Cell::Boolean(value) => json!(value),
                Cell::Number(text) | Cell::Json(text) => serde_json::from_str(text).unwrap(),
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
        fn nothing_is_lost_by_flattening(
            members in proptest::collection::hash_map("[ab.]{1,3}", value(), 1..5)
        ) {
            let row = Value::Object(members.into_iter().collect());
            let text = row.to_string();
            let columns = collected(&[&text]).unwrap();

            let cells = columns.arrange(&text).unwrap();

            prop_assert_eq!(rebuilt(&columns, &cells), row);
        }

        #[test]
        fn no_text_makes_it_panic(row in "[{}\\[\\]\":,a1\\\\u.]{0,40}") {
            if let Ok(columns) = collected(&[&row]) {
                prop_assert!(columns.arrange(&row).is_ok());
            }
        }
    }
}
