//! `/docs/search`: over the documents, the errors, the operations and the routes.

mod closest;
mod index;
mod page;
pub(crate) mod query;

pub(crate) use index::SearchIndex;
pub(crate) use page::router;
