//! The pass of rows through the tree of the members seen, which gives each value its column.

use std::collections::HashMap;

use super::cell::{CellValue, FoundCell};
use super::{DEPTH_MAX, FileColumns};
use crate::scan::{JsonScanner, StringSpan};
use crate::{COLUMN_NAME_BYTES_MAX, TabularError, check_length};

/// The size of the tree, in members, above which it is rebuilt before the next row.
pub(super) const MEMBERS_KEPT_MAX: usize = 4096;

/// Flattens rows one after the other, and remembers their structure.
#[derive(Debug)]
pub struct RowFlattener {
    columns: FileColumns,
    rule: FieldRule,
    root: ObjectNode,
    pub(super) members: usize,
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

fn push_escaped(name: &mut String, member: &str) {
    for character in member.chars() {
        if matches!(character, '.' | '\\') {
            name.push('\\');
        }
        name.push(character);
    }
}
