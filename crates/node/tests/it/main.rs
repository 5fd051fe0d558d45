//! Tests of the service through real sockets, with simulated platforms, on both databases.

mod access;
mod api;
mod billing;
mod certificates;
mod console;
mod contract;
mod documentation;
mod economics;
mod exports;
mod gateway;
mod jobs;
mod nodes;
mod operators;
mod request_log;
mod support;
