//! The queue of lines between the threads that log and standard error. It is bounded: if the reader
//! of standard error stops, lines are lost and no thread waits.
//!
//! ```text
//!   threads ──push──> lines (at most MAX_OCTETS) ──> thread "log" ──write──> standard error
//! ```

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tracing_subscriber::fmt::MakeWriter;

/// Maximum number of octets of lines in the queue: enough for some minutes of errors, and small in
/// comparison with the caches.
const MAX_OCTETS: usize = 1 << 20;

/// A handle to the queue.
#[derive(Clone, Default)]
pub(super) struct LineQueue {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    waiting: Mutex<Waiting>,
    changed: Condvar,
    lost: AtomicU64,
}

#[derive(Default)]
struct Waiting {
    lines: VecDeque<Vec<u8>>,
    octets: usize,
    /// Whether a removed line is still being written.
    is_writing: bool,
    /// Number of lines that were lost since the writing thread last took a line.
    lost: u64,
}

impl LineQueue {
    /// Starts the thread that writes to `out` until the process ends.
    ///
    /// # Errors
    ///
    /// The system cannot start a thread.
    pub(super) fn start(&self, mut out: impl Write + Send + 'static) -> io::Result<()> {
        let lines = self.clone();
        let write = move || {
            loop {
                let line = lines.take();
                // There is no other place to report that the log cannot be written.
                let _ = out.write_all(&line).and_then(|()| out.flush());
                lines.lock().is_writing = false;
                lines.inner.changed.notify_all();
            }
        };
        thread::Builder::new().name("log".to_owned()).spawn(write).map(drop)
    }

    /// Appends a line, or counts the line as lost if there is no room.
    pub(super) fn push(&self, line: &[u8]) {
        let mut waiting = self.lock();
        if waiting.octets + line.len() > MAX_OCTETS {
            waiting.lost += 1;
            self.inner.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        waiting.octets += line.len();
        waiting.lines.push_back(line.to_vec());
        drop(waiting);
        self.inner.changed.notify_all();
    }

    /// Returns the number of lines lost since the start.
    pub(super) fn lost(&self) -> u64 {
        self.inner.lost.load(Ordering::Relaxed)
    }

    /// Waits until all lines are written, for `patience` at most.
    pub(super) fn drain(&self, patience: Duration) {
        let end = Instant::now() + patience;
        let mut waiting = self.lock();
        while waiting.is_writing || !waiting.lines.is_empty() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            waiting = self
                .inner
                .changed
                .wait_timeout(waiting, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// Waits for the next line.
    fn take(&self) -> Vec<u8> {
        let waiting =
            self.inner.changed.wait_while(self.lock(), |waiting| waiting.lines.is_empty());
        let mut waiting = waiting.unwrap_or_else(PoisonError::into_inner);
        let mut line = waiting.lines.pop_front().unwrap_or_default();
        waiting.octets -= line.len();
        waiting.is_writing = true;
        let lost = std::mem::take(&mut waiting.lost);
        if lost > 0 {
            line.extend(
                format!("avocet: {lost} log lines dropped: standard error was not read\n").bytes(),
            );
        }
        line
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.inner.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<'w> MakeWriter<'w> for LineQueue {
    type Writer = LogLine<'w>;

    fn make_writer(&'w self) -> LogLine<'w> {
        LogLine(self)
    }
}

/// The queue for lines of text. Lines may contain octets from the network. Control characters are
/// escaped, so that such octets neither forge lines of the log nor send commands to the reader's
/// terminal.
#[derive(Clone)]
pub(super) struct TextLines(pub(super) LineQueue);

impl<'w> MakeWriter<'w> for TextLines {
    type Writer = TextLine<'w>;

    fn make_writer(&'w self) -> TextLine<'w> {
        TextLine(&self.0)
    }
}

/// The target of one line of text.
pub(super) struct TextLine<'w>(&'w LineQueue);

impl Write for TextLine<'_> {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        let line = octets.strip_suffix(b"\n").unwrap_or(octets);
        let text = String::from_utf8_lossy(line);
        if !text.contains(char::is_control) {
            self.0.push(octets);
            return Ok(octets.len());
        }
        let mut escaped = String::with_capacity(text.len() + 16);
        for one in text.chars() {
            if one.is_control() {
                escaped.extend(one.escape_debug());
            } else {
                escaped.push(one);
            }
        }
        escaped.push('\n');
        self.0.push(escaped.as_bytes());
        Ok(octets.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The target of one line, which the formatter writes in one call.
pub(super) struct LogLine<'w>(&'w LineQueue);

impl Write for LogLine<'_> {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        self.0.push(octets);
        Ok(octets.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// A reader that waits for permission before it reads each line.
    struct Slow {
        permitted: Receiver<()>,
        written: Sender<String>,
    }

    impl Write for Slow {
        fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
            self.permitted.recv().map_err(io::Error::other)?;
            self.written
                .send(String::from_utf8_lossy(octets).into_owned())
                .map_err(io::Error::other)?;
            Ok(octets.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_text_has_no_line_breaks_or_escapes_of_its_own() {
        let queue = LineQueue::default();
        let lines = TextLines(queue.clone());
        for line in ["zone a: \"t\nWARN forged\u{1b}[2J\u{9b}\"\n", "plain ü\n"] {
            lines.make_writer().write_all(line.as_bytes()).unwrap();
        }
        let text = String::from_utf8([queue.take(), queue.take()].concat()).unwrap();
        assert_eq!(text, "zone a: \"t\\nWARN forged\\u{1b}[2J\\u{9b}\"\nplain ü\n");
    }

    #[test]
    fn a_reader_that_has_stopped_costs_lines_and_no_time() {
        let ((permit, permitted), (written, lines)) = (channel(), channel());
        let queue = LineQueue::default();
        queue.start(Slow { permitted, written }).unwrap();
        let line = [b"x".repeat(1023), b"\n".to_vec()].concat();
        let sent = 3 * MAX_OCTETS / line.len();
        (0..sent).for_each(|_| queue.push(&line));
        queue.drain(Duration::ZERO);
        // The writer may have taken one line already.
        let lost = queue.lost() as usize;
        assert!(
            (sent - MAX_OCTETS / line.len() - 1..=sent - MAX_OCTETS / line.len()).contains(&lost),
            "{lost}"
        );
        (0..sent - lost).for_each(|_| permit.send(()).unwrap());
        queue.drain(Duration::from_secs(60));
        let text: String = lines.try_iter().collect();
        assert_eq!(text.matches('x').count(), (sent - lost) * 1023);
        // If the writer takes its first line while lines are lost, it reports the loss twice.
        let report = |line: &str| line.strip_prefix("avocet: ")?.split(' ').next()?.parse().ok();
        let reported: Vec<usize> = text.lines().filter_map(report).collect();
        assert_eq!(reported.iter().sum::<usize>(), lost, "the loss is reported where it was");
    }
}
