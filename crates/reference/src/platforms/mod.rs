//! `/docs/platforms`: the platforms that this service offers, under the names that the operator
//! gave them, and every route of each.

pub(crate) mod catalogue;
mod pages;
mod route_page;

pub(crate) use pages::router;
