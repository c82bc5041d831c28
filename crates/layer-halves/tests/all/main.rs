//! A layer under engines: over UDP, over a wire without room, over a path with faults in virtual
//! time.

mod fuzz;
mod udp;
mod virtual_time;

use driver::Pump;
use driver::receive_queue::{MessageReader, ReadOutcome};
use engine::{Address, Associations, AssociationsExt, Framing, Instant, SplitMix64};
use engine_xtp::{Config, Xtp};
use wire::Wire;

/// Messages of every length a packet border is near to, and longer ones.
pub fn messages(seed: u64, count: usize) -> Vec<Vec<u8>> {
    let mut random = SplitMix64::new(seed);
    let message = |_| {
        let len = [1, 2, 63, 1430, 1447, 1448, 5000, 60_000][random.below(8) as usize];
        (0..len).map(|_| random.next_u64() as u8).collect()
    };
    (0..count).map(message).collect()
}

/// An engine of circuits with message boundaries.
pub fn xtp(seed: u64) -> Xtp {
    Xtp::new(Config {
        framing: Framing::Messages,
        seed,
        ..Config::default()
    })
}

/// The receiving user of the first circuit that a peer opens.
pub(crate) struct Reader {
    id: Option<engine::AssociationId>,
    reader: MessageReader,
    /// Whole messages, oldest first.
    pub(crate) received: Vec<Vec<u8>>,
}

impl Reader {
    pub(crate) fn new() -> Reader {
        Reader {
            id: None,
            reader: MessageReader::new(Framing::Messages),
            received: Vec::new(),
        }
    }

    /// Takes what `pump` received.
    pub(crate) fn take<W: Wire>(&mut self, pump: &mut Pump<Xtp, W>, now: Instant) {
        if let Some((id, _)) = pump.accept() {
            self.id = Some(id);
            pump.engine().finish(now, id);
        }
        let Some(id) = self.id else { return };
        let mut buffer = vec![0; 64 << 10];
        while let Some(chunk) = pump.pop_chunk(id) {
            self.reader.put(chunk);
            while let ReadOutcome::Message(len) = self.reader.next(&mut buffer) {
                self.received.push(buffer[..len].to_vec());
            }
            let consumed = self.reader.take_consumed().expect("the chunk just put");
            pump.consume(now, id, consumed);
        }
    }
}

/// Opens a circuit to station 1 and gives it a store of 256 KiB.
pub fn open<W: Wire>(
    pump: &mut Pump<Xtp, W>,
    now: Instant,
) -> (engine::AssociationId, driver::sys::Producer) {
    let id = pump
        .engine()
        .connect(now, &[Address::Station(1)])
        .expect("room");
    let layout = pump.engine().layout(None);
    let (producer, consumer) = driver::sys::ring(layout, 256 << 10);
    pump.attach(id, consumer);
    (id, producer)
}
