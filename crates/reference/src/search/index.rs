//! What the search looks through, and how results are ordered.

use std::ops::Range;

use crate::documents::{DOCUMENTS, ERRORS, PublishedDocument};
use crate::markdown::RenderedDocument;
use crate::operations::model::OperationBook;
use crate::platforms::catalogue;
use crate::search::{closest, query};
use crate::shell::NAVIGATION;
use crate::state::ReferenceState;

/// Fewer results are read, more are not.
const RESULTS_MAX: usize = 30;
/// The bytes around a word that a result shows.
const BEFORE: usize = 70;
const AFTER: usize = 150;

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryKind {
    Document,
    Error,
    Operation,
    Route,
}

impl EntryKind {
    /// As results show it.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Document => "Document",
            Self::Error => "Error",
            Self::Operation => "API",
            Self::Route => "Route",
        }
    }
}

/// Something that can be found.
#[derive(Debug)]
pub(crate) struct SearchEntry {
    pub(crate) kind: EntryKind,
    pub(crate) title: String,
    /// What it is a part of.
    pub(crate) context: String,
    pub(crate) address: String,
    /// How much likelier it is what is looked for, other things being equal.
    weight: u32,
    /// In lower case.
    lower_title: String,
    text: String,
    /// The same in lower case, byte by byte.
    lower_text: String,
}

/// A part of an entry's text around what was looked for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct SearchExcerpt {
    pub(crate) before: String,
    pub(crate) hit: String,
    pub(crate) after: String,
}

/// An entry that was found.
pub(crate) struct SearchResult<'a> {
    pub(crate) entry: &'a SearchEntry,
    pub(crate) excerpt: SearchExcerpt,
}

/// Everything that can be found.
#[derive(Debug, Default)]
pub(crate) struct SearchIndex(Vec<SearchEntry>);

impl SearchIndex {
    /// Reads all documents, operations and routes.
    pub(crate) fn of(reference: &ReferenceState, operations: &OperationBook) -> Self {
        let mut index = Self::default();
        for (place, document) in DOCUMENTS.iter().enumerate() {
            if let Some(rendered) = reference.rendered(place, document) {
                index.add_document(document, rendered);
            }
        }
        for group in &operations.groups {
            for operation in &group.operations {
                let title = format!("{} {}", operation.method, operation.path);
                let address = format!("/docs/api/{}/{}", group.name, operation.id);
                let text = format!("{}. {}", operation.summary, operation.id);
                let entry = SearchEntry::new(EntryKind::Operation, title, address);
                index.0.push(entry.about(format!("API reference: {}", group.name), text));
            }
        }
        for (platform, _) in reference.config().platforms.offered() {
            for (route, named) in reference.catalog().platform(platform).operations() {
                let address = catalogue::page(platform, named);
                let entry = SearchEntry::new(EntryKind::Route, route.name.clone(), address);
                let text = format!("{} {}", route.description, route.notes);
                index.0.push(entry.about(platform.to_string(), text));
            }
        }
        index
    }

    fn add_document(&mut self, document: &PublishedDocument, rendered: &RenderedDocument) {
        let kind = if document.slug == ERRORS { EntryKind::Error } else { EntryKind::Document };
        for section in &rendered.sections {
            let is_start = section.anchor.is_empty();
            let title = if is_start { &rendered.title } else { &section.title };
            let kind = if is_start { EntryKind::Document } else { kind };
            let anchor = if is_start { String::new() } else { format!("#{}", section.anchor) };
            let address = format!("/docs/{}{anchor}", document.slug);
            let entry = SearchEntry::new(kind, title.clone(), address);
            let text = section.text.split_whitespace().collect::<Vec<_>>().join(" ");
            self.0.push(entry.about(rendered.title.clone(), text));
        }
    }

    /// What has all the words, the best first.
    pub(crate) fn find(&self, text: &str) -> Vec<SearchResult<'_>> {
        let words = query::words(text);
        if words.is_empty() {
            return Vec::new();
        }
        let scored = self.0.iter().filter_map(|entry| Some((entry.score(&words)?, entry)));
        let mut scored: Vec<_> = scored.collect();
        scored.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
        let best = scored.into_iter().take(RESULTS_MAX);
        best.map(|(_, entry)| SearchResult { entry, excerpt: entry.excerpt(&words) }).collect()
    }

    /// The three entries whose titles are most like the text.
    pub(crate) fn closest(&self, text: &str) -> Vec<&SearchEntry> {
        let titles = self.0.iter().map(|entry| entry.lower_title.as_str());
        let places = closest::places(&text.to_lowercase(), titles);
        places.into_iter().filter_map(|place| self.0.get(place)).collect()
    }
}

/// Guides, errors and the API before what only operators and the curious read.
fn weight(address: &str) -> u32 {
    const SELDOM: [&str; 4] = ["guarantees", "changes", "performance", "simulators"];
    let page = address.strip_prefix("/docs/").unwrap_or_default();
    if SELDOM.iter().any(|seldom| page.starts_with(seldom)) {
        return 0;
    }
    let group = NAVIGATION
        .iter()
        .find(|group| group.links.iter().any(|link| address.split('#').next() == Some(link.path)));
    match group.map(|group| group.id) {
        Some("nav-guides" | "nav-start") => 12,
        Some("nav-own") => 3,
        _ => 8,
    }
}

impl SearchEntry {
    fn new(kind: EntryKind, title: String, address: String) -> Self {
        let (context, text, lower_text) = (String::new(), String::new(), String::new());
        let lower_title = title.to_lowercase();
        let weight = weight(&address);
        Self { kind, title, context, address, weight, lower_title, text, lower_text }
    }

    fn about(self, context: String, text: String) -> Self {
        // Bytes keep their places, so that a place in one text is one in the other.
        let lower_text = text.to_ascii_lowercase();
        Self { context, text, lower_text, ..self }
    }

    /// How well it fits; none if a word is missing.
    fn score(&self, words: &[String]) -> Option<u32> {
        let context = self.context.to_lowercase();
        let whole = words.join(" ");
        let mut score = if self.lower_title == whole || self.lower_title == whole.replace(' ', "_")
        {
            200
        } else {
            0
        };
        for word in words {
            let starts = |text: &str| {
                let mut parts = text.split(|letter: char| !letter.is_alphanumeric());
                parts.any(|part| part.starts_with(word.as_str()))
            };
            let count = self.lower_text.matches(word.as_str()).take(5).count();
            let here = if starts(&self.lower_title) {
                40
            } else if self.lower_title.contains(word.as_str()) {
                20
            } else if starts(&context) {
                6
            } else {
                0
            };
            let here = here + u32::try_from(count).unwrap_or_default();
            if here == 0 {
                return None;
            }
            score += here;
        }
        Some(score + self.weight)
    }

    /// The text around the first word that is in it; its beginning if none is.
    fn excerpt(&self, words: &[String]) -> SearchExcerpt {
        let hit =
            words.iter().find_map(|word| Some((self.lower_text.find(word.as_str())?, word.len())));
        let (start, length) = hit.unwrap_or((0, 0));
        let from = self.word_start(start.saturating_sub(BEFORE));
        let to = self.word_end((start + length + AFTER).min(self.text.len()), start + length);
        let part = |range: Range<usize>| self.text.get(range).unwrap_or_default().to_owned();
        let dots = |there: bool| if there { "…" } else { "" };
        SearchExcerpt {
            before: format!("{}{}", dots(from > 0), part(from.min(start)..start)),
            hit: part(start..start + length),
            after: format!("{}{}", part(start + length..to), dots(to < self.text.len())),
        }
    }

    /// The next place that a letter begins at.
    fn boundary(&self, mut place: usize) -> usize {
        while !self.text.is_char_boundary(place) {
            place += 1;
        }
        place
    }

    /// The last place that a word ends at, from one place to another.
    fn word_end(&self, place: usize, least: usize) -> usize {
        let place = self.boundary(place);
        if place == self.text.len() {
            return place;
        }
        let before = self.text.get(least..place).unwrap_or_default();
        before.rfind(' ').map_or(place, |space| least + space)
    }

    /// The next place that a word begins at.
    fn word_start(&self, place: usize) -> usize {
        let place = self.boundary(place);
        if place == 0 {
            return 0;
        }
        let rest = self.text.get(place..).unwrap_or_default();
        rest.find(' ').map_or(place, |space| place + space + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(title: &str, text: &str) -> SearchEntry {
        let entry =
            SearchEntry::new(EntryKind::Document, title.to_owned(), format!("/docs/{title}"));
        entry.about("Guide".to_owned(), text.to_owned())
    }

    #[test]
    fn titles_count_more_than_texts_and_every_word_must_be_there() {
        let index = SearchIndex(vec![
            entry("Paging", "Lists have a cursor, and keys."),
            entry("missing_key", "Send a key."),
            entry("Keys", "A key that is missing is refused."),
        ]);
        let titles = |text: &str| -> Vec<String> {
            index.find(text).iter().map(|found| found.entry.title.clone()).collect()
        };

        assert_eq!(titles("missing key"), ["missing_key", "Keys"]);
        assert_eq!(titles("CURSOR"), ["Paging"]);
        assert_eq!(titles("cursor missing"), [""; 0]);
        assert_eq!(titles("  "), [""; 0]);
    }

    #[test]
    fn an_excerpt_shows_the_word_with_what_is_around_it() {
        let text = format!("{} žluť key {}", "before ".repeat(30), "after ".repeat(60));
        let found = entry("x", &text).excerpt(&["key".to_owned()]);

        assert_eq!(found.hit, "key");
        assert!(found.before.starts_with("…before"), "{found:?}");
        assert!(found.before.ends_with("žluť "), "{found:?}");
        assert!(found.after.ends_with('…'), "{found:?}");
    }

    #[test]
    fn results_end_after_thirty_and_the_better_known_come_first() {
        let mut all: Vec<SearchEntry> =
            (0..40).map(|at| entry(&format!("x{at}"), "a key")).collect();
        let seldom =
            SearchEntry::new(EntryKind::Document, "Key".to_owned(), "/docs/changes".to_owned());
        let guide =
            SearchEntry::new(EntryKind::Document, "Key".to_owned(), "/docs/paging#key".to_owned());
        all.extend([
            seldom.about("Changes".to_owned(), String::new()),
            guide.about("Paging".to_owned(), String::new()),
        ]);
        let index = SearchIndex(all);

        let found = index.find("key");

        assert_eq!(found.len(), RESULTS_MAX);
        assert_eq!(
            [&found[0], &found[1]].map(|one| one.entry.address.as_str()),
            ["/docs/paging#key", "/docs/changes"]
        );
    }

    #[test]
    fn a_code_is_found_by_its_words() {
        let index = SearchIndex(vec![entry("Key limits", "missing key"), entry("missing_key", "")]);

        assert_eq!(index.find("Missing Key")[0].entry.title, "missing_key");
        assert_eq!(index.find("missing_key")[0].entry.title, "missing_key");
    }

    /// Whatever is looked for in whatever text: an excerpt is a part of it, around the first hit.
    #[test]
    fn an_excerpt_is_always_a_part_of_the_text() {
        let texts = [
            String::new(),
            "key".to_owned(),
            "é".repeat(300),
            format!("{}key{}", "é".repeat(100), "ü".repeat(200)),
            format!("{} KEY {}", "😀 ".repeat(60), "😀".repeat(90)),
            format!("key {}", "a ".repeat(100)),
            format!("{}key", "a ".repeat(100)),
            "a b\u{a0}key\u{2003}c".to_owned(),
        ];
        for text in &texts {
            for word in ["key", "é", "ü", "😀", "a", "nothing of it"] {
                let found = entry("x", text).excerpt(&[word.to_owned()]);

                let plain = |part: &str| part.trim_matches('…').to_owned();
                let whole = [plain(&found.before), found.hit.clone(), plain(&found.after)].concat();
                assert!(text.contains(&whole), "{word} in {text:?}: {found:?}");
                let is_there = text.to_ascii_lowercase().contains(word);
                assert_eq!(found.hit.to_ascii_lowercase(), if is_there { word } else { "" });
                assert!(
                    found.before.len() <= BEFORE + 8 && found.after.len() <= AFTER + 8,
                    "{found:?}"
                );
            }
        }
    }

    #[test]
    fn what_is_misspelt_leads_to_what_is_alike() {
        let index = SearchIndex(vec![
            entry("insufficient_credits", ""),
            entry("Webhooks of the processor", ""),
            entry("Paging", ""),
            entry("Exports", ""),
        ]);

        assert!(index.find("insuffizient_credts").is_empty());
        assert_eq!(index.closest("insuffizient_credts")[0].title, "insufficient_credits");
        assert_eq!(index.closest("webhuk")[0].title, "Webhooks of the processor");
        assert_eq!(index.closest("zzz").len(), 3);
    }
}
