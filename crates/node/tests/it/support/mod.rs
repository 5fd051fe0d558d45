//! Shared by all tests: the running service with simulated platforms, on a database of its own.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "an unexpected value must fail the test, and each test has its own stack"
)]

pub(crate) mod app;
pub(crate) mod client;
pub(crate) mod form;
pub(crate) mod http2;
pub(crate) mod log;
pub(crate) mod member;
pub(crate) mod nodes;
pub(crate) mod platform;
pub(crate) mod processor;
pub(crate) mod raw;
pub(crate) mod stage;
pub(crate) mod subscriber;

pub(crate) use app::{TestApp, with_app};
pub(crate) use client::{Client, Reply};

/// Runs everything concurrently and returns the results in order.
pub(crate) async fn at_once<T: Send + 'static>(
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
pub(crate) fn memory_peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse().unwrap()
}
