//! Log lines on standard error: text for people, JSON for machines. Whatever happens to standard
//! error, the service continues; lines that cannot be written are counted.

use std::any::Any;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::panic::PanicHookInfo;
use std::path::Path;

use settings::{ConfigProblem, LogFormat, LogSection};
use tracing_subscriber::EnvFilter;

use crate::log_writer::{FlushOnDrop, LogWriter};

/// The problem of the log's settings that the configuration cannot check itself.
pub(crate) fn problem(log: &LogSection) -> Option<ConfigProblem> {
    let message = "must be a level such as info, or levels by crate such as info,gateway=debug";
    EnvFilter::try_new(&log.filter).is_err().then(|| ConfigProblem::new("log.filter", message))
}

/// Starts logging. Keep the returned value until the end: when dropped, it waits a moment for the
/// last lines.
pub(crate) fn start(log: &LogSection) -> io::Result<FlushOnDrop> {
    let stderr = io::stderr();
    // A separate descriptor: a write that hangs must not hold the lock of standard error.
    let output = File::from(stderr.as_fd().try_clone_to_owned()?);
    start_on(log, output, stderr.is_terminal())
}

/// The same, with lines appended to this file.
pub(crate) fn start_in(log: &LogSection, file: &Path) -> io::Result<FlushOnDrop> {
    let output = OpenOptions::new().append(true).create(true).mode(0o600).open(file)?;
    start_on(log, output, false)
}

fn start_on(log: &LogSection, output: File, is_terminal: bool) -> io::Result<FlushOnDrop> {
    if let Some(problem) = problem(log) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, problem.to_string()));
    }
    let filter = EnvFilter::new(&log.filter);
    let is_text = match log.format {
        LogFormat::Auto => is_terminal,
        LogFormat::Text => true,
        LogFormat::Json => false,
    };
    let (writer, flush) =
        LogWriter::start(output, log.buffer_bytes, runtime::metrics::log_lines_lost)?;
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .log_internal_errors(false)
        .with_writer(writer);
    let lines = if is_terminal { lines } else { lines.with_ansi(false) };
    // A second start in one process keeps the first logger.
    if is_text {
        drop(lines.with_target(false).try_init());
    } else {
        drop(lines.json().flatten_event(true).try_init());
    }
    std::panic::set_hook(Box::new(log_panic));
    Ok(flush)
}

/// Logs a panic. Rust's default hook writes to standard error, which could block the panicking
/// thread forever.
fn log_panic(info: &PanicHookInfo<'_>) {
    let location = info.location().map(ToString::to_string);
    let backtrace = Backtrace::capture();
    let backtrace = (backtrace.status() == BacktraceStatus::Captured).then_some(backtrace);
    tracing::error!(
        location,
        thread = std::thread::current().name(),
        panic = message(info.payload()),
        backtrace = backtrace.as_ref().map(tracing::field::display),
        "a task of the service panicked"
    );
}

fn message(payload: &(dyn Any + Send)) -> &str {
    let literal = payload.downcast_ref::<&str>().copied();
    literal.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("unknown")
}
