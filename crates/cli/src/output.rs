//! Writes to the terminal: results on standard output, failures as one line. Nothing here panics,
//! whatever happens to the terminal.

use std::io::Write as _;
use std::sync::mpsc;
use std::time::Duration;

/// How long the end of the process waits for its last output to be written.
const LAST_WORDS_MAX: Duration = Duration::from_secs(1);

/// Writes a line to standard output, formatted as `println!` does; returns whether that succeeded.
macro_rules! say_line {
    ($($text:tt)*) => { $crate::output::say(&format!("{}\n", format_args!($($text)*))) };
}
pub(crate) use say_line;

/// Writes a result to standard output. A reader that has closed the pipe, such as `head`, is not a
/// failure.
pub(crate) fn say(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        done => Ok(done?),
    }
}

/// Writes a message of a command that keeps running. It keeps running even if the message cannot be
/// written.
pub(crate) fn announce(text: &str) {
    if let Err(error) = say(text) {
        tracing::warn!(%error, "standard output cannot be written to");
    }
}

/// Writes the line of a failure to standard error. A full pipe without a reader does not keep the
/// process from ending.
pub(crate) fn complain(text: &str) {
    let line = format!("{text}\n");
    let (done, written) = mpsc::channel();
    let write = move || {
        drop(std::io::stderr().write_all(line.as_bytes()));
        done.send(()).ok();
    };
    if std::thread::Builder::new().spawn(write).is_ok() {
        written.recv_timeout(LAST_WORDS_MAX).ok();
    }
}

/// A failure and its causes as one sentence; a cause that is already quoted is not repeated.
pub(crate) fn failure(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let cause = cause.to_string();
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quoted_cause_is_not_repeated() {
        let cause = anyhow::anyhow!("no such file");
        let error = cause.context("it cannot be read: no such file").context("it is not usable");

        assert_eq!(failure(&error), "it is not usable: it cannot be read: no such file");
    }
}
