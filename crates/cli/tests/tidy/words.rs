//! Rules for names and comments.

use std::collections::BTreeSet;

use crate::assert_tidy;
use crate::tree::{self, File};

/// The widest comment, in columns.
const COLUMNS_MAX: usize = 100;

#[test]
fn comments_are_at_most_a_hundred_columns_wide() {
    let mut findings = Vec::new();
    for file in tree::rust_files() {
        for (line, text) in comments(&file) {
            let columns = text.chars().count();
            if columns > COLUMNS_MAX && !text.contains("://") {
                findings.push(file.finding(line, &format!("{columns} columns: wrap the comment")));
            }
        }
    }
    assert_tidy(&findings);
}

#[test]
fn comments_name_only_files_that_exist() {
    let files: Vec<String> = tree::rust_files().into_iter().map(|file| file.path).collect();
    let mut findings = Vec::new();
    for file in tree::source_files() {
        for (line, text) in comments(&file) {
            for named in text.split('`').skip(1).step_by(2).filter(|word| is_file_name(word)) {
                let end = format!("/{named}");
                if !files.iter().any(|path| path.ends_with(&end) || path == named) {
                    findings.push(file.finding(line, &format!("there is no file `{named}`")));
                }
            }
        }
    }
    assert_tidy(&findings);
}

/// A name of one word says nothing without a definition.
#[test]
fn public_types_of_one_word_are_in_the_glossary() {
    let terms = glossary();
    let mut findings = Vec::new();
    for file in tree::source_files() {
        for (line, text) in file.lines() {
            let Some(name) = public_type(text) else { continue };
            let is_one_word =
                !name.is_empty() && name.chars().skip(1).all(|letter| !letter.is_uppercase());
            if is_one_word && !terms.contains(&name.to_lowercase()) {
                let problem =
                    format!("`{name}` is one word: add another, or define it in docs/glossary.md");
                findings.push(file.finding(line, &problem));
            }
        }
    }
    assert_tidy(&findings);
}

/// Words that were used for a thing that has a name, and the name (docs/glossary.md).
const NAMES: &[(&str, &str)] =
    &[("auto top-up", "automatic top-up"), ("payment provider", "payment processor")];
/// Spellings, in prose alone: wire values and the payment processor's own words stay.
const SPELLINGS: &[(&str, &str)] = &[("canceled", "cancelled"), ("canceling", "cancelling")];

#[test]
fn a_thing_has_one_name_and_a_word_one_spelling() {
    let mut findings = Vec::new();
    for file in tree::source_files() {
        for (line, text) in file.lines() {
            findings.extend(other_words(&file, line, text, NAMES));
        }
        for (line, text) in comments(&file) {
            findings.extend(other_words(&file, line, &prose(text), SPELLINGS));
        }
    }
    let templates = tree::files(&tree::root().join("crates"), &["html", "txt"]);
    let templates = templates.into_iter().filter(|file| file.path.contains("/templates/"));
    for file in tree::documents().into_iter().chain(templates) {
        for (line, text) in file.lines() {
            findings.extend(other_words(&file, line, text, NAMES));
            findings.extend(other_words(&file, line, &prose(text), SPELLINGS));
        }
    }
    assert_tidy(&findings);
}

/// What stands on the line in place of a name or spelling.
fn other_words(file: &File, line: usize, text: &str, words: &[(&str, &str)]) -> Vec<String> {
    let text = text.to_lowercase();
    let found = words.iter().filter(|(other, _)| text.contains(other));
    found.map(|(other, name)| file.finding(line, &format!("write {name}, not {other}"))).collect()
}

/// The line without what stands between backticks or quotes: values.
fn prose(text: &str) -> String {
    text.split(['`', '"']).step_by(2).collect::<Vec<_>>().join(" ")
}

fn comments(file: &File) -> impl Iterator<Item = (usize, &str)> {
    file.lines().filter(|(_, text)| text.trim_start().starts_with("//"))
}

fn is_file_name(word: &str) -> bool {
    let is_plain = |letter: char| letter.is_alphanumeric() || "_/.".contains(letter);
    word.len() > 3
        && tree::has_extension(std::path::Path::new(word), &["rs"])
        && word.chars().all(is_plain)
}

/// The name of the public type that is declared on a line.
fn public_type(line: &str) -> Option<&str> {
    let declared = line.trim_start().strip_prefix("pub ")?;
    let kinds = ["struct ", "enum ", "trait ", "type "];
    let name = kinds.iter().find_map(|kind| declared.strip_prefix(kind))?;
    name.split(|letter: char| !letter.is_alphanumeric()).next()
}

/// The terms of the glossary, in lower case.
fn glossary() -> BTreeSet<String> {
    let mut documents = tree::documents().into_iter();
    let glossary = documents.find(|document| document.path == "docs/glossary.md").unwrap();
    let terms = glossary.text.lines().filter_map(|line| line.strip_prefix("| **"));
    let terms = terms.filter_map(|line| line.split("**").next());
    terms.flat_map(|terms| terms.split(", ")).map(str::to_lowercase).collect()
}
