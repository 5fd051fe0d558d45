//! Rules for the files that operators monitor with: they name metrics that exist, and every metric
//! that asks for an alert has one.

use std::collections::BTreeSet;

use crate::assert_tidy;
use crate::tree::{self, File};

const DECLARED: &str = "crates/runtime/src/metrics/declared.rs";
const PREFIX: &str = "creator_gateway_";
/// What Prometheus appends to the name of a histogram.
const PARTS_OF_HISTOGRAMS: [&str; 3] = ["_bucket", "_sum", "_count"];

#[test]
fn alert_rules_and_dashboard_name_only_metrics_that_exist() {
    let declared = declared();
    let exists = |name: &str| {
        let whole = PARTS_OF_HISTOGRAMS.iter().find_map(|part| name.strip_suffix(part));
        declared.contains(name) || whole.is_some_and(|stem| declared.contains(stem))
    };
    let mut findings = Vec::new();
    for file in monitoring_files() {
        for (line, text) in file.lines() {
            for name in metrics(text).into_iter().filter(|name| !exists(name)) {
                findings.push(file.finding(line, &format!("there is no metric {name}")));
            }
        }
    }
    assert_tidy(&findings);
}

/// Whether a metric asks for an alert is said in its help text and in the operators' document.
#[test]
fn every_metric_that_asks_for_an_alert_has_one() {
    let rules = monitoring_files().into_iter().find(|file| file.path.ends_with("/alerts.yml"));
    let alerted = metrics(&rules.unwrap().text);
    let operations = document("docs/operations.md");
    let mut findings = Vec::new();
    for (line, text) in operations.lines().filter(|(_, text)| asks_for_alert(text)) {
        for name in metrics(text).into_iter().filter(|name| !alerted.contains(name)) {
            findings.push(operations.finding(line, &format!("{name} has no rule in alerts.yml")));
        }
    }
    for constant in alerting_constants() {
        let name = name_of(&constant);
        if !alerted.contains(&name) {
            findings.push(format!("{DECLARED}: {name} has no rule in alerts.yml"));
        }
    }
    assert_tidy(&findings);
}

#[test]
fn every_metric_is_described_for_operators() {
    let described = metrics(&document("docs/operations.md").text);
    let missing = declared().into_iter().filter(|name| !described.contains(name));
    let finding = |name: String| format!("docs/operations.md: add {name} to the table of metrics");
    assert_tidy(&missing.map(finding).collect::<Vec<_>>());
}

fn asks_for_alert(text: &str) -> bool {
    ["raise an alarm", "Raise an alarm", "alert on", "if not 0", "should look into"]
        .iter()
        .any(|words| text.contains(words))
}

/// The constants whose help text asks for an alert: those of the statement that the text is in, or
/// of the one after it, where the text has a name.
fn alerting_constants() -> Vec<String> {
    let source = source();
    let statements: Vec<&str> = source.text.split(';').collect();
    let constant = |statement: &str| {
        let words = statement.split(|letter: char| !letter.is_ascii_uppercase() && letter != '_');
        words
            .filter(|word| word.len() > 3)
            .find(|word| *word == word.trim_matches('_'))
            .map(str::to_owned)
    };
    // The sentence may itself end with a semicolon before "alert".
    let mut found = Vec::new();
    for (index, statement) in statements.iter().enumerate().filter(|(_, text)| asks_for_alert(text))
    {
        let near = statements.get(index.saturating_sub(1)..statements.len().min(index + 3));
        let named = near.into_iter().flatten().find_map(|text| constant(text));
        found.push(named.unwrap_or_else(|| panic!("whose help text is this: {statement}")));
    }
    found
}

/// The names of all metrics.
fn declared() -> BTreeSet<String> {
    metrics(&source().text)
}

fn name_of(constant: &str) -> String {
    let start = format!("const {constant}: &str = \"");
    let source = source();
    let value = source.text.split_once(&start).and_then(|(_, rest)| rest.split('"').next());
    value.unwrap_or_else(|| panic!("{DECLARED}: there is no {constant}")).to_owned()
}

fn source() -> File {
    tree::source_files().into_iter().find(|file| file.path == DECLARED).unwrap()
}

fn document(path: &str) -> File {
    tree::documents().into_iter().find(|document| document.path == path).unwrap()
}

fn monitoring_files() -> Vec<File> {
    let files = tree::files(&tree::root().join("deploy/monitoring"), &["yml", "json"]);
    assert!(files.len() >= 3, "the rules, their tests and the dashboard");
    files
}

/// The names of metrics in a text.
fn metrics(text: &str) -> BTreeSet<String> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    words.filter(|word| word.starts_with(PREFIX)).map(str::to_owned).collect()
}
