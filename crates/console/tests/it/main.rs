//! The pages for people, as a browser meets them.

mod accounts;
mod calls;
mod explorer;
mod exports;
mod keys;
mod links;
mod overview;
mod settings;
mod signing_in;
