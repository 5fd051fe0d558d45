//! Exports: lists of a platform read whole, page by page, and given out as one file, or not at all.
//!
//! `worker` claims an export and keeps its lease, `job` does the work at its `desk`, `pages` reads the platform, `columns` says what its file
//! names, `cleanup` removes what
//! is of no more use. What is decided stands in the store's `exports`.

pub(crate) mod cleanup;
mod columns;
mod desk;
mod job;
pub(crate) mod links;
pub mod pages;
pub(crate) mod place;
mod points;
pub(crate) mod worker;
