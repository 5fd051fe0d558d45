//! The parts that every simulator stands on, asked over sockets.

#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that meets the unexpected is to stop"
)]

mod mail;
