//! The documentation, below `/docs`: the documents of the project as pages, every operation of the
//! API, the routes of each platform, the errors, and a search over all of them. Programs get the
//! same documents as Markdown. It knows no customer and reads no data.
//!
//! Everything is rendered on the server and can be read without scripts.

mod costly_work;
mod documents;
mod first_call;
mod markdown;
mod operations;
mod overview;
mod platforms;
mod programs;
mod reader;
mod search;
mod shell;
mod state;

pub use state::{ReferenceParts, ReferenceState};

use axum::Router;

/// Every page and document.
pub fn router() -> Router<ReferenceState> {
    Router::new()
        .merge(overview::router())
        .merge(operations::router())
        .merge(platforms::router())
        .merge(search::router())
        .merge(programs::router())
        .merge(reader::router())
}
