//! The service, tested through its real sockets, over simulated platforms, on both databases.

mod access;
mod api;
mod contract;
mod gateway;
mod nodes;
mod support;
