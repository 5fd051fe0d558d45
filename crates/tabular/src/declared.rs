//! Columns that are known before the first row.

/// A column that a file has whether or not a row has its field, and what is declared of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeclaredColumn {
    /// Its name, as [`crate::columns`] names fields.
    pub name: String,
    /// The word for what its values are; none where nothing is declared of a column that was chosen.
    pub kind: Option<&'static str>,
    /// The word for what its values count or how they are written, where they have one.
    pub unit: Option<&'static str>,
}

/// The names of the objects that a field lies in, from the outermost inwards, as columns would be named for them.
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
    fn a_field_lies_in_the_objects_before_each_dot_that_is_not_escaped() {
        let all = |name: &'static str| parents(name).collect::<Vec<_>>();

        assert_eq!(all("a"), Vec::<&str>::new());
        assert_eq!(all("a.b.c"), ["a", "a.b"]);
        assert_eq!(all("a\\.b.c"), ["a\\.b"]);
        assert_eq!(all("a\\\\.b"), ["a\\\\"]);
        assert_eq!(all(".b"), [""]);
    }
}
