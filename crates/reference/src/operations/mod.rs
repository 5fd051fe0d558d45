//! `/docs/api`: every operation of the API, from the OpenAPI document of the running service.

mod example;
pub(crate) mod model;
mod pages;
mod schema;

pub(crate) use pages::router;
