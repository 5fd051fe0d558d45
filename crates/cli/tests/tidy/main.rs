//! The architecture and the habits of this project, as tests.
//!
//! What the compiler, clippy and `deny.toml` cannot see is checked here on the text of the repository. Each
//! finding names the file, the line and what to do; a rule that is wrong is changed here, not worked around.

#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "all of this is a test"
)]

mod code;
mod dependencies;
mod documents;
mod tree;

/// Fails with every finding, one a line.
fn assert_tidy(findings: &[String]) {
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}
