//! Where the operator set each key: a line of the configuration file, or an environment variable.
//! A problem says so, because a file may be long and a variable may win over it.

use std::collections::BTreeMap;

use toml::de::{DeTable, DeValue};

/// The keys that the operator set, by their dotted names, such as `packs[1].name`.
#[derive(Clone, Default)]
pub(super) struct KeyOrigins(BTreeMap<String, KeyOrigin>);

/// Where a key was set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyOrigin {
    /// A line of the configuration file, counted from 1.
    Line(usize),
    /// An environment variable, by its name.
    Variable(String),
}

impl KeyOrigins {
    /// The origins of every key of a file. Nothing, if it is not TOML.
    pub(super) fn of_file(text: &str) -> Self {
        let mut origins = Self::default();
        if let Ok(table) = DeTable::parse(text) {
            let lines = LineStarts::of(text);
            origins.add_table("", table.get_ref(), &lines);
        }
        origins
    }

    /// Adds a key that an environment variable sets, whatever the file says.
    pub(super) fn add_variable(&mut self, key: String, variable: &str) {
        self.0.insert(key, KeyOrigin::Variable(variable.to_owned()));
    }

    /// The origin of a key; of one that is missing, that of the table in which it belongs.
    pub(super) fn of(&self, key: &str) -> Option<&KeyOrigin> {
        let mut rest = key;
        loop {
            if let Some(origin) = self.0.get(rest) {
                return Some(origin);
            }
            rest = rest.get(..rest.rfind(['.', '['])?)?;
        }
    }

    fn add_table(&mut self, above: &str, table: &DeTable<'_>, lines: &LineStarts) {
        for (name, value) in table {
            let dot = if above.is_empty() { "" } else { "." };
            let key = format!("{above}{dot}{}", name.get_ref());
            self.0.insert(key.clone(), KeyOrigin::Line(lines.line_of(name.span().start)));
            self.add_value(&key, value.get_ref(), lines);
        }
    }

    fn add_value(&mut self, key: &str, value: &DeValue<'_>, lines: &LineStarts) {
        match value {
            DeValue::Table(table) => self.add_table(key, table, lines),
            DeValue::Array(values) => {
                for (index, element) in values.iter().enumerate() {
                    let of_element = format!("{key}[{index}]");
                    let line = lines.line_of(element.span().start);
                    self.0.insert(of_element.clone(), KeyOrigin::Line(line));
                    self.add_value(&of_element, element.get_ref(), lines);
                }
            }
            _ => {}
        }
    }
}

/// Where the lines of a text start.
pub(super) struct LineStarts(Vec<usize>);

impl LineStarts {
    pub(super) fn of(text: &str) -> Self {
        let after_breaks = text.match_indices('\n').map(|(at, _)| at + 1);
        Self(std::iter::once(0).chain(after_breaks).collect())
    }

    /// The line of a byte, counted from 1.
    pub(super) fn line_of(&self, byte: usize) -> usize {
        self.0.partition_point(|start| *start <= byte)
    }
}

/// Where keys were set is no part of what they say: two configurations are shown alike.
impl std::fmt::Debug for KeyOrigins {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("KeyOrigins")
    }
}

impl std::fmt::Display for KeyOrigin {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Line(line) => write!(formatter, "line {line}"),
            Self::Variable(name) => formatter.write_str(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
# A comment.
[platforms.own]
base_url = \"https://own.example\"
headers = [
    { name = \"A\", value = \"b\" },
    { name = \"C\",
      value = \"d\" },
]
oauth.client_id = \"i\"

[[packs]]
id = \"one\"
[[packs]]
id = \"two\"
";

    fn line(key: &str) -> Option<usize> {
        match KeyOrigins::of_file(FILE).of(key) {
            Some(KeyOrigin::Line(line)) => Some(*line),
            other => {
                assert_eq!(other, None);
                None
            }
        }
    }

    #[test]
    fn each_key_of_a_file_has_its_line() {
        for (key, expected) in [
            ("platforms.own", 2),
            ("platforms.own.base_url", 3),
            ("platforms.own.headers", 4),
            ("platforms.own.headers[0]", 5),
            ("platforms.own.headers[1].value", 7),
            ("platforms.own.oauth.client_id", 9),
            ("packs[0].id", 12),
            ("packs[1]", 13),
            ("packs[1].id", 14),
        ] {
            assert_eq!(line(key), Some(expected), "{key}");
        }
    }

    #[test]
    fn a_key_that_is_missing_has_the_line_of_its_table() {
        assert_eq!(line("platforms.own.verify_route.path"), Some(2));
        assert_eq!(line("platforms.own.headers[1].nam"), Some(6));
        assert_eq!(line("packs[1].credits"), Some(13));
        assert_eq!(line("database.url"), None);
    }

    #[test]
    fn a_variable_wins_over_the_file() {
        let mut origins = KeyOrigins::of_file(FILE);

        origins.add_variable("platforms.own.base_url".to_owned(), "CREATOR_GATEWAY__X");

        let variable = KeyOrigin::Variable("CREATOR_GATEWAY__X".to_owned());
        assert_eq!(origins.of("platforms.own.base_url"), Some(&variable));
        assert_eq!(origins.of("platforms.own.proxy"), Some(&KeyOrigin::Line(2)));
    }

    #[test]
    fn a_file_that_is_not_toml_has_no_lines() {
        assert_eq!(KeyOrigins::of_file("[platforms").of("platforms"), None);
    }
}
