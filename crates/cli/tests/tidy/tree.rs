//! The repository as the rules see it: its files, their text, their lines.

use std::fs;
use std::path::{Path, PathBuf};

/// A text file of the repository.
pub(crate) struct File {
    /// Its path from the root of the repository, with `/`.
    pub(crate) path: String,
    /// Its whole text.
    pub(crate) text: String,
}

impl File {
    /// Its lines with their numbers, from 1.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }

    /// A finding on one of its lines.
    pub(crate) fn finding(&self, line: usize, problem: &str) -> String {
        format!("{}:{line}: {problem}", self.path)
    }

    /// Whether it contains only tests.
    pub(crate) fn is_test(&self) -> bool {
        self.path.contains("/tests/")
            || self.path.ends_with("/tests.rs")
            || self.path.starts_with(SHARED_BY_TESTS)
    }

    /// The number of lines before its unit tests.
    pub(crate) fn source_lines(&self) -> usize {
        let source = self.text.find("#[cfg(test)]\nmod ").and_then(|end| self.text.get(..end));
        source.unwrap_or(&self.text).lines().count()
    }
}

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Every Rust file of every crate, including its tests but not these rules.
pub(crate) fn rust_files() -> Vec<File> {
    let files = files(&root().join("crates"), &["rs"]);
    files.into_iter().filter(|file| !file.path.starts_with("crates/cli/tests/tidy/")).collect()
}

/// What the tests of the service share. Its rules are those of tests.
const SHARED_BY_TESTS: &str = "crates/test_service/";

/// Every Rust file below a crate's `src`, apart from what tests share.
pub(crate) fn source_files() -> Vec<File> {
    let is_source = |file: &File| {
        crate_folder(&file.path)
            .is_some_and(|folder| file.path[folder.len()..].starts_with("/src/"))
            && !file.path.starts_with(SHARED_BY_TESTS)
    };
    rust_files().into_iter().filter(is_source).collect()
}

/// The folder of the crate that a file belongs to: the part before `src`, `tests` or `benches`.
pub(crate) fn crate_folder(path: &str) -> Option<&str> {
    let parts = ["/src/", "/tests/", "/benches/", "/build.rs"];
    parts.iter().filter_map(|part| path.find(part)).min().map(|end| &path[..end])
}

/// Every document: the Markdown files at the root and below `docs`.
pub(crate) fn documents() -> Vec<File> {
    let root = root();
    let at_root = entries(&root).into_iter().filter(|path| has_extension(path, &["md"]));
    let mut documents: Vec<File> = at_root.map(|path| read(&path)).collect();
    documents.extend(files(&root.join("docs"), &["md"]));
    documents
}

/// The scripts that run tests, and the recipes of daily commands.
pub(crate) fn scripts() -> Vec<File> {
    let root = root();
    let mut paths = entries(&root.join("scripts"));
    paths.retain(|path| path.is_file() && !has_extension(path, &["txt", "c"]));
    paths.push(root.join("justfile"));
    paths.iter().map(|path| read(path)).collect()
}

/// One of our crates.
pub(crate) struct Package {
    pub(crate) name: String,
    /// Its path from the root of the repository.
    pub(crate) folder: String,
}

/// Our crates: every folder below `crates` with a manifest.
pub(crate) fn crates() -> Vec<Package> {
    let is_manifest = |file: &File| file.path.ends_with("/Cargo.toml");
    let manifests = files(&root().join("crates"), &["toml"]).into_iter().filter(is_manifest);
    let package = |manifest: File| {
        let name = manifest.text.lines().find_map(|line| line.strip_prefix("name = "));
        let folder = manifest.path.strip_suffix("/Cargo.toml").unwrap();
        Package { name: name.unwrap().trim_matches('"').to_owned(), folder: folder.to_owned() }
    };
    manifests.map(package).collect()
}

/// All files below a folder with one of the extensions.
pub(crate) fn files(folder: &Path, extensions: &[&str]) -> Vec<File> {
    let mut found = Vec::new();
    for path in entries(folder) {
        if path.is_dir() {
            found.extend(files(&path, extensions));
        } else if has_extension(&path, extensions) {
            found.push(read(&path));
        }
    }
    found
}

/// All folders below a folder, from the root of the repository.
pub(crate) fn folders(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for path in entries(folder).into_iter().filter(|path| path.is_dir()) {
        found.push(relative(&path));
        found.extend(folders(&path));
    }
    found
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

/// Whether a path ends with one of the extensions.
pub(crate) fn has_extension(path: &Path, extensions: &[&str]) -> bool {
    path.extension().is_some_and(|found| extensions.iter().any(|extension| found == *extension))
}

fn read(path: &Path) -> File {
    let text =
        fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    File { path: relative(path), text }
}

/// A path from the root of the repository.
pub(crate) fn relative(path: &Path) -> String {
    path.strip_prefix(root()).unwrap().to_string_lossy().replace('\\', "/")
}
