//! Flattening: nested objects become dotted columns, arrays become JSON text.
//!
//! * `{"a": {"b": 1}}` is the column `a.b`. A dot or backslash inside a member's name is escaped
//!   with a backslash, so that two different fields never share a column.
//! * Numbers keep their digits: long ids are not rounded, `1.10` does not become `1.1`.
//! * `null` and a missing field are empty cells; an empty object has no cell.
//! * Objects nested deeper than [`DEPTH_MAX`] become JSON text, as arrays do.
//! * If a member occurs twice in an object, the last one counts, as for most JSON readers.
//! * Declared columns come first, whether or not a row has their fields. `null` in place of an
//!   object with declared columns is not a column of its own. If columns are chosen, other fields
//!   are left out.
//!
//! Rows of one platform are much alike, so the members seen are kept as a tree, and at each
//! position the member that came next in the previous row is tried first: a row like the previous
//! one costs one comparison per member.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use crate::declared::{self, DeclaredColumn};
use crate::scan::{JsonScanner, StringSpan, TextSpan};
use crate::{COLUMN_NAME_BYTES_MAX, COLUMNS_MAX, TabularError, check_length};

/// How deeply nested fields become columns of their own.
pub const DEPTH_MAX: usize = 16;
/// The size of the tree, in members, above which it is rebuilt before the next row.
const MEMBERS_KEPT_MAX: usize = 4096;

/// The columns of a file: the declared ones, then the others in the order in which their fields
/// first appeared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileColumns {
    names: Vec<String>,
    kinds: Vec<CellKinds>,
    positions: HashMap<String, usize>,
    /// The columns that always come first.
    declared: Vec<DeclaredColumn>,
    /// The names of the objects that contain the fields of declared columns.
    objects: HashSet<String>,
    /// Whether fields without a column are left out.
    is_closed: bool,
}

/// The kind of values in a column, over all rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnKind {
    /// Only `null`.
    Empty,
    /// Texts.
    Text,
    /// Numbers.
    Number,
    /// `true` and `false`.
    Boolean,
    /// JSON text of arrays, or of objects nested too deeply.
    Json,
    /// Several of these.
    Mixed,
}

/// One value of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CellValue<'a> {
    /// `null`, or the field is missing.
    Empty,
    /// A text.
    Text(Cow<'a, str>),
    /// A number, as written.
    Number(&'a str),
    /// `true` or `false`.
    Boolean(bool),
    /// JSON text, as written.
    Json(&'a str),
}

/// The set of kinds of a column's cells, as bits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct CellKinds(u8);

/// Flattens rows one after the other, and remembers their structure.
#[derive(Debug)]
pub struct RowFlattener {
    columns: FileColumns,
    rule: FieldRule,
    root: ObjectNode,
    members: usize,
    cells: Vec<FoundCell>,
}

/// What happens to a field that has no column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FieldRule {
    /// It becomes a column.
    Collect,
    /// It is an error.
    Refuse,
}

/// The members of the objects at one position of a row, in the order in which they first appeared.
#[derive(Debug, Default)]
struct ObjectNode {
    members: Vec<ObjectMember>,
    places: HashMap<Box<str>, usize>,
}

#[derive(Debug)]
struct ObjectMember {
    /// Its name as written in the JSON text.
    spelling: Box<str>,
    /// The name of its column.
    name: String,
    slot: MemberSlot,
    object: Option<Box<ObjectNode>>,
}

/// Where the values of a member go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MemberSlot {
    /// No value has been seen.
    Unknown,
    /// Into a column.
    Column(usize),
    /// Only `null` has been seen, in place of an object.
    Null,
    /// Nowhere: its column was not chosen.
    LeftOut,
}

/// The value of a column in the current row.
#[derive(Debug, Clone, Copy)]
enum FoundCell {
    Nothing,
    Text(StringSpan),
    Number(TextSpan),
    Boolean(bool),
    Json(TextSpan),
}

impl FileColumns {
    /// Creates it without columns.
    pub fn new() -> Self {
        Self::default()
    }

    /// Columns that come first and in this order, also in a file without rows. Other fields become
    /// columns after them. If a name is given twice, the first counts.
    pub fn declared(
        columns: impl IntoIterator<Item = DeclaredColumn>,
    ) -> Result<Self, TabularError> {
        let mut all = Self::default();
        for column in columns {
            if column.name.len() > COLUMN_NAME_BYTES_MAX {
                return Err(TabularError::ColumnNameTooLong);
            }
            if all.position(&column.name).is_some() {
                continue;
            }
            all.push(&column.name)?;
            all.objects.extend(declared::parents(&column.name).map(str::to_owned));
            all.declared.push(column);
        }
        Ok(all)
    }

    /// These columns in this order, and no others: all other fields are left out. JSON lines
    /// contain only these columns too. If a name is given twice, the first counts.
    pub fn chosen(columns: impl IntoIterator<Item = DeclaredColumn>) -> Result<Self, TabularError> {
        Ok(Self { is_closed: true, ..Self::declared(columns)? })
    }

    /// Whether fields without a column are left out.
    pub const fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// The declarations of the columns that come first, in order.
    pub fn declarations(&self) -> &[DeclaredColumn] {
        &self.declared
    }

    /// The names, in order.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The kind of each column, in the order of the names.
    pub fn kinds(&self) -> impl Iterator<Item = ColumnKind> {
        self.kinds.iter().map(|kinds| kinds.kind())
    }

    /// The position of a column.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.positions.get(name).copied()
    }

    /// Adds a column after the others and returns its position.
    fn push(&mut self, name: &str) -> Result<usize, TabularError> {
        if self.names.len() >= COLUMNS_MAX {
            return Err(TabularError::TooManyColumns);
        }
        let position = self.names.len();
        self.positions.insert(name.to_owned(), position);
        self.names.push(name.to_owned());
        self.kinds.push(CellKinds::default());
        Ok(position)
    }
}

impl ColumnKind {
    /// Its name in manifests.
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

impl CellKinds {
    const TEXT: u8 = 1;
    const NUMBER: u8 = 2;
    const BOOLEAN: u8 = 4;
    const JSON: u8 = 8;

    const fn kind(self) -> ColumnKind {
        match self.0 {
            0 => ColumnKind::Empty,
            Self::TEXT => ColumnKind::Text,
            Self::NUMBER => ColumnKind::Number,
            Self::BOOLEAN => ColumnKind::Boolean,
            Self::JSON => ColumnKind::Json,
            _ => ColumnKind::Mixed,
        }
    }
}

impl RowFlattener {
    /// Collects new columns after the existing ones.
    pub fn collecting(columns: FileColumns) -> Self {
        Self::with(columns, FieldRule::Collect)
    }

    /// Reads rows whose columns were all collected before: a field without a column is an error.
    pub fn arranging(columns: FileColumns) -> Self {
        Self::with(columns, FieldRule::Refuse)
    }

    fn with(columns: FileColumns, rule: FieldRule) -> Self {
        Self { columns, rule, root: ObjectNode::default(), members: 0, cells: Vec::new() }
    }

    /// Reads a row: the text of one JSON object, at most [`crate::ROW_BYTES_MAX`] long.
    pub fn read(&mut self, row: &str) -> Result<(), TabularError> {
        check_length(row)?;
        if self.members > MEMBERS_KEPT_MAX {
            self.root = ObjectNode::default();
            self.members = 0;
        }
        self.cells.clear();
        self.cells.resize(self.columns.names.len(), FoundCell::Nothing);
        let mut scanner = JsonScanner::new(row);
        if scanner.peek() != Some(b'{') {
            return Err(TabularError::NotAnObject);
        }
        let mut pass = RowPass {
            row,
            columns: &mut self.columns,
            rule: self.rule,
            members: &mut self.members,
            cells: &mut self.cells,
        };
        pass.object(&mut scanner, &mut self.root, "", 1)?;
        scanner.finish()?;
        if self.rule == FieldRule::Collect {
            for (kinds, found) in self.columns.kinds.iter_mut().zip(&self.cells) {
                kinds.0 |= found.kind();
            }
        }
        Ok(())
    }

    /// The cells of the last row read, in the order of the columns; `row` is its text.
    pub fn cells<'a>(&self, row: &'a str) -> impl Iterator<Item = CellValue<'a>> {
        self.cells.iter().map(move |found| found.cell(row))
    }

    /// The JSON text of the same cells, as written; `null` for those without a value.
    pub fn values<'a>(&self, row: &'a str) -> impl Iterator<Item = &'a str> {
        self.cells.iter().map(move |found| found.value(row))
    }

    /// The columns.
    pub const fn columns(&self) -> &FileColumns {
        &self.columns
    }

    /// Returns the columns.
    pub fn into_columns(self) -> FileColumns {
        self.columns
    }
}

/// The pass of one row through the tree.
struct RowPass<'p> {
    row: &'p str,
    columns: &'p mut FileColumns,
    rule: FieldRule,
    members: &'p mut usize,
    cells: &'p mut Vec<FoundCell>,
}

impl RowPass<'_> {
    /// Reads an object. The depth is at most [`DEPTH_MAX`]; deeper values are not flattened.
    fn object(
        &mut self,
        scanner: &mut JsonScanner<'_>,
        node: &mut ObjectNode,
        parent: &str,
        depth: usize,
    ) -> Result<(), TabularError> {
        scanner.expect(b'{')?;
        if scanner.take(b'}') {
            return Ok(());
        }
        let mut expected = 0;
        loop {
            let spelling = scanner.string()?;
            scanner.expect(b':')?;
            let place = match node.find(expected, spelling.span.of(self.row)) {
                Some(place) => place,
                None => self.add_member(node, parent, depth, spelling)?,
            };
            expected = place + 1;
            if let Some(member) = node.members.get_mut(place) {
                self.value(scanner, member, depth)?;
            }
            if !scanner.take(b',') {
                return scanner.expect(b'}');
            }
        }
    }

    fn value(
        &mut self,
        scanner: &mut JsonScanner<'_>,
        member: &mut ObjectMember,
        depth: usize,
    ) -> Result<(), TabularError> {
        let found = match scanner.peek() {
            Some(b'{') if depth < DEPTH_MAX => {
                let node = member.object.get_or_insert_default();
                return self.object(scanner, node, &member.name, depth + 1);
            }
            Some(b'{' | b'[') => FoundCell::Json(scanner.nested()?),
            Some(b'"') => FoundCell::Text(scanner.string()?),
            Some(b't') => scanner.word(b"true").map(|()| FoundCell::Boolean(true))?,
            Some(b'f') => scanner.word(b"false").map(|()| FoundCell::Boolean(false))?,
            Some(b'n') => scanner.word(b"null").map(|()| FoundCell::Nothing)?,
            _ => FoundCell::Number(scanner.number()?),
        };
        let is_null = matches!(found, FoundCell::Nothing);
        if member.slot == MemberSlot::Unknown || (member.slot == MemberSlot::Null && !is_null) {
            member.slot = self.slot(&member.name, is_null)?;
        }
        if let MemberSlot::Column(column) = member.slot
            && let Some(cell) = self.cells.get_mut(column)
        {
            *cell = found;
        }
        Ok(())
    }

    fn add_member(
        &mut self,
        node: &mut ObjectNode,
        parent: &str,
        depth: usize,
        spelling: StringSpan,
    ) -> Result<usize, TabularError> {
        let mut name = String::new();
        if depth > 1 {
            name.push_str(parent);
            name.push('.');
        }
        push_escaped(&mut name, &spelling.text(self.row));
        if name.len() > COLUMN_NAME_BYTES_MAX {
            return Err(TabularError::ColumnNameTooLong);
        }
        *self.members += 1;
        Ok(node.push(spelling.span.of(self.row), name))
    }

    fn slot(&mut self, name: &str, is_null: bool) -> Result<MemberSlot, TabularError> {
        if let Some(known) = self.columns.position(name) {
            return Ok(MemberSlot::Column(known));
        }
        if self.columns.is_closed {
            return Ok(MemberSlot::LeftOut);
        }
        if is_null && self.columns.objects.contains(name) {
            return Ok(MemberSlot::Null);
        }
        match self.rule {
            FieldRule::Refuse => Err(TabularError::UnknownColumn(name.to_owned())),
            FieldRule::Collect => {
                self.cells.push(FoundCell::Nothing);
                self.columns.push(name).map(MemberSlot::Column)
            }
        }
    }
}

impl ObjectNode {
    fn find(&self, expected: usize, spelling: &str) -> Option<usize> {
        if self.members.get(expected).is_some_and(|member| &*member.spelling == spelling) {
            return Some(expected);
        }
        self.places.get(spelling).copied()
    }

    fn push(&mut self, spelling: &str, name: String) -> usize {
        let place = self.members.len();
        self.places.insert(spelling.into(), place);
        self.members.push(ObjectMember {
            spelling: spelling.into(),
            name,
            slot: MemberSlot::Unknown,
            object: None,
        });
        place
    }
}

impl FoundCell {
    fn cell(self, row: &str) -> CellValue<'_> {
        match self {
            Self::Nothing => CellValue::Empty,
            Self::Text(string) => CellValue::Text(string.text(row)),
            Self::Number(span) => CellValue::Number(span.of(row)),
            Self::Boolean(value) => CellValue::Boolean(value),
            Self::Json(span) => CellValue::Json(span.of(row)),
        }
    }

    fn value(self, row: &str) -> &str {
        match self {
            Self::Nothing => "null",
            Self::Text(StringSpan { span: TextSpan { start, end }, .. }) => {
                TextSpan { start: start.saturating_sub(1), end: end.saturating_add(1) }.of(row)
            }
            Self::Number(span) | Self::Json(span) => span.of(row),
            Self::Boolean(true) => "true",
            Self::Boolean(false) => "false",
        }
    }

    const fn kind(self) -> u8 {
        match self {
            Self::Nothing => 0,
            Self::Text(_) => CellKinds::TEXT,
            Self::Number(_) => CellKinds::NUMBER,
            Self::Boolean(_) => CellKinds::BOOLEAN,
            Self::Json(_) => CellKinds::JSON,
        }
    }
}

fn push_escaped(name: &mut String, member: &str) {
    for character in member.chars() {
        if matches!(character, '.' | '\\') {
            name.push('\\');
        }
        name.push(character);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::ROW_BYTES_MAX;

    fn collected(rows: &[&str]) -> Result<FileColumns, TabularError> {
        let mut flattener = RowFlattener::collecting(FileColumns::new());
        rows.iter().try_for_each(|row| flattener.read(row))?;
        Ok(flattener.into_columns())
    }

    fn arranged<'a>(
        columns: &FileColumns,
        row: &'a str,
    ) -> Result<Vec<CellValue<'a>>, TabularError> {
        let mut flattener = RowFlattener::arranging(columns.clone());
        flattener.read(row)?;
        Ok(flattener.cells(row).collect())
    }

    fn names(rows: &[&str]) -> Vec<String> {
        collected(rows).unwrap().names().to_vec()
    }

    #[test]
    fn columns_are_in_the_order_of_first_appearance() {
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
                CellValue::Number(text) | CellValue::Json(text) => {
                    serde_json::from_str(text).unwrap()
                }
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
}
