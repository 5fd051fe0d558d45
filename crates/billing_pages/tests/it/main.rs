//! The pages of billing, as a browser meets them.
#![expect(clippy::unwrap_used, clippy::panic, reason = "an unexpected value must fail the test")]

mod buying;
mod lists;
mod pages;
mod plans;
mod top_up;
mod usage;
mod visitors;
