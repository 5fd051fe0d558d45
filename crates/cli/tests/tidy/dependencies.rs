//! Rules for the dependencies of crates. cargo-deny checks what `deny.toml` says about external
//! crates.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::assert_tidy;
use crate::tree::{self, File, Package};

/// The crates of this repository that each of them may use.
const OURS: [(&str, &[&str]); 36] = [
    ("domain", &[]),
    ("catalog", &["domain"]),
    ("store", &["domain"]),
    ("outbound", &[]),
    ("platform_client", &["domain", "outbound"]),
    ("processor_client", &["domain", "outbound"]),
    ("storage", &["domain"]),
    ("mail", &["domain"]),
    ("scripted_peer", &[]),
    ("tabular", &[]),
    ("transport", &[]),
    ("runtime", &["domain", "store"]),
    (
        "settings",
        &[
            "domain",
            "catalog",
            "store",
            "platform_client",
            "processor_client",
            "storage",
            "mail",
            "tabular",
            "transport",
            "runtime",
        ],
    ),
    (
        "failures",
        &[
            "domain",
            "catalog",
            "store",
            "platform_client",
            "processor_client",
            "storage",
            "runtime",
        ],
    ),
    ("jobs", &["domain", "store", "runtime", "failures"]),
    ("emails", &["domain", "store", "mail", "runtime", "settings", "failures", "jobs"]),
    (
        "billing",
        &[
            "domain",
            "store",
            "processor_client",
            "runtime",
            "settings",
            "failures",
            "jobs",
            "emails",
        ],
    ),
    (
        "operators",
        &[
            "domain",
            "store",
            "processor_client",
            "tabular",
            "runtime",
            "settings",
            "failures",
            "jobs",
            "billing",
        ],
    ),
    ("web", &["domain", "catalog", "store", "transport", "runtime", "settings", "failures"]),
    ("accounts", &["domain", "catalog", "store", "platform_client", "runtime", "failures"]),
    (
        "gateway",
        &[
            "domain",
            "catalog",
            "store",
            "platform_client",
            "transport",
            "runtime",
            "settings",
            "failures",
            "web",
            "accounts",
        ],
    ),
    (
        "exports",
        &[
            "domain", "catalog", "store", "storage", "tabular", "runtime", "settings", "failures",
            "accounts", "gateway",
        ],
    ),
    (
        "identity",
        &[
            "domain",
            "store",
            "transport",
            "runtime",
            "settings",
            "failures",
            "jobs",
            "emails",
            "web",
        ],
    ),
    (
        "api",
        &[
            "domain", "catalog", "store", "runtime", "settings", "failures", "jobs", "emails",
            "web", "identity", "accounts", "billing", "exports",
        ],
    ),
    ("pages", &["settings"]),
    (
        "console_kit",
        &[
            "domain", "store", "runtime", "settings", "failures", "web", "identity", "billing",
            "emails", "pages",
        ],
    ),
    ("console", &["domain", "store", "failures", "web", "identity", "pages", "console_kit"]),
    (
        "billing_pages",
        &[
            "domain",
            "store",
            "settings",
            "failures",
            "web",
            "billing",
            "emails",
            "pages",
            "console_kit",
        ],
    ),
    ("reference", &["domain", "catalog", "settings", "failures", "web", "pages"]),
    (
        "node",
        &[
            "domain",
            "catalog",
            "store",
            "platform_client",
            "processor_client",
            "storage",
            "mail",
            "transport",
            "runtime",
            "settings",
            "failures",
            "jobs",
            "emails",
            "billing",
            "operators",
            "web",
            "accounts",
            "gateway",
            "exports",
            "identity",
            "api",
            "pages",
            "console_kit",
            "console",
            "billing_pages",
            "reference",
        ],
    ),
    ("simulator_kit", &[]),
    ("simulator_platforms", &["simulator_kit"]),
    ("simulator_processor", &["simulator_kit"]),
    ("simulators", &["simulator_kit", "simulator_platforms", "simulator_processor"]),
    ("test_service", &["domain", "catalog", "store", "runtime", "settings", "node", "simulators"]),
    (
        "cli",
        &[
            "domain",
            "catalog",
            "store",
            "processor_client",
            "runtime",
            "settings",
            "billing",
            "exports",
            "identity",
            "operators",
            "node",
            "simulators",
        ],
    ),
];

/// The dependencies of the pure crates: no waiting, no I/O, no clock and no randomness.
const PURE: [(&str, &[&str]); 2] = [
    ("domain", &["jiff", "serde", "sha2", "thiserror", "uuid", "zeroize"]),
    (
        "catalog",
        &["domain", "foldhash", "serde", "serde-saphyr", "serde_json", "thiserror", "toml"],
    ),
];

/// Other crates that a crate must not use, and why.
const FORBIDDEN: [(&str, &[&str], &str); 3] = [
    (
        "simulator_platforms",
        &["tokio", "tokio-util", "hyper", "hyper-util"],
        "a simulated platform computes its responses: it neither waits nor opens sockets",
    ),
    (
        "platform_client",
        &["h2", "hyper", "hyper-rustls", "hyper-util", "rustls", "webpki-roots"],
        "connections are those of `outbound`",
    ),
    (
        "processor_client",
        &["h2", "hyper", "hyper-rustls", "hyper-util", "rustls", "webpki-roots"],
        "connections are those of `outbound`",
    ),
];

/// A line of a manifest.
struct Dependency {
    package: String,
    /// The folder of the package, from the root of the repository.
    folder: String,
    name: String,
    for_tests: bool,
}

impl Dependency {
    fn finding(&self, problem: &str) -> String {
        format!("{}/Cargo.toml: {}: {problem}", self.folder, self.name)
    }
}

#[test]
fn our_crates_use_each_other_in_one_direction() {
    let crates = tree::crates();
    let mut findings = Vec::new();
    for Package { name, folder } in &crates {
        if !OURS.iter().any(|(package, _)| package == name) {
            findings.push(format!(
                "{folder}: list here and in ARCHITECTURE.md which crates it may use"
            ));
        }
    }
    for dependency in dependencies().iter().filter(|dependency| !dependency.for_tests) {
        let allowed = OURS.iter().find(|(package, _)| *package == dependency.package);
        let allowed = allowed.map_or(&[] as &[&str], |(_, allowed)| allowed);
        let is_ours = crates.iter().any(|package| package.name == dependency.name);
        if is_ours && !allowed.contains(&dependency.name.as_str()) {
            findings.push(dependency.finding("this direction is not allowed; see ARCHITECTURE.md"));
        }
    }
    assert_tidy(&findings);
}

#[test]
fn pure_crates_stay_pure() {
    let mut findings = Vec::new();
    for dependency in dependencies().iter().filter(|dependency| !dependency.for_tests) {
        for (_, allowed) in PURE.iter().filter(|(package, _)| *package == dependency.package) {
            if !allowed.contains(&dependency.name.as_str()) {
                findings.push(dependency.finding("this crate is pure; do this in another one"));
            }
        }
    }
    assert_tidy(&findings);
}

#[test]
fn forbidden_dependencies_are_not_used() {
    let mut findings = Vec::new();
    for dependency in dependencies().iter().filter(|dependency| !dependency.for_tests) {
        for (package, names, reason) in FORBIDDEN {
            if package == dependency.package && names.contains(&dependency.name.as_str()) {
                findings.push(dependency.finding(reason));
            }
        }
    }
    assert_tidy(&findings);
}

#[test]
fn every_dependency_is_used() {
    let files = tree::rust_files();
    let mut findings = Vec::new();
    for dependency in dependencies() {
        let own = |file: &&File| tree::crate_folder(&file.path) == Some(&dependency.folder);
        let ident = dependency.name.replace('-', "_");
        let mut own = files.iter().filter(own);
        // These rules are a test of this crate, and not among the files that they read.
        let is_this =
            dependency.package == "cli" && ["serde_json", "syn"].contains(&ident.as_str());
        if dependency.name != dependency.package
            && !is_this
            && !own.any(|file| uses(&file.text, &ident))
        {
            findings.push(dependency.finding("it is not used in this crate: remove it"));
        }
    }
    assert_tidy(&findings);
}

#[test]
fn every_shared_version_is_used() {
    let manifest = std::fs::read_to_string(tree::root().join("Cargo.toml")).unwrap();
    let shared = manifest.lines().skip_while(|line| *line != "[workspace.dependencies]").skip(1);
    let shared = shared.take_while(|line| !line.starts_with('['));
    let names: Vec<&str> = shared.filter_map(|line| Some(line.split_once(" = ")?.0)).collect();
    assert!(names.contains(&"domain"), "the list of shared versions is missing");
    let crates = tree::crates();
    let used: Vec<String> = dependencies().into_iter().map(|dependency| dependency.name).collect();
    let ours = crates.iter().map(|package| &package.name);
    let used: Vec<&String> = used.iter().chain(ours).collect();
    let unused = names.iter().filter(|name| used.iter().all(|other| other != *name));
    let findings: Vec<String> =
        unused.map(|name| format!("Cargo.toml: {name}: no crate uses it: remove it")).collect();
    assert_tidy(&findings);
}

/// Whether the text names the crate: `name::…`, `use name`, or `name!`.
fn uses(text: &str, ident: &str) -> bool {
    text.match_indices(ident).any(|(start, _)| {
        let before = text[..start].chars().next_back();
        let after = &text[start + ident.len()..];
        let begins = before.is_none_or(|letter| !letter.is_alphanumeric() && letter != '_');
        begins && (after.starts_with("::") || after.starts_with(';') || after.starts_with(" as "))
    })
}

/// Every dependency of our crates, as their manifests list them.
fn dependencies() -> Vec<Dependency> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(tree::root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    packages.iter().flat_map(dependencies_of).collect()
}

fn dependencies_of(package: &Value) -> Vec<Dependency> {
    let dependencies = package["dependencies"].as_array().unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let manifest = text(&package["manifest_path"]);
    let folder = tree::relative(Path::new(&manifest).parent().unwrap());
    let dependency = |value: &Value| Dependency {
        package: text(&package["name"]),
        folder: folder.clone(),
        name: text(&value["name"]),
        for_tests: value["kind"] == "dev",
    };
    dependencies.iter().map(dependency).collect()
}
