//! Engines by name. A protocol that is to run in scenarios gets an entry in [`make`].

use crate::file::EngineSpec;
use crate::units::{Bytes, Time};
use core::time::Duration;
use engine::{
    Address, Batch, CircuitId, CommandError, Counters, Delivery, Engine, Event, Framing, Instant,
    SegmentLayout,
};
use study::protocol::{Config as Study, Multicast, Revision, StudyXtp};

/// Any engine.
pub struct Boxed(Box<dyn Engine>);

/// Octets around a packet in an Ethernet frame leave 1500 for it; the shortest useful packet is
/// what the engines themselves accept.
const PACKET: std::ops::RangeInclusive<u64> = 128..=65_535;

/// A fault of a value, and where it stands in the file.
pub type Fault = (std::ops::Range<usize>, String);

/// The engine of `spec`, its random choices from `seed`.
///
/// # Errors
///
/// What is out of range, in one line.
pub fn make(spec: &EngineSpec, seed: u64) -> Result<Boxed, Fault> {
    let at = |message: String| (spec.protocol.span(), message);
    let packet = spec.packet.map_or(1500, |octets| octets.0);
    let engine: Box<dyn Engine> = match spec.protocol.get_ref().as_str() {
        "bare" => Box::new(engine_bare::Bare::new(engine_bare::Config {
            packet_len: packet_len(packet).map_err(at)?,
            seed,
            ..engine_bare::Config::default()
        })),
        "xtp" => {
            let default = engine_xtp::Config::default();
            Box::new(engine_xtp::Xtp::new(engine_xtp::Config {
                packet_len: packet_len(packet).map_err(at)?,
                window: spec.window.map_or(default.window, |bytes| bytes.0),
                framing: Framing::Messages,
                seed,
                ..default
            }))
        }
        "xtp3" => Box::new(StudyXtp::new(study_config(spec, seed)?)),
        other => {
            return Err(at(format!("no protocol {other:?}; use bare, xtp or xtp3")));
        }
    };
    Ok(Boxed(engine))
}

fn packet_len(octets: u64) -> Result<usize, String> {
    if PACKET.contains(&octets) {
        return Ok(octets as usize);
    }
    Err(format!(
        "a packet of {octets} octets is out of range; use {} to {}",
        PACKET.start(),
        PACKET.end()
    ))
}

fn study_config(spec: &EngineSpec, seed: u64) -> Result<Study, Fault> {
    let small = |name: &str, bytes: Bytes| {
        let fits = (1500..1 << 30).contains(&bytes.0);
        let refusal = format!(
            "{name} of {} B is out of range; use 1500 B to 1 GiB",
            bytes.0
        );
        fits.then_some(bytes.0 as u32)
            .ok_or((spec.protocol.span(), refusal))
    };
    let span = |time: Time| Duration::from_nanos(time.0 / 1000);
    let default = Study::default();
    let revision = match &spec.revision {
        None => default.revision,
        Some(revision) => match revision.get_ref().as_str() {
            "3.3" => Revision::V33,
            "3.5" => Revision::V35,
            other => {
                let refusal = format!("no revision {other:?}; use \"3.3\" or \"3.5\"");
                return Err((revision.span(), refusal));
            }
        },
    };
    Ok(Study {
        revision,
        resend_pairs: spec.resend_pairs,
        multicast: spec.multicast.then(|| Multicast {
            answerers: spec.answerers.clamp(1, 65_536) as u32,
            hold: spec.hold.map(span),
            slot: spec.slot.filter(|time| time.0 > 0).map(span),
            damping: spec.damping,
            ..Multicast::new(spec.answers)
        }),
        alloc: spec
            .alloc
            .map_or(Ok(default.alloc), |bytes| small("alloc", bytes))?,
        credit: spec
            .credit
            .map(|bytes| small("credit", bytes))
            .transpose()?,
        wtimer: spec.wtimer.map(span),
        ctimer: spec.ctimer.map(span),
        seed,
    })
}

impl Engine for Boxed {
    fn layout(&self) -> SegmentLayout {
        self.0.layout()
    }

    fn connect(&mut self, now: Instant, to: Address) -> Result<CircuitId, CommandError> {
        self.0.connect(now, to)
    }

    fn listen(&mut self, accept: bool) {
        self.0.listen(accept);
    }

    fn extend(&mut self, now: Instant, circuit: CircuitId, end: u64, push: bool) {
        self.0.extend(now, circuit, end, push);
    }

    fn framing(&self) -> Framing {
        self.0.framing()
    }

    fn end_message(&mut self, circuit: CircuitId, end: u64) {
        self.0.end_message(circuit, end);
    }

    fn consume(&mut self, now: Instant, circuit: CircuitId, bytes: u64) {
        self.0.consume(now, circuit, bytes);
    }

    fn finish(&mut self, now: Instant, circuit: CircuitId) {
        self.0.finish(now, circuit);
    }

    fn abort(&mut self, now: Instant, circuit: CircuitId) {
        self.0.abort(now, circuit);
    }

    fn handle_packet(
        &mut self,
        now: Instant,
        from: Address,
        packet: &[u8],
        deliveries: &mut Vec<Delivery>,
    ) {
        self.0.handle_packet(now, from, packet, deliveries);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.0.handle_timeout(now);
    }

    fn transmit(&mut self, now: Instant, batch: &mut Batch) {
        self.0.transmit(now, batch);
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.0.poll_event()
    }

    fn deadline(&self) -> Option<Instant> {
        self.0.deadline()
    }

    fn in_flight(&self, circuit: CircuitId) -> u64 {
        self.0.in_flight(circuit)
    }

    fn counters(&self) -> Counters {
        self.0.counters()
    }

    fn linger(&self) -> Duration {
        self.0.linger()
    }
}
