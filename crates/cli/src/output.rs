//! What goes to the terminal: results on standard output, failures as one line.

use std::io::Write as _;

/// Writes a result to standard output. A reader that has seen enough, such as `head`, is no failure.
pub(crate) fn say(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        done => Ok(done?),
    }
}

/// A failure and its causes as one sentence; a cause that was quoted already is not said again.
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
    fn a_cause_is_said_once() {
        let cause = anyhow::anyhow!("no such file");
        let error = cause.context("it cannot be read: no such file").context("it is not usable");

        assert_eq!(failure(&error), "it is not usable: it cannot be read: no such file");
    }
}
