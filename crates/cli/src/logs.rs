//! Log lines on standard error: text for people, JSON for machines.

use std::io::IsTerminal as _;

use server::config::{LogFormat, LogSection};
use tracing_subscriber::EnvFilter;

/// Starts logging. A filter that cannot be read falls back to `info`.
pub(crate) fn start(log: &LogSection) {
    let filter = EnvFilter::try_new(&log.filter).unwrap_or_else(|_| EnvFilter::new("info"));
    let is_text = match log.format {
        LogFormat::Auto => std::io::stderr().is_terminal(),
        LogFormat::Text => true,
        LogFormat::Json => false,
    };
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A second start in one process keeps the first logger.
    if is_text {
        drop(lines.with_target(false).try_init());
    } else {
        drop(lines.json().flatten_event(true).try_init());
    }
}
