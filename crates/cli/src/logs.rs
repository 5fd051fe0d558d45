//! Log lines on standard error: text for people, JSON for machines. Whatever becomes of standard error, the service
//! goes on; lines that it does not take are counted.

use std::any::Any;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::fs::File;
use std::io::{self, IsTerminal as _};
use std::os::fd::AsFd as _;
use std::panic::PanicHookInfo;

use server::config::{LogFormat, LogSection};
use tracing_subscriber::EnvFilter;

use crate::log_writer::{FlushOnDrop, LogWriter};

/// Starts logging. Keep what is returned until the end: dropped, it waits a moment for the last lines. A filter that
/// cannot be read falls back to `info`.
pub(crate) fn start(log: &LogSection) -> io::Result<FlushOnDrop> {
    let filter = EnvFilter::try_new(&log.filter).unwrap_or_else(|_| EnvFilter::new("info"));
    let stderr = io::stderr();
    let is_text = match log.format {
        LogFormat::Auto => stderr.is_terminal(),
        LogFormat::Text => true,
        LogFormat::Json => false,
    };
    // A descriptor of its own: a write that hangs must not hold the lock of standard error.
    let output = File::from(stderr.as_fd().try_clone_to_owned()?);
    let (writer, flush) = LogWriter::start(output, log.buffer_bytes, server::log_lines_lost)?;
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .log_internal_errors(false)
        .with_writer(writer);
    let lines = if stderr.is_terminal() { lines } else { lines.with_ansi(false) };
    // A second start in one process keeps the first logger.
    if is_text {
        drop(lines.with_target(false).try_init());
    } else {
        drop(lines.json().flatten_event(true).try_init());
    }
    std::panic::set_hook(Box::new(log_panic));
    Ok(flush)
}

/// Says in the log that a part of the program panicked. What Rust does by itself writes to standard error, which may
/// make the one who panicked wait for ever.
fn log_panic(info: &PanicHookInfo<'_>) {
    let location = info.location().map(ToString::to_string);
    let backtrace = Backtrace::capture();
    let backtrace = (backtrace.status() == BacktraceStatus::Captured).then_some(backtrace);
    tracing::error!(
        location,
        thread = std::thread::current().name(),
        panic = message(info.payload()),
        backtrace = backtrace.as_ref().map(tracing::field::display),
        "a part of the service panicked"
    );
}

fn message(payload: &(dyn Any + Send)) -> &str {
    let literal = payload.downcast_ref::<&str>().copied();
    literal.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("unknown")
}
