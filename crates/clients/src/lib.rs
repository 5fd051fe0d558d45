//! Whom do we call? The only crate that opens outbound connections.
//!
//! Each call has a deadline, a limit of size and an error that says whose fault it was and whether
//! the call may be tried again. Nothing here decides what a call costs, and nothing is read from
//! the environment: where the other side is comes from the caller's settings alone.

pub mod error;
pub mod mail;
pub mod platform;
pub mod processor;
pub mod storage;
