//! What is wrong with an entry of a catalogue file, and the line on which the entry begins.

use toml::de::DeTable;

/// A problem of one entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EntryProblem {
    /// The list that the entry is in, such as `routes`.
    pub(crate) list: &'static str,
    /// Its position there, counted from 0.
    pub(crate) index: usize,
    /// What is wrong.
    pub(crate) problem: String,
}

impl EntryProblem {
    /// The problem with the line of its entry in the file's text.
    pub(crate) fn in_file(self, text: &str) -> String {
        match line(text, self.list, self.index) {
            Some(line) => format!("line {line}: {}", self.problem),
            None => self.problem,
        }
    }
}

/// Checks the entries of a list in their order.
pub(crate) fn each<T, C>(
    list: &'static str,
    entries: Vec<T>,
    check: impl Fn(T) -> Result<C, String>,
) -> Result<Vec<C>, EntryProblem> {
    let numbered = entries.into_iter().enumerate();
    let checked = numbered.map(|(index, entry)| {
        check(entry).map_err(|problem| EntryProblem { list, index, problem })
    });
    checked.collect()
}

/// The line of an entry, counted from 1. The text is parsed again: a good file pays nothing for
/// this.
fn line(text: &str, list: &str, index: usize) -> Option<usize> {
    let table = DeTable::parse(text).ok()?;
    let entry = table.get_ref().get(list)?.get_ref().get(index)?;
    let before = text.get(..entry.span().start)?;
    Some(before.matches('\n').count() + 1)
}
