//! Messages with a number, sent for a time, and the last processes' word that they have them.

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
/// `turn`; microseconds a message. Each of `controls` leads to a last process.
pub(super) fn measured(
    outgoing: &mut dyn Outgoing,
    controls: &[UnixStream],
    turn: Duration,
) -> io::Result<f64> {
    for control in controls {
        control.set_read_timeout(Some(REPORT_TIMEOUT))?;
    }
    let mut source = Source {
        outgoing,
        controls,
        number: 0,
    };
    source.report()?;
    source.run(turn / 8)?;
    source.run(turn)
}

struct Source<'a> {
    outgoing: &'a mut dyn Outgoing,
    controls: &'a [UnixStream],
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

    /// Sends a message, and waits until each last process says that it has it.
    fn report(&mut self) -> io::Result<()> {
        let head = (self.number | REPORTED).to_le_bytes();
        self.outgoing.send(head)?;
        self.number += 1;
        for mut control in self.controls {
            let mut counted = [0; HEAD_LEN];
            control.read_exact(&mut counted)?;
            let counted = u64::from_le_bytes(counted);
            if counted != self.number {
                return Err(io::Error::other(format!(
                    "a last process counts {counted} messages instead of {}",
                    self.number
                )));
            }
        }
        Ok(())
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

    /// Takes the head of the next message. Errors: a message that is not the next one; a first process that is gone.
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
        let refused = measured(&mut losing, &[near], Duration::from_micros(50));
        assert!(refused.unwrap_err().to_string().contains("counts 1"));
    }
}
