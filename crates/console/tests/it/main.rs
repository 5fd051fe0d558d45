//! The pages for people, as a browser meets them.

mod accounts;
mod audit;
mod calls;
mod explorer;
mod exports;
mod hostile;
mod keys;
mod limits;
mod links;
mod log;
mod overview;
mod registering;
mod settings;
mod signing_in;
mod support;
mod visitors;
