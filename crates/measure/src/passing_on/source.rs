//! Messages with a number, sent for a time, and the last process's word that it has them.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Octets of the number in front of a message.
pub(super) const HEAD_LEN: usize = 8;

/// Set in the number of a message whose receipt is reported.
const REPORTED: u64 = 1 << 63;

/// Messages between two looks at the clock.
const MESSAGES_PER_LOOK: u64 = 16;

/// How long the report of a receipt may take.
const REPORT_TIMEOUT: Duration = Duration::from_secs(60);

/// Where messages go.
pub(super) trait Outgoing {
    /// Sends the message that begins with `head`.
    fn send(&mut self, head: [u8; HEAD_LEN]) -> io::Result<()>;
}

/// Sends messages by `outgoing`, first to have all processes ready, then for an eighth of `turn` to fill the caches, then for
/// `turn`; microseconds a message. `control` leads to the last process.
pub(super) fn measured(
    outgoing: &mut dyn Outgoing,
    control: UnixStream,
    turn: Duration,
) -> io::Result<f64> {
    control.set_read_timeout(Some(REPORT_TIMEOUT))?;
    let mut source = Source {
        outgoing,
        control,
        number: 0,
    };
    source.report()?;
    source.run(turn / 8)?;
    source.run(turn)
}

struct Source<'a> {
    outgoing: &'a mut dyn Outgoing,
    control: UnixStream,
    /// Of the next message.
    number: u64,
}

impl Source<'_> {
    /// Sends for `time`, and waits until all has arrived.
    fn run(&mut self, time: Duration) -> io::Result<f64> {
        let (began, first) = (Instant::now(), self.number);
        while began.elapsed() < time {
            for _ in 0..MESSAGES_PER_LOOK {
                self.outgoing.send(self.number.to_le_bytes())?;
                self.number += 1;
            }
        }
        self.report()?;
        let messages = self.number - first;
        Ok(began.elapsed().as_secs_f64() * 1e6 / messages as f64)
    }

    /// Sends a message, and waits until the last process says that it has it.
    fn report(&mut self) -> io::Result<()> {
        let head = (self.number | REPORTED).to_le_bytes();
        self.outgoing.send(head)?;
        self.number += 1;
        let mut counted = [0; HEAD_LEN];
        self.control.read_exact(&mut counted)?;
        match u64::from_le_bytes(counted) {
            counted if counted == self.number => Ok(()),
            counted => Err(io::Error::other(format!(
                "the last process counts {counted} messages instead of {}",
                self.number
            ))),
        }
    }
}

/// What the last process counts.
pub(super) struct Sink {
    control: UnixStream,
    received: u64,
}

impl Sink {
    pub(super) fn new(control: UnixStream) -> Self {
        Self {
            control,
            received: 0,
        }
    }

    /// Takes the head of the next message.
    ///
    /// # Errors
    ///
    /// A message that is not the next one; a first process that is gone.
    pub(super) fn take(&mut self, head: [u8; HEAD_LEN]) -> io::Result<()> {
        let word = u64::from_le_bytes(head);
        if word & !REPORTED != self.received {
            return Err(io::Error::other(format!(
                "message {} came instead of {}",
                word & !REPORTED,
                self.received
            )));
        }
        self.received += 1;
        match word & REPORTED {
            0 => Ok(()),
            _ => self.control.write_all(&self.received.to_le_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_that_is_missing_or_comes_twice_is_an_error() {
        let (near, _far) = UnixStream::pair().unwrap();
        let mut sink = Sink::new(near);
        sink.take(0_u64.to_le_bytes()).unwrap();
        assert!(sink.take(2_u64.to_le_bytes()).is_err());
        assert!(sink.take(0_u64.to_le_bytes()).is_err());
        sink.take(1_u64.to_le_bytes()).unwrap();
    }

    /// Loses each message but those that are reported.
    struct Losing(Sink);

    impl Outgoing for Losing {
        fn send(&mut self, head: [u8; HEAD_LEN]) -> io::Result<()> {
            match u64::from_le_bytes(head) & REPORTED {
                0 => Ok(()),
                _ => self.0.control.write_all(&1_u64.to_le_bytes()),
            }
        }
    }

    #[test]
    fn messages_that_do_not_arrive_are_not_measured() {
        let (near, far) = UnixStream::pair().unwrap();
        let mut losing = Losing(Sink::new(far));
        let refused = measured(&mut losing, near, Duration::from_micros(50));
        assert!(refused.unwrap_err().to_string().contains("counts 1"));
    }
}
