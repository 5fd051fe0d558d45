//! The parts that all simulators build on, tested over sockets.

#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test should stop at the unexpected"
)]

mod bodies;
mod control;
mod faults;
mod mail;
mod mail_kept;
mod mail_talk;
mod ports;
mod rules;
mod stub;
