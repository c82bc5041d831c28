//! Two stations, a link in each direction, one clock.

use crate::station::{Station, StationWire};
use driver::Pump;
use engine::{Address, Associations, Fragmentation, Instant, Layer, Path};
use link::{EventQueue, Link, LinkConfig, LinkCounters};
use std::io;

/// Octets of frame around a packet: 14 Ethernet, 20 IPv4, 8 UDP, 4 check sequence.
const FRAME_OVERHEAD: usize = 46;

/// A packet entering a link, as the trace shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceLine {
    /// When, ps.
    pub at_ps: u64,
    /// From which station.
    pub from: usize,
    /// Its octets.
    pub packet: Vec<u8>,
    /// Whether it arrives.
    pub arrives: bool,
}

/// Two stations on a link. Station 0 is `Address::Station(0)`, likewise 1.
pub struct World<E> {
    pumps: [Pump<E, StationWire>; 2],
    wires: [StationWire; 2],
    links: [Link; 2],
    queue: EventQueue<PacketInTransit>,
    now_ps: u64,
    trace: Vec<TraceLine>,
    /// Octets of the longest packet that passes whole; longer ones are lost unless they may be fragmented.
    path_mtu: Option<usize>,
}

struct PacketInTransit {
    to: usize,
    packet: Vec<u8>,
}

impl<E: Associations> World<E> {
    /// Stations running `engines`, joined by links of `config` whose faults follow `seed`.
    pub fn new(engines: [E; 2], config: LinkConfig, seed: u64) -> World<E> {
        let wires = engines
            .each_ref()
            .map(|e| Station::wire(e.properties().packet_max));
        let mut paired = engines.into_iter().zip(wires.iter().cloned());
        let pumps = std::array::from_fn(|_| {
            let (engine, wire) = paired.next().expect("two engines, two wires");
            Pump::new(engine, wire)
        });
        World::over(pumps, wires, config, seed)
    }

    /// The same with a layer at each station; `make_layer` is given the longest packet.
    ///
    /// # Errors
    ///
    /// `InvalidInput` when packets do not fit the layer.
    pub fn with_layers(
        engines: [E; 2],
        make_layer: impl Fn(usize) -> Box<dyn Layer + Send>,
        config: LinkConfig,
        seed: u64,
    ) -> io::Result<World<E>> {
        let layers = engines
            .each_ref()
            .map(|engine| make_layer(engine.properties().packet_max));
        let wires = layers
            .each_ref()
            .map(|layer| Station::wire(layer.frame_max()));
        let [first, second] = engines;
        let [first_layer, second_layer] = layers;
        let pumps = [
            Pump::with_layer(first, wires[0].clone(), first_layer)?,
            Pump::with_layer(second, wires[1].clone(), second_layer)?,
        ];
        Ok(World::over(pumps, wires, config, seed))
    }

    fn over(
        pumps: [Pump<E, StationWire>; 2],
        wires: [StationWire; 2],
        config: LinkConfig,
        seed: u64,
    ) -> World<E> {
        World {
            pumps,
            wires,
            links: [0, 1].map(|direction| Link::new(config, seed, direction)),
            queue: EventQueue::new(),
            now_ps: 0,
            trace: Vec::new(),
            path_mtu: None,
        }
    }

    /// The pump of a station, for commands and for its user.
    pub fn pump(&mut self, station: usize) -> &mut Pump<E, StationWire> {
        &mut self.pumps[station]
    }

    /// The simulated time.
    pub fn now(&self) -> Instant {
        Instant::from_nanos(self.now_ps / 1000)
    }

    /// From now on packets longer than `octets` are lost, both ways and without a word, unless their sender allows
    /// fragments.
    pub fn set_path_mtu(&mut self, octets: usize) {
        self.path_mtu = Some(octets);
    }

    /// Counters of the link out of `station`.
    pub fn link_counters(&self, station: usize) -> LinkCounters {
        self.links[station].counters()
    }

    /// Every packet so far, in the order in which they entered a link.
    pub fn trace(&self) -> &[TraceLine] {
        &self.trace
    }

    /// Lets both stations send what they have, then advances to the next event: an arrival or a
    /// timeout. False when there is none or it lies beyond `limit_ps`.
    ///
    /// # Errors
    ///
    /// The pump's; none are known on a simulated wire.
    pub fn step(&mut self, limit_ps: u64) -> io::Result<bool> {
        for station in 0..2 {
            self.pumps[station].submit_all_and_flush(self.now(), true)?;
            self.send_to_link(station);
        }
        let Some(at_ps) = self.next_event_ps().filter(|&at_ps| at_ps <= limit_ps) else {
            return Ok(false);
        };
        self.now_ps = self.now_ps.max(at_ps);
        while self.queue.next_time().is_some_and(|at| at <= self.now_ps) {
            self.deliver_next()?;
        }
        for station in 0..2 {
            let now = self.now();
            self.pumps[station].handle_timeout(now);
        }
        Ok(true)
    }

    fn next_event_ps(&self) -> Option<u64> {
        let deadlines = self.pumps.iter().filter_map(|pump| pump.poll_timeout());
        let deadlines = deadlines.map(|at| at.as_nanos().saturating_mul(1000));
        deadlines.chain(self.queue.next_time()).min()
    }

    fn deliver_next(&mut self) -> io::Result<()> {
        let Some((_, PacketInTransit { to, packet })) = self.queue.pop() else {
            return Ok(());
        };
        let from = Address::Station(1 - to as u32);
        self.wires[to]
            .0
            .mailbox
            .borrow_mut()
            .incoming
            .push_back((Path::to(from), packet));
        let now = self.now();
        self.pumps[to].receive(now)?;
        Ok(())
    }

    /// Moves a station's outgoing packets onto its link.
    fn send_to_link(&mut self, station: usize) {
        loop {
            let taken = self.wires[station]
                .0
                .mailbox
                .borrow_mut()
                .outgoing
                .pop_front();
            let Some((_, mut packet, fragmentation)) = taken else {
                return;
            };
            let fits = self.path_mtu.is_none_or(|octets| packet.len() <= octets);
            if !fits && fragmentation != Fragmentation::Allowed {
                self.trace.push(TraceLine {
                    at_ps: self.now_ps,
                    from: station,
                    packet,
                    arrives: false,
                });
                continue;
            }
            let verdict = self.links[station].offer(self.now_ps, packet.len() + FRAME_OVERHEAD);
            self.trace.push(TraceLine {
                at_ps: self.now_ps,
                from: station,
                packet: packet.clone(),
                arrives: verdict.arrival_ps.is_some(),
            });
            if let Some(bit) = verdict.corrupt_bit {
                let octet = (bit / 8) as usize;
                if let Some(octet) = packet.get_mut(octet) {
                    *octet ^= 1 << (bit % 8);
                }
            }
            for at_ps in [verdict.arrival_ps, verdict.copy_ps].into_iter().flatten() {
                let packet = PacketInTransit {
                    to: 1 - station,
                    packet: packet.clone(),
                };
                self.queue.push(at_ps, 0, packet);
            }
        }
    }
}
