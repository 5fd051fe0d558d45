//! Exports: what is read of a platform, and that nothing but a whole list is ever given out.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::large_futures,
    reason = "a test that meets what it does not expect must fail, and has the stack to itself"
)]

mod datasets;
mod page_checks;
mod page_tries;
mod pages;
mod reading;
