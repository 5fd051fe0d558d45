//! Rules for the code.

use crate::assert_tidy;
use crate::tree::{self, File};

const LINES_MAX: usize = 500;

/// A word that is limited to some files: (word, where it may occur besides unit tests, why).
const PLACES: [(&str, &[&str], &str); 4] = [
    (
        "sqlx::",
        &["crates/store/"],
        "only `store` speaks SQL: give it a function with a business name",
    ),
    (
        "hyper_util::client",
        &["crates/outbound/", "crates/test_service/", "/tests/", "/tests.rs"],
        "only `outbound` opens connections: give it a function",
    ),
    (
        "TcpStream::connect",
        // A staff command sends a request to the service that has the database open, on this
        // machine. The simulated processor sends its events to the configured webhook.
        &[
            "crates/outbound/",
            "crates/cli/src/commands/request.rs",
            "crates/simulators/processor/src/delivery.rs",
            "crates/test_service/",
            "/tests/",
            "/tests.rs",
        ],
        "only `outbound` opens connections: give it a function",
    ),
    (
        "include_str!(\"../migrations/",
        &["crates/store/src/migrations.rs"],
        "migrations are listed in one file",
    ),
];

#[test]
fn no_file_is_too_long() {
    let mut findings = Vec::new();
    for file in tree::source_files().into_iter().filter(|file| !file.is_test()) {
        let lines = file.source_lines();
        if lines > LINES_MAX {
            let problem = format!(
                "{lines} lines before its tests, at most {LINES_MAX} are allowed: split it"
            );
            findings.push(file.finding(LINES_MAX, &problem));
        }
    }
    assert_tidy(&findings);
}

#[test]
fn every_file_states_its_purpose() {
    let mut findings = Vec::new();
    for file in tree::rust_files() {
        if !file.text.starts_with("//! ") {
            findings
                .push(file.finding(1, "start it with `//!`: its purpose, and what it must not do"));
        }
    }
    assert_tidy(&findings);
}

/// The services that must not know HTTP.
const WITHOUT_HTTP: [&str; 6] = ["accounts", "billing", "emails", "exports", "failures", "jobs"];

#[test]
fn services_below_the_edge_know_no_status_codes() {
    let mut findings = Vec::new();
    for file in tree::source_files() {
        let of = |name: &&str| file.path.starts_with(&format!("crates/{name}/"));
        // An export checks the status of a platform's response, which is data here.
        if WITHOUT_HTTP.iter().any(of) && !file.path.starts_with("crates/exports/src/pages/") {
            let problem = "return a failure; `web` maps it to a status";
            let words = ["StatusCode", "axum"];
            let lines = lines_with(&file, &words).filter(|line| *line <= file.source_lines());
            findings.extend(lines.map(|line| file.finding(line, problem)));
        }
    }
    assert_tidy(&findings);
}

#[test]
fn limited_words_stay_in_their_files() {
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
fn a_test_is_ignored_only_if_it_needs_postgresql() {
    const REASON: &str = " = \"needs PostgreSQL\"]";
    let mut findings = Vec::new();
    for file in tree::rust_files() {
        for (number, line) in file.lines() {
            let after = line.split_once(concat!("#[", "ignore")).map(|(_, after)| after);
            if after.is_some_and(|after| after != REASON) {
                let problem = "an ignored test protects nothing: make it run or remove it";
                findings.push(file.finding(number, problem));
            }
        }
    }
    assert_tidy(&findings);
}

/// `cargo test` is content with a filter that matches nothing, for example after a test has moved.
#[test]
fn no_script_runs_tests_that_may_not_exist() {
    let mut findings = Vec::new();
    for file in tree::scripts() {
        for (number, line) in file.lines().filter(|(_, line)| !line.trim_start().starts_with('#')) {
            if line.contains("cargo test ") && !line.contains(" --doc ") {
                findings.push(file.finding(number, "use `cargo nextest run --no-tests=fail`"));
            }
            let runs = line.contains("cargo nextest run ") && !line.contains(" --no-run");
            if runs && !line.contains(" --no-tests=fail") {
                findings.push(file.finding(number, "add `--no-tests=fail`"));
            }
        }
    }
    assert_tidy(&findings);
}

#[test]
fn nothing_is_left_unfinished() {
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
fn lints_are_silenced_only_with_a_reason() {
    let mut findings = Vec::new();
    for file in tree::rust_files() {
        let problem =
            "use #[expect(lint, reason = \"…\")]: the compiler reports when it is no longer needed";
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
            _ => findings.push(migration.finding(1, "numbers must start at 0001 without gaps")),
        }
        if !migration.text.starts_with("-- ") {
            findings
                .push(migration.finding(1, "start it with a comment: the purpose of its tables"));
        }
    }
    assert!(!migrations.is_empty(), "{folder} contains no migration");
    assert_tidy(&findings);
}

/// The numbers of the lines that contain one of the words.
fn lines_with<'a>(file: &'a File, words: &'a [&'a str]) -> impl Iterator<Item = usize> + 'a {
    let with = |line: &str| words.iter().any(|word| line.contains(word));
    file.lines().filter(move |(_, line)| with(line)).map(|(number, _)| number)
}
