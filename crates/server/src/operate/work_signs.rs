//! Signs of work: a process that takes over shows that it works, so that the running server waits
//! longer for it than for one that hangs.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

/// The line that the running server gets.
pub(super) const WORKING: &[u8] = b"{\"working\":true}\n";
/// Time between two signs.
const INTERVAL: Duration = Duration::from_secs(5);

/// A thread that sends a sign after each interval in which this process used processor time. It
/// ends with this value.
pub(super) struct WorkSigns {
    _going_on: Sender<()>,
}

impl WorkSigns {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub(super) fn start(stream: UnixStream) -> io::Result<Self> {
        Self::every(INTERVAL, stream, processor_time)
    }

    fn every(
        interval: Duration,
        mut stream: UnixStream,
        mut used: impl FnMut() -> Option<u64> + Send + 'static,
    ) -> io::Result<Self> {
        let (going_on, end) = channel();
        thread::Builder::new().name("signs".to_owned()).spawn(move || {
            let mut before = used();
            while end.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                let now = used();
                if now > before && stream.write_all(WORKING).is_err() {
                    // The running server has ended, or has stopped waiting.
                    return;
                }
                before = now;
            }
        })?;
        Ok(Self { _going_on: going_on })
    }
}

/// Returns the processor time that this process has used, in ticks of the kernel, which are usually
/// 10 ms; `None` if the system does not show it.
fn processor_time() -> Option<u64> {
    time_of(&std::fs::read_to_string("/proc/self/stat").ok()?)
}

/// Returns the sum of `utime` and `stime` (proc_pid_stat(5)).
fn time_of(stat: &str) -> Option<u64> {
    // The name of the program is in parentheses, and may contain spaces and parentheses.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some(next()? + next()?)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn a_sign_is_sent_only_after_work() {
        let (stream, mut running) = UnixStream::pair().unwrap();
        let mut times = [Some(7), Some(7), None, Some(9), Some(9), Some(12)].into_iter();
        let (done, is_done) = channel();
        let used = move || {
            let next = times.next();
            if next.is_none() {
                // The test may have ended.
                let _ = done.send(());
            }
            next.unwrap_or(Some(12))
        };
        let signs = WorkSigns::every(Duration::ZERO, stream, used).unwrap();
        is_done.recv().unwrap();
        drop(signs);
        let mut sent = Vec::new();
        running.read_to_end(&mut sent).unwrap();
        assert_eq!(sent, [WORKING, WORKING].concat());
    }

    #[test]
    fn the_processor_time_of_a_process_is_read() {
        let stat = "12 (a b) c) S 1 12 12 0 -1 4194560 1104 0 0 0 70 8 0 0 20 0 1 0 99 5 6 7";
        assert_eq!(time_of(stat), Some(78));
        assert_eq!(time_of("12 (a) S 1"), None);
        assert!(processor_time().is_some());
    }
}
