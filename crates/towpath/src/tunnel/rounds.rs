//! The loop of a tunnel, and its end.

use super::proxied_connection::PumpOutcome;
use super::{HOUSEKEEPING_INTERVAL, Tunnel};
use engine::AssociationId;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a stopped tunnel waits for connections that are ending, and then for unacknowledged data.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// What the rounds of a loop keep.
struct Rounds {
    buffer: Vec<u8>,
    ready: Vec<AssociationId>,
    /// Connections with more to do, which wait until the others have been served.
    unfinished: Vec<u64>,
    last_housekeeping: Instant,
}

impl Tunnel {
    /// Carries connections until `stop` is set, checked every 100 ms, or, with external sockets,
    /// until no more can be handed over and all connections have ended. Then connections of which one direction has
    /// ended may end the other within a second; the others are reset.
    /// Errors are those of the endpoint; an error of one connection ends only that connection.
    pub fn run(&mut self, stop: &AtomicBool) -> io::Result<()> {
        let mut rounds = Rounds {
            buffer: vec![0; self.chunk_len],
            ready: Vec::new(),
            unfinished: Vec::new(),
            last_housekeeping: Instant::now(),
        };
        while !stop.load(Ordering::Relaxed) && !self.is_finished() {
            self.round(&mut rounds, HOUSEKEEPING_INTERVAL)?;
        }
        self.end_half_closed(&mut rounds)?;
        self.shutdown();
        Ok(())
    }

    /// Waits up to `limit` until something is to be done, and does it.
    fn round(&mut self, rounds: &mut Rounds, limit: Duration) -> io::Result<()> {
        let limit = match rounds.unfinished.is_empty() {
            true => self.limit_by_modules(limit),
            false => Duration::ZERO,
        };
        let mut todo = std::mem::take(&mut rounds.unfinished);
        if self.wait(limit, &mut todo)? {
            self.poll_endpoint(&mut rounds.ready, &mut todo)?;
        }
        self.add_due(&mut todo);
        if rounds.last_housekeeping.elapsed() >= HOUSEKEEPING_INTERVAL {
            rounds.last_housekeeping = Instant::now();
            self.housekeep(rounds.last_housekeeping, &mut todo);
        }
        for token in self.in_turn(todo) {
            if self.serve(token, &mut rounds.buffer) == PumpOutcome::MoreToDo {
                rounds.unfinished.push(token);
            }
        }
        Ok(())
    }

    /// Looks once at all that has come, then serves connections of which one direction has ended until the other has too.
    /// Nothing is accepted any more.
    fn end_half_closed(&mut self, rounds: &mut Rounds) -> io::Result<()> {
        self.endpoint.listen(false);
        self.connections_max = 0;
        let end = Instant::now() + CLOSE_TIMEOUT;
        self.round(rounds, Duration::ZERO)?;
        while self.has_half_closed() && Instant::now() < end {
            self.round(rounds, HOUSEKEEPING_INTERVAL)?;
        }
        Ok(())
    }

    fn has_half_closed(&self) -> bool {
        let mut all = self.connections.values();
        all.any(|connection| connection.is_half_closed())
    }

    /// Resets the open connections, then waits up to [`CLOSE_TIMEOUT`] for their circuits to close.
    fn shutdown(&mut self) {
        for (_, connection) in self.connections.drain() {
            self.counts.broken += 1;
            connection.close(true);
        }
        self.by_circuit.clear();
        let end = Instant::now() + CLOSE_TIMEOUT;
        // Circuits that ended earlier may still have unacknowledged data.
        while self.endpoint.holdings().associations > 0 && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
