//! `lent=on` of `shm` and `shm-spin`: neither end copies.
//!
//! Each message has a slot of its own. A slot keeps what was written into it, so a shared message is written into each
//! slot once, and sent from there again and again, as by a user who makes his messages where they will be read. A run of
//! receives reads the first and the last octets of each message where it lies. Single sends and receives copy.

use super::shm::{ShmCircuit, to_io_error};
use crate::contract::{
    Circuit, ConnectionInfo, Interest, LentArrival, NoConnectionInfo, Note, Part, ReceiveCounts,
    Reserved,
};
use crate::options::Options;
use crate::runs::{receive_run, send_each};
use channel::{Geometry, RING_OCTETS_MAX, SLOT_LEN_MAX, SLOT_LEN_MIN};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Instant;

/// Octets that a receiver reads at each end of a message.
const READ_LEN: usize = 8;

/// Slots as long as the job's message, as many as `ring_len` octets have, and at least four.
pub(super) fn geometry(options: &Options, ring_len: usize) -> io::Result<Geometry> {
    let longest = SLOT_LEN_MAX as usize;
    let slot_len = options.message_len.min(longest).next_power_of_two();
    let slot_len = slot_len.max(SLOT_LEN_MIN as usize);
    let len = ring_len.max(4 * slot_len).next_power_of_two();
    let len = len.min(RING_OCTETS_MAX as usize);
    Geometry::new(slot_len as u32, (len / slot_len) as u32).map_err(to_io_error)
}

/// One end of a circuit whose messages stay in their slots.
#[derive(Debug)]
pub(super) struct LentCircuit {
    inner: ShmCircuit,
    /// The message that slots hold.
    held: Option<Arc<[u8]>>,
    /// Which slots hold it.
    is_in_slot: Vec<bool>,
}

impl LentCircuit {
    pub(super) fn new(inner: ShmCircuit) -> LentCircuit {
        LentCircuit {
            inner,
            held: None,
            is_in_slot: Vec::new(),
        }
    }

    /// Slots hold `message` from now on, none of them yet.
    #[cold]
    fn hold(&mut self, message: &Arc<[u8]>, slots: u32) {
        self.held = Some(Arc::clone(message));
        self.is_in_slot.clear();
        self.is_in_slot.resize(slots as usize, false);
    }

    /// Slots are written with something else.
    fn forget(&mut self) {
        self.held = None;
    }

    fn holds(&self, message: &Arc<[u8]>) -> bool {
        self.held
            .as_ref()
            .is_some_and(|held| Arc::ptr_eq(held, message))
    }

    /// Sends a shared message that fits into a slot, and writes it only into a slot that does not hold it.
    #[inline]
    fn send_in_place(&mut self, message: &Arc<[u8]>) -> io::Result<()> {
        let (sender, timeout) = self.inner.sender()?;
        if !sender
            .wait_for_room(message.len(), timeout)
            .map_err(to_io_error)?
        {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let mut lent = sender.lend(message.len()).map_err(to_io_error)?;
        if !std::mem::replace(&mut self.is_in_slot[lent.slot() as usize], true) {
            lent.write(0, message).map_err(to_io_error)?;
        }
        lent.commit(message.len()).map_err(to_io_error)
    }

    /// Octets of the next message, read where it lies; None at the end.
    #[inline]
    fn read_in_place(&mut self) -> io::Result<Option<usize>> {
        let Some(message) = self.inner.arrived()? else {
            return Ok(None);
        };
        let mut octets = [0; READ_LEN];
        message.read(0, &mut octets);
        message.read(message.len().saturating_sub(READ_LEN), &mut octets);
        std::hint::black_box(octets);
        Ok(Some(message.len()))
    }
}

impl Circuit for LentCircuit {
    fn try_send(&mut self, message: &[u8]) -> io::Result<()> {
        self.forget();
        self.inner.try_send(message)
    }

    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.forget();
        self.inner.send(message)
    }

    fn send_shared_run(&mut self, message: &Arc<[u8]>, count: usize) -> io::Result<usize> {
        let geometry = self.inner.geometry();
        if message.len() > geometry.slot_len() as usize {
            self.forget();
            return self.inner.send_shared_run(message, count);
        }
        if !self.holds(message) {
            self.hold(message, geometry.slots());
        }
        send_each(count, || self.send_in_place(message))
    }

    fn recv_run(&mut self, buffer: &mut [u8], calls: usize) -> io::Result<Option<ReceiveCounts>> {
        if self.inner.has_rest() {
            return self.inner.recv_run(buffer, calls);
        }
        receive_run(calls, || self.read_in_place())
    }

    fn send_noted(&mut self, message: &[u8], note: &Note) -> io::Result<()> {
        self.forget();
        self.inner.send_noted(message, note)
    }

    fn effective(&self) -> BTreeMap<String, String> {
        let mut effective = self.inner.effective();
        effective.insert("lent".into(), "on".into());
        effective
    }

    engine::forward! { self.inner;
        fn try_recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>>;
        fn recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>>;
        fn receive_part(&mut self, buffer: &mut [u8]) -> io::Result<Option<Part>>;
        fn reserve(&mut self, len: usize) -> io::Result<Reserved<'_>>;
        fn commit(&mut self, note: &Note) -> io::Result<()>;
        fn take_arrival(&mut self) -> io::Result<Option<LentArrival<'_>>>;
        fn finish(&mut self) -> io::Result<()>;
        fn wait(&mut self, interest: Interest, deadline: Instant) -> io::Result<()>;
        fn connection_info(&self) -> Result<ConnectionInfo, NoConnectionInfo>;
        fn counts(&self) -> BTreeMap<String, u64>;
    }

    crate::usual_circuit! { send_run flush descriptor next_deadline }
}
