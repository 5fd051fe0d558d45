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
