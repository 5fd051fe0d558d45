//! The service in tests: with simulated platforms, on a database of its own, and what tests use to
//! call it: clients, browsers, platforms that they play, several nodes.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::missing_panics_doc,
    clippy::return_self_not_must_use,
    clippy::new_without_default,
    reason = "only tests use it, and one that meets what it does not expect must fail"
)]

pub mod app;
pub mod browser;
mod browser_rules;
pub mod client;
mod conformity;
pub mod contract;
pub mod exports;
pub mod form;
pub mod http2;
pub mod log;
pub mod member;
pub mod nodes;
pub mod page;
pub mod platform;
pub mod processor;
pub mod raw;
pub mod renamed;
pub mod schema;
pub mod stage;
pub mod subscriber;

/// Starting a service, and what a running one lets tests do.
pub use node::start;

pub use app::{TestApp, with_app};
pub use browser::Browser;
pub use client::{Client, Reply};
pub use page::Page;

/// Runs everything concurrently and returns the results in order.
pub async fn at_once<T: Send + 'static>(
    work: impl IntoIterator<Item = impl Future<Output = T> + Send + 'static>,
) -> Vec<T> {
    let mut tasks = tokio::task::JoinSet::new();
    for (index, task) in work.into_iter().enumerate() {
        tasks.spawn(async move { (index, task.await) });
    }
    let mut done = tasks.join_all().await;
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

/// The peak memory of this process, in KiB.
pub fn memory_peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse().unwrap()
}
