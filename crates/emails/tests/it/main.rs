//! Emails as they are written for customers of a database, and the links to payments in them.

#![expect(clippy::panic, clippy::unwrap_used, reason = "a test should stop at the unexpected")]

mod letters;
mod pay_links;
mod service;
