//! The pages for people, as a browser meets them: [`browser`] opens pages, fills their forms and
//! sends them; [`page`] is what it reads.

mod accounts;
mod billing;
mod browser;
mod calls;
mod explorer;
mod exports;
mod keys;
mod links;
mod overview;
mod page;
mod settings;
mod signing_in;

pub(crate) use browser::Browser;
pub(crate) use page::Page;
