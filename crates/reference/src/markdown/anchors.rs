//! The anchors of headings, named as code hosts name them, so that links between documents work in
//! both places.

use std::collections::HashMap;

/// The names that the headings of one document have taken, and how often each was asked for again.
#[derive(Debug, Default)]
pub(crate) struct AnchorNames(HashMap<String, usize>);

impl AnchorNames {
    /// The name for the next heading with this text.
    pub(crate) fn next(&mut self, text: &str) -> String {
        let plain = name(text);
        let mut free = plain.clone();
        // A heading may be called what another one would become.
        while self.0.contains_key(&free) {
            let repeats = self.0.entry(plain.clone()).or_default();
            *repeats += 1;
            free = format!("{plain}-{repeats}");
        }
        self.0.insert(free.clone(), 0);
        free
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

    #[test]
    fn no_two_headings_have_one_anchor_whatever_they_are_called() {
        let of = |headings: &[&str]| -> Vec<String> {
            let mut names = AnchorNames::default();
            headings.iter().map(|heading| names.next(heading)).collect()
        };

        assert_eq!(of(&["A", "A", "A-1", "A"]), ["a", "a-1", "a-1-1", "a-2"]);
        assert_eq!(of(&["A-1", "A", "A"]), ["a-1", "a", "a-2"]);
        assert_eq!(of(&["a", "A!", "a?"]), ["a", "a-1", "a-2"]);
    }
}
