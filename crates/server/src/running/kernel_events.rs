//! Subscriptions to changes of the kernel's tables. Any host in the network can cause such changes,
//! so events are read at a limited rate.

use std::io;
use std::os::fd::AsFd;

use avocet_io::poll::{Interest, Poller, Trigger};

/// Maximum number of times in a second that events of a table are read. Any host on the link can
/// cause events, so further events wait for the next second.
const MAX_HEARD: u32 = 20;

/// A subscription, which is read a limited number of times in a second.
pub(crate) struct KernelEvents<E> {
    /// The token for the poller.
    token: u64,
    events: Option<E>,
    /// The second in which events were last read, and how often.
    second: u32,
    heard: u32,
    /// Whether the poller ignores events until the next second.
    is_resting: bool,
}

impl<E: AsFd> KernelEvents<E> {
    pub(crate) fn new(token: u64) -> Self {
        Self { token, events: None, second: 0, heard: 0, is_resting: false }
    }

    /// Subscribes, unless there is a subscription. If this fails, the next call tries again.
    pub(crate) fn open(&mut self, poller: &Poller, subscribe: impl FnOnce() -> io::Result<E>) {
        if self.events.is_some() {
            return;
        }
        (self.heard, self.is_resting) = (0, false);
        let Ok(events) = subscribe() else { return };
        let added = poller.add(&events, self.token, Interest::Read, Trigger::Level);
        self.events = added.ok().map(|()| events);
    }

    /// Ends the subscription.
    pub(crate) fn close(&mut self) {
        self.events = None;
    }

    /// Calls `read` with the events, and ends the subscription if it fails. Returns its result;
    /// `None` without a subscription. `now` is monotonic, in seconds.
    pub(crate) fn read<T>(
        &mut self,
        poller: &Poller,
        now: u32,
        read: impl FnOnce(&mut E) -> io::Result<T>,
    ) -> Option<T> {
        let result = read(self.events.as_mut()?);
        if self.is_enough(now)
            && let Some(events) = &self.events
        {
            self.is_resting = poller.remove(events).is_ok();
        }
        match result {
            Ok(found) => Some(found),
            Err(error) => {
                tracing::warn!(%error, "cannot hear changes of the kernel's tables");
                self.close();
                None
            }
        }
    }

    /// Ends the pause of an earlier second.
    pub(crate) fn end_rest(&mut self, poller: &Poller, now: u32) {
        if !self.is_resting || self.second == now {
            return;
        }
        if let Some(events) = &self.events {
            let added = poller.add(events, self.token, Interest::Read, Trigger::Level);
            self.is_resting = added.is_err();
        }
    }

    /// Counts one reading of events, and returns whether it was the last one permitted in this
    /// second.
    fn is_enough(&mut self, now: u32) -> bool {
        if self.second != now {
            (self.second, self.heard) = (now, 0);
        }
        self.heard += 1;
        self.heard >= MAX_HEARD
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use avocet_io::poll::Events;

    use super::*;

    #[test]
    fn events_are_read_a_limited_number_of_times_in_a_second() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.send_to(b"event", socket.local_addr().unwrap()).unwrap();
        let (mut poller, mut ready) = (Poller::new().unwrap(), Events::with_capacity(1));
        let mut events = KernelEvents::new(3);
        events.open(&poller, || Ok(socket));
        for now in [7, 8] {
            events.end_rest(&poller, now);
            poller.wait(&mut ready, Some(60_000)).unwrap();
            let reads = (1..).find(|_| {
                events.read(&poller, now, |_| Ok(())).unwrap();
                events.is_resting
            });
            assert_eq!(reads, Some(MAX_HEARD));
            poller.wait(&mut ready, Some(0)).unwrap();
            assert!(ready.iter().next().is_none(), "the event waits");
        }
        events.end_rest(&poller, 9);
        assert_eq!(events.read(&poller, 9, |_| Err::<(), _>(io::Error::other("gone"))), None);
        assert_eq!(events.read(&poller, 9, |_| Ok(())), None, "the subscription has ended");
    }
}
