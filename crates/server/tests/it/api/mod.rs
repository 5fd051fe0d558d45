//! The service's own routes, the admin listener, the configuration, and secrets at rest.

mod accounts;
mod admin;
mod configuration;
mod keys;
mod platforms;
mod register;
mod sealing;
mod shape;
mod usage;
