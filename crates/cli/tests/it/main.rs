//! The binary as people and scripts use it: its output, its exit codes, and its data.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "all of this is a test"
)]

mod catalogue;
mod commands;
mod existing_database;
mod lost_log;
mod operators;
mod process;
mod sandbox;
mod serve;
mod signals;
