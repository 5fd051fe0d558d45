//! The pages of billing, as a browser meets them.

mod pages;
