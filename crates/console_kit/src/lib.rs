//! What every page of the console stands on: who is signed in (`visitor.rs`), how a page calls the
//! routes of the API inside the process (`service.rs`), how forms are checked (`form.rs`), what is
//! around a page (`shell.rs`), and how numbers and times are written (`format.rs`).

pub mod address;
pub mod failure;
pub mod flash;
pub mod form;
pub mod form_target;
pub mod format;
pub mod page_query;
pub mod service;
pub mod shell;
mod state;
pub mod sure;
pub mod values;
pub mod visitor;

pub use state::ConsoleState;
