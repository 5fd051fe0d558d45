//! Writes log lines to standard error: a bounded buffer, and a thread that writes it.
//!
//! A call must neither wait for the reader of the log nor fail because of it. Lines are put into
//! memory; those that do not fit or cannot be written are counted and dropped. Lines that arrive
//! together are written together.

use std::io::{self, ErrorKind, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tracing_subscriber::fmt::MakeWriter;

/// How long the thread waits for more lines before it writes the first. Waking the thread for each
/// line would cost calls more than the line itself.
const GATHER: Duration = Duration::from_millis(2);

/// The pause before lines are offered again to a non-blocking pipe that is full.
const FULL_PAUSE: Duration = Duration::from_millis(10);

/// How long the end of the process waits for the last lines to be written.
const FLUSH_MAX: Duration = Duration::from_secs(1);

/// Accepts log lines. Never fails and never blocks.
#[derive(Clone)]
pub(crate) struct LogWriter(Arc<Shared>);

/// Writes the remaining lines when dropped, within a second.
#[must_use]
pub(crate) struct FlushOnDrop(LogWriter);

struct Shared {
    queue: Mutex<Queue>,
    /// There is work for the thread.
    filled: Condvar,
    /// The thread has ended.
    ended: Condvar,
    bytes_max: usize,
    /// Counts lost lines.
    count_lost: Box<dyn Fn(u64) + Send + Sync>,
}

#[derive(Default)]
struct Queue {
    lines: Vec<u8>,
    is_thread_waiting: bool,
    is_stopping: bool,
    has_ended: bool,
}

impl LogWriter {
    /// Starts the thread that writes to `output`. At most `bytes_max` bytes of lines may wait.
    pub(crate) fn start(
        output: impl Write + Send + 'static,
        bytes_max: usize,
        count_lost: impl Fn(u64) + Send + Sync + 'static,
    ) -> io::Result<(Self, FlushOnDrop)> {
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            filled: Condvar::new(),
            ended: Condvar::new(),
            bytes_max,
            count_lost: Box::new(count_lost),
        });
        let of_thread = Arc::clone(&shared);
        thread::Builder::new().name("log".to_owned()).spawn(move || of_thread.run(output))?;
        let writer = Self(shared);
        Ok((writer.clone(), FlushOnDrop(writer)))
    }
}

impl Shared {
    /// A panic elsewhere leaves the queue intact.
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds lines, or drops and counts them if they do not fit.
    fn push(&self, lines: &[u8]) {
        let mut queue = self.queue();
        if queue.has_ended || queue.lines.len().saturating_add(lines.len()) > self.bytes_max {
            drop(queue);
            return (self.count_lost)(lines_in(lines));
        }
        queue.lines.extend_from_slice(lines);
        if std::mem::take(&mut queue.is_thread_waiting) {
            drop(queue);
            self.filled.notify_one();
        }
    }

    /// The thread: writes lines until it is told to stop and none is left.
    fn run(&self, mut output: impl Write) {
        let mut batch = Vec::new();
        while self.take(&mut batch) {
            let written = write(&mut output, &batch);
            let lost = batch.get(written..).map_or(0, lines_in);
            if lost > 0 {
                (self.count_lost)(lost);
            }
            batch.clear();
        }
        self.queue().has_ended = true;
        self.ended.notify_all();
    }

    /// Waits for lines and takes all of them; `false` if no more will come.
    fn take(&self, batch: &mut Vec<u8>) -> bool {
        let mut queue = self.queue();
        while queue.lines.is_empty() && !queue.is_stopping {
            queue.is_thread_waiting = true;
            queue = self.filled.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        queue.is_thread_waiting = false;
        if !queue.is_stopping {
            let waited = self.filled.wait_timeout_while(queue, GATHER, |queue| !queue.is_stopping);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        std::mem::swap(&mut queue.lines, batch);
        !batch.is_empty()
    }
}

/// Writes as much as possible; returns the number of bytes written.
fn write(output: &mut impl Write, batch: &[u8]) -> usize {
    let mut written = 0;
    while let Some(rest) = batch.get(written..).filter(|rest| !rest.is_empty()) {
        match output.write(rest) {
            Ok(0) => break,
            Ok(bytes) => written += bytes,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(FULL_PAUSE),
            Err(_) => break,
        }
    }
    written
}

/// The number of lines that end in these bytes.
fn lines_in(bytes: &[u8]) -> u64 {
    bytes.iter().map(|byte| u64::from(*byte == b'\n')).sum()
}

impl Drop for FlushOnDrop {
    fn drop(&mut self) {
        let shared = &self.0.0;
        let mut queue = shared.queue();
        queue.is_stopping = true;
        shared.filled.notify_one();
        drop(shared.ended.wait_timeout_while(queue, FLUSH_MAX, |queue| !queue.has_ended));
    }
}

/// Writes the line of one event.
impl Write for &LogWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for LogWriter {
    type Writer = &'a Self;

    fn make_writer(&'a self) -> Self::Writer {
        self
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::mpsc;

    use super::*;

    const BYTES_MAX: usize = 100;
    const LINE: &[u8] = b"123456789\n";

    /// Starts a writer and a counter of the lines it loses.
    fn start(output: impl Write + Send + 'static) -> (LogWriter, FlushOnDrop, Arc<AtomicU64>) {
        let lost = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&lost);
        let count = move |lines| {
            counted.fetch_add(lines, Ordering::SeqCst);
        };
        let (writer, flush) = LogWriter::start(output, BYTES_MAX, count).unwrap();
        (writer, flush, lost)
    }

    /// Passes what it receives to a test, and accepts only `0` bytes at a time.
    struct Narrow(usize, mpsc::Sender<Vec<u8>>);

    impl Write for Narrow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let taken = &bytes[..bytes.len().min(self.0)];
            self.1.send(taken.to_vec()).unwrap();
            Ok(taken.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_are_written_whole_and_in_order_before_the_end() {
        let (sender, written) = mpsc::channel();
        let (writer, flush, lost) = start(Narrow(3, sender));

        for line in ["one\n", "two\n", "three\n"] {
            (&writer).write_all(line.as_bytes()).unwrap();
        }
        drop(flush);

        assert_eq!(written.into_iter().flatten().collect::<Vec<u8>>(), b"one\ntwo\nthree\n");
        assert_eq!(lost.load(Ordering::SeqCst), 0);
    }

    /// Accepts 15 bytes, then nothing.
    struct Full(usize);

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let taken = bytes.len().min(self.0);
            self.0 -= taken;
            if taken == 0 { Err(ErrorKind::StorageFull.into()) } else { Ok(taken) }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_partially_written_line_counts_as_lost() {
        let (writer, flush, lost) = start(Full(15));

        for _ in 0..3 {
            (&writer).write_all(LINE).unwrap();
        }
        drop(flush);

        assert_eq!(lost.load(Ordering::SeqCst), 2);
    }

    /// Never returns.
    struct Stuck(mpsc::Sender<()>);

    impl Write for Stuck {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            self.0.send(()).unwrap();
            loop {
                thread::park();
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_that_do_not_fit_are_counted_without_blocking() {
        let (sender, stuck) = mpsc::channel();
        let (writer, flush, lost) = start(Stuck(sender));
        (&writer).write_all(LINE).unwrap();
        stuck.recv().unwrap();

        for _ in 0..13 {
            (&writer).write_all(LINE).unwrap();
        }

        assert_eq!(lost.load(Ordering::SeqCst), 3, "ten of them wait");
        drop(flush);
    }

    #[test]
    fn lines_logged_after_the_end_are_counted_as_lost() {
        let (sender, _written) = mpsc::channel();
        let (writer, flush, lost) = start(Narrow(100, sender));
        drop(flush);

        (&writer).write_all(LINE).unwrap();

        assert_eq!(lost.load(Ordering::SeqCst), 1);
    }
}
