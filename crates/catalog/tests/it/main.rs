//! The built-in catalogue, checked as a whole against what the specification lists.

mod extra;
mod platforms;
mod routes;
