//! The service, tested through its real sockets, over simulated platforms, on both databases.

mod gateway;
mod support;
