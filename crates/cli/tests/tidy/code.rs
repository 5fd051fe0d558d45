//! Rules for the code.

use crate::assert_tidy;
use crate::tree::{self, File};

const LINES_MAX: usize = 500;

/// A word that belongs to one place: (word, where it may stand besides unit tests, why).
const PLACES: [(&str, &[&str], &str); 5] = [
    (
        "sqlx::",
        &["crates/store/"],
        "only `store` speaks SQL: give it a function with a business name",
    ),
    (
        "hyper_util::client",
        &["crates/clients/", "/tests/", "/tests.rs"],
        "only `clients` opens connections: give it a function",
    ),
    (
        "TcpStream::connect",
        // A staff command speaks to the server that holds the database, on this machine.
        // The simulated processor sends its events to whom it is told to.
        &[
            "crates/clients/",
            "crates/cli/src/commands/request.rs",
            "crates/simulators/processor/src/delivery.rs",
            "/tests/",
            "/tests.rs",
        ],
        "only `clients` opens connections: give it a function",
    ),
    (
        "include_str!(\"../migrations/",
        &["crates/store/src/migrations.rs"],
        "migrations are listed in one place",
    ),
    ("#[ignore", &[], "a test that does not run guards nothing: make it run or remove it"),
];

#[test]
fn no_file_is_too_long() {
    let mut findings = Vec::new();
    for file in tree::source_files().into_iter().filter(|file| !file.is_test()) {
        let lines = file.source_lines();
        if lines > LINES_MAX {
            let problem = format!("{lines} lines before its tests, {LINES_MAX} at most: split it");
            findings.push(file.finding(LINES_MAX, &problem));
        }
    }
    assert_tidy(&findings);
}

#[test]
fn every_file_says_what_it_is_for() {
    let mut findings = Vec::new();
    for file in tree::rust_files() {
        if !file.text.starts_with("//! ") {
            findings
                .push(file.finding(1, "open it with `//!`: what it is for, what it must not do"));
        }
    }
    assert_tidy(&findings);
}

/// The services that know no HTTP.
const WITHOUT_HTTP: [&str; 6] = ["accounts", "billing", "emails", "exports", "failures", "jobs"];

#[test]
fn services_below_the_edge_know_no_status_codes() {
    let mut findings = Vec::new();
    for file in tree::source_files() {
        let of = |name: &&str| file.path.starts_with(&format!("crates/{name}/"));
        // A read of a platform by an export looks at the status of the platform's response, which is data here.
        if WITHOUT_HTTP.iter().any(of) && !file.path.starts_with("crates/exports/src/pages/") {
            let problem = "return a failure; which status it has is said in `web`";
            let words = ["StatusCode", "axum"];
            let lines = lines_with(&file, &words).filter(|line| *line <= file.source_lines());
            findings.extend(lines.map(|line| file.finding(line, problem)));
        }
    }
    assert_tidy(&findings);
}

#[test]
fn what_belongs_to_one_place_stays_there() {
    let mut findings = Vec::new();
    for file in tree::rust_files() {
        for (word, places, reason) in PLACES {
            if !places.iter().any(|place| file.path.contains(place)) {
                let words = [word];
                let lines = lines_with(&file, &words).filter(|line| *line <= file.source_lines());
                findings.extend(lines.map(|line| file.finding(line, reason)));
            }
        }
    }
    assert_tidy(&findings);
}

#[test]
fn nothing_is_left_for_later() {
    let marks =
        [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("to", "do!("), "unimplemented!("];
    let mut findings = Vec::new();
    for file in tree::rust_files() {
        let problem = "finish it, or write the limit into docs/decisions.md";
        findings.extend(lines_with(&file, &marks).map(|line| file.finding(line, problem)));
    }
    assert_tidy(&findings);
}

#[test]
fn lints_are_silenced_with_a_reason_only() {
    let mut findings = Vec::new();
    for file in tree::rust_files() {
        let problem = "use #[expect(lint, reason = \"…\")]: it tells when it is no longer needed";
        let marks = ["#[allow(", "#![allow("];
        findings.extend(lines_with(&file, &marks).map(|line| file.finding(line, problem)));
    }
    assert_tidy(&findings);
}

#[test]
fn every_migration_is_built_in_and_numbered() {
    let folder = "crates/store/migrations/";
    let migrations = tree::files(&tree::root().join(folder), &["sql"]);
    let files = tree::source_files();
    let list = files.iter().find(|file| file.path == "crates/store/src/migrations.rs").unwrap();

    let mut findings = Vec::new();
    let mut number_before = 0;
    for migration in &migrations {
        let name = migration.path.strip_prefix(folder).unwrap();
        if !list.text.contains(&format!("\"../migrations/{name}\"")) {
            findings.push(migration.finding(1, "name it in crates/store/src/migrations.rs"));
        }
        let number = name.split('_').next().and_then(|number| number.parse::<u32>().ok());
        match number {
            // The same number twice: one file for each database.
            Some(number) if number == number_before || number == number_before + 1 => {
                number_before = number;
            }
            _ => findings.push(migration.finding(1, "numbers start at 0001 and leave no gap")),
        }
        if !migration.text.starts_with("-- ") {
            findings.push(migration.finding(1, "open it with a comment: what its tables are for"));
        }
    }
    assert!(!migrations.is_empty(), "{folder} holds no migration");
    assert_tidy(&findings);
}

/// The numbers of the lines that hold one of the words.
fn lines_with<'a>(file: &'a File, words: &'a [&'a str]) -> impl Iterator<Item = usize> + 'a {
    let with = |line: &str| words.iter().any(|word| line.contains(word));
    file.lines().filter(move |(_, line)| with(line)).map(|(number, _)| number)
}
