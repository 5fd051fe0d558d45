//! The architecture and the conventions of this project, as tests.
//!
//! These check in the text of the repository what the compiler, clippy and `deny.toml` cannot see.
//! Each finding names the file, the line and what to do; if a rule is wrong, change it here instead
//! of working around it.

#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "all of this is a test"
)]

mod code;
mod cycles;
mod dependencies;
mod documents;
mod monitoring;
mod tree;
mod words;

/// Fails with every finding, one per line.
fn assert_tidy(findings: &[String]) {
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}
