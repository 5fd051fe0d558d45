//! The anchors of headings, named as code hosts name them, so that links between documents work in
//! both places.

use std::collections::HashMap;

/// The names that the headings of one document have taken.
#[derive(Debug, Default)]
pub(crate) struct AnchorNames(HashMap<String, usize>);

impl AnchorNames {
    /// The name for the next heading with this text.
    pub(crate) fn next(&mut self, text: &str) -> String {
        let name = name(text);
        let count = self.0.entry(name.clone()).or_default();
        *count += 1;
        if *count == 1 { name } else { format!("{name}-{}", *count - 1) }
    }
}

/// Letters, digits, `-` and `_` in lower case, with `-` for spaces.
fn name(text: &str) -> String {
    let kept = |letter: char| match letter {
        ' ' => Some('-'),
        '-' | '_' => Some(letter),
        other => other.is_alphanumeric().then_some(other),
    };
    text.to_lowercase().chars().filter_map(kept).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anchors_are_those_of_code_hosts() {
        let mut names = AnchorNames::default();

        assert_eq!(names.next("What is charged?"), "what-is-charged");
        assert_eq!(names.next("Packs, payments & refunds"), "packs-payments--refunds");
        assert_eq!(names.next("missing_key"), "missing_key");
        assert_eq!(names.next("missing_key"), "missing_key-1");
        assert_eq!(names.next("X-Max-Cost"), "x-max-cost");
        assert_eq!(names.next("Über 5 €"), "über-5-");
        assert_eq!([names.next(""), names.next("?")], ["", "-1"]);
    }
}
