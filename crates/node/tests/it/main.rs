//! Tests of the whole service through real sockets, with simulated platforms, on both databases.

mod admin;
mod certificates;
mod configuration;
mod contract;
mod documentation;
mod existing_database;
mod jobs;
mod nodes;
mod request_log;
mod sealing;
mod stopping;
mod unread_bodies;
