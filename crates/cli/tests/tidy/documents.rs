//! Rules for the documents: the map is complete, and the paths and links that they name exist.

use std::collections::BTreeSet;
use std::path::Path;

use crate::assert_tidy;
use crate::tree::{self, File, has_extension};

/// The prefixes of paths that a document may name in backticks.
const PLACES: [&str; 6] = ["crates/", "docs/", "scripts/", "config/", "deploy/", "benches/"];

#[test]
fn the_map_names_every_crate_and_every_folder() {
    let map = map();
    let mut findings = Vec::new();
    for tree::Package { folder: package, .. } in tree::crates() {
        let sources = tree::folders(&tree::root().join(&package).join("src"));
        for folder in [package].into_iter().chain(sources) {
            if !map.text.contains(&format!("`{folder}/`")) {
                findings.push(
                    map.finding(1, &format!("add `{folder}/` to the map, with what it is for")),
                );
            }
        }
    }
    assert_tidy(&findings);
}

/// What is stored, for how long, and what becomes of it when its customer is erased.
#[test]
fn every_table_is_described_with_what_an_erasure_leaves_of_it() {
    const ERASING: &str = "### Erasing a customer";
    let data = document("docs/data.md");
    let (described, erasing) = data.text.split_once(ERASING).unwrap();
    let mut findings = Vec::new();
    for table in tables() {
        if !described.contains(&format!("\n| `{table}` |")) {
            findings.push(data.finding(1, &format!("add a row for the table `{table}`")));
        }
        if !erasing.contains(&format!("`{table}`")) {
            findings.push(data.finding(1, &format!("name `{table}` under `{ERASING}`")));
        }
    }
    assert_tidy(&findings);
}

/// The tables that the migrations leave.
fn tables() -> BTreeSet<String> {
    let word = |text: &str, after: &str| {
        let rest = text.trim().strip_prefix(after)?;
        Some(rest.split(|letter| " (;".contains(letter)).next()?.to_owned())
    };
    let mut tables = BTreeSet::new();
    for migration in tree::files(&tree::root().join("crates/store/migrations"), &["sql"]) {
        for (_, line) in migration.lines() {
            if let Some(table) = word(line, "create table ") {
                tables.insert(table);
            } else if let Some(table) = word(line, "drop table ") {
                tables.remove(&table);
            } else if let Some((old, new)) =
                line.strip_prefix("alter table ").and_then(|rest| rest.split_once(" rename to "))
            {
                tables.remove(old);
                tables.insert(new.trim_end_matches(';').to_owned());
            }
        }
    }
    tables
}

#[test]
fn the_map_has_at_most_three_hundred_lines() {
    let map = map();
    assert!(
        map.lines().count() <= 300,
        "ARCHITECTURE.md should be short enough to read in one sitting: at most 300 lines"
    );
}

#[test]
fn documents_name_only_what_exists() {
    let root = tree::root();
    let mut findings = Vec::new();
    for document in tree::documents() {
        for (line, text) in document.lines() {
            for path in paths(text).filter(|path| !root.join(path).exists()) {
                findings.push(document.finding(line, &format!("`{path}` does not exist")));
            }
        }
        findings.extend(broken_links(&document));
    }
    assert_tidy(&findings);
}

#[test]
fn code_names_only_documents_that_exist() {
    let documents: BTreeSet<String> = tree::documents().into_iter().map(|file| file.path).collect();
    let mut findings = Vec::new();
    for file in tree::rust_files().into_iter().filter(|file| !file.path.contains("/tests/")) {
        for (line, text) in file.lines().filter(|(_, text)| text.trim_start().starts_with("//")) {
            for word in
                text.split(|letter: char| letter.is_whitespace() || "`(),;:".contains(letter))
            {
                let named = word.trim_end_matches('.').split('#').next().unwrap_or_default();
                if has_extension(Path::new(named), &["md"]) && !documents.contains(named) {
                    findings.push(file.finding(line, &format!("there is no document {named}")));
                }
            }
        }
    }
    assert_tidy(&findings);
}

#[test]
fn nothing_names_a_path_on_a_contributors_machine() {
    // Split in halves, so that this file does not contain them.
    let places = [
        concat!("/ro", "ot/"),
        concat!("/ho", "me/"),
        concat!("/Us", "ers/"),
        concat!("/wo", "rk/"),
    ];
    let mut files = tree::rust_files();
    files.extend(tree::documents());
    for folder in ["scripts", "config", ".ci"] {
        files.extend(tree::files(&tree::root().join(folder), &["toml", "txt", "py", "md"]));
    }
    let mut findings = Vec::new();
    for file in files {
        for (line, text) in file.lines() {
            for place in places.iter().filter(|place| text.contains(*place)) {
                let problem = format!(
                    "{place} does not exist for other readers: name a path in the repository"
                );
                findings.push(file.finding(line, &problem));
            }
        }
    }
    assert_tidy(&findings);
}

fn map() -> File {
    document("ARCHITECTURE.md")
}

fn document(path: &str) -> File {
    tree::documents().into_iter().find(|document| document.path == path).unwrap()
}

/// The paths in backticks that start in the repository and contain no placeholder.
fn paths(line: &str) -> impl Iterator<Item = &str> {
    let quoted = line.split('`').skip(1).step_by(2);
    let first_words = quoted.filter_map(|text| text.split_whitespace().next());
    first_words.filter(|word| {
        PLACES.iter().any(|place| word.starts_with(place)) && !word.contains(['*', '<', '{', '…'])
    })
}

/// Links to files that do not exist.
fn broken_links(document: &File) -> Vec<String> {
    let folder = tree::root().join(&document.path);
    let folder = folder.parent().unwrap();
    let mut findings = Vec::new();
    for (line, text) in document.lines() {
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = target.split('#').next().unwrap_or_default();
            if !file.is_empty() && !file.contains("://") && !folder.join(file).exists() {
                findings.push(document.finding(line, &format!("the link to {target} is broken")));
            }
        }
    }
    findings
}
