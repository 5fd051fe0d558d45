//! Names of what is stored: checked parts between slashes.

use std::fmt;

/// The longest name, in bytes.
const NAME_BYTES_MAX: usize = 512;
/// The longest part of a name, in bytes.
const PART_BYTES_MAX: usize = 128;

/// A name such as `exports/exp_1/2/data.csv`: parts of letters, digits, `_`, `-` and single dots
/// that neither begin nor end with a dot. So no part leads upwards, is empty, or hides a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectName(String);

/// A text that is no name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the parts of a name in the storage are made of letters, digits, '_', '-' and single dots, and neither begin nor end with a dot"
)]
pub struct InvalidObjectName;

impl ObjectName {
    /// Checks a name.
    pub fn new(name: impl Into<String>) -> Result<Self, InvalidObjectName> {
        let name = name.into();
        if name.len() > NAME_BYTES_MAX || !name.split('/').all(is_part) {
            return Err(InvalidObjectName);
        }
        Ok(Self(name))
    }

    /// The name below this one.
    pub fn join(&self, part: &str) -> Result<Self, InvalidObjectName> {
        Self::new(format!("{}/{part}", self.0))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The folders that lead to it, and its last part.
    pub(super) fn folders_and_last(&self) -> (impl Iterator<Item = &str>, &str) {
        let (folders, last) = self.0.rsplit_once('/').unwrap_or(("", &self.0));
        (folders.split('/').filter(|part| !part.is_empty()), last)
    }

    /// The name as one part, for files of work; different names have different ones.
    pub(super) fn label(&self) -> String {
        // No part has two dots together, and none begins or ends with one.
        self.0.replace('/', "..")
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Whether a text can be a part of a name.
pub(super) fn is_part(part: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    !part.is_empty()
        && part.len() <= PART_BYTES_MAX
        && !part.starts_with('.')
        && !part.ends_with('.')
        && !part.contains("..")
        && part.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_never_leads_out_of_the_storage() {
        for name in [
            "",
            "/",
            "a/",
            "/a",
            "a//b",
            ".",
            "..",
            "../a",
            "a/../b",
            "a/./b",
            ".a",
            "a/.b",
            "a\0b",
            "a b",
            "a\\b",
            "a%2fb",
            "é",
            "a\n",
            "../../etc/x",
            "~",
            "a:b",
            "a..b",
            "a.",
            "a./b",
        ] {
            assert_eq!(ObjectName::new(name), Err(InvalidObjectName), "{name:?}");
        }
        assert!(ObjectName::new("a".repeat(PART_BYTES_MAX + 1)).is_err());
        assert!(ObjectName::new(["a"; NAME_BYTES_MAX].join("/")).is_err());
        assert!(ObjectName::new("exports/exp_1/2/data.csv").is_ok());
        assert!(ObjectName::new("exports").unwrap().join("../../etc/x").is_err());
    }

    #[test]
    fn files_of_work_for_different_names_are_different() {
        let names = ["a/b", "a/b/c", "a.b", "a.b/c", "a/b.c", "a-b", "a_b"];
        let labels = names.map(|name| ObjectName::new(name).unwrap().label());

        for (index, label) in labels.iter().enumerate() {
            assert!(label.split("..").all(is_part), "{label}");
            assert!(!labels.iter().skip(index + 1).any(|other| other == label), "{label}");
        }
    }
}
