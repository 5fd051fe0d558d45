//! Exports: lists of a platform read whole, page by page, and given out as one file.

pub mod pages;
