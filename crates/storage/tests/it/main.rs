//! Storage in folders, and in buckets of a store that is played.
#![expect(clippy::unwrap_used, reason = "a test that meets what it does not expect must fail")]

mod bucket;
mod bucket_storage;
mod folder;
mod limits;
mod settings;
