//! Exports: lists of a platform read completely, page by page, and delivered as one file, or not at
//! all.
//!
//! `worker` claims an export and keeps its lease, `job` runs it, `page_processor` does its
//! computations, `pages` reads the platform, `columns` names the file's columns, and `cleanup`
//! deletes what is no longer needed. Decisions are recorded in the store's `exports`.

pub mod at_work;
pub mod cleanup;
mod columns;
mod failpoints;
mod job;
mod job_progress;
pub mod links;
mod page_processor;
pub mod pages;
pub mod place;
mod state;
pub mod worker;

pub use state::{ExportsParts, ExportsState};
pub use storage::StorageError;
pub use tabular::COLUMN_NAME_BYTES_MAX;
