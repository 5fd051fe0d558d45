//! Columns that are known before the first row.

/// A column that a file has whether or not a row has its field, with its declaration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeclaredColumn {
    /// Its name, in the form of [`crate::columns`].
    pub name: String,
    /// The name of its kind of values; `None` if a chosen column was not declared.
    pub kind: Option<&'static str>,
    /// The unit or format of its values, if they have one.
    pub unit: Option<&'static str>,
}

/// The names of the objects that contain a field, from the outermost inwards, in the form of column
/// names.
pub(crate) fn parents(name: &str) -> impl Iterator<Item = &str> {
    let mut is_escaped = false;
    name.char_indices().filter_map(move |(at, character)| {
        let is_separator = character == '.' && !is_escaped;
        is_escaped = character == '\\' && !is_escaped;
        if is_separator { name.get(..at) } else { None }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parents_of_a_field_end_at_unescaped_dots() {
        let all = |name: &'static str| parents(name).collect::<Vec<_>>();

        assert_eq!(all("a"), Vec::<&str>::new());
        assert_eq!(all("a.b.c"), ["a", "a.b"]);
        assert_eq!(all("a\\.b.c"), ["a\\.b"]);
        assert_eq!(all("a\\\\.b"), ["a\\\\"]);
        assert_eq!(all(".b"), [""]);
    }
}
