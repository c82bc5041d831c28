//! Plays a script over an engine, in virtual time.

use super::pattern::{Live, Sender, chunk_pattern, parameters_fit};
use super::script::{Action, Script, ScriptEvent, ScriptPacket, When};
use super::settings::settings;
use super::sockets::Sockets;
use super::value::Item;
use engine::test_kit::take_packets;
use engine::{Address, AssociationId, Deliveries, Instant, Path, Protocol, Received};
use engine_sctp::Sctp;
use engine_sctp::numbers::{Port, Tag};
use engine_sctp::pdu::header::complete_checksum;
use engine_sctp::pdu::{Chunk, ChunkType, Chunks, CommonHeader};
use std::collections::VecDeque;

/// What became of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Passed,
    /// With the line and what was wrong.
    Failed(String),
    /// The script asks for something that is not in the engine.
    NotApplicable(String),
}

/// How long `*` waits, ns: longer than all retransmissions of the suites.
const ANYTIME: u64 = 600_000_000_000;

/// The port that the script's peer has.
const PEER_PORT: Port = Port(6000);

/// Plays `text` as a script for `system`.
pub fn play(text: &str, system: &str) -> Verdict {
    if text.contains("NR_SACK") {
        return Verdict::NotApplicable("NR-SACK".into());
    }
    let script = match Script::parse(text, system) {
        Ok(script) => script,
        Err(reason) => return Verdict::NotApplicable(reason),
    };
    let config = match settings(&script) {
        Ok(config) => config,
        Err(reason) => return Verdict::NotApplicable(reason),
    };
    let mut player = Player::new(Sctp::new(config), script.tolerance);
    for event in &script.events {
        match player.step(event) {
            Ok(()) => {}
            Err(Fault::Wrong(text)) => {
                return Verdict::Failed(format!("line {}: {text}", event.line));
            }
            Err(Fault::Unknown(text)) => {
                return Verdict::NotApplicable(format!("line {}: {text}", event.line));
            }
        }
    }
    Verdict::Passed
}

/// Why an event could not be played.
#[derive(Debug)]
pub enum Fault {
    /// The engine did something else.
    Wrong(String),
    /// The player does not know it.
    Unknown(String),
}

impl From<String> for Fault {
    fn from(text: String) -> Fault {
        Fault::Unknown(text)
    }
}

/// A tag that the engine sent in an INIT or INIT-ACK.
#[derive(Clone, Copy)]
struct LearntTag {
    script: u32,
    live: u32,
    tsn_offset: u32,
}

/// The engine, its clock, and what a script must know of it.
pub struct Player {
    pub engine: Sctp,
    pub sockets: Sockets,
    pub now: Instant,
    tolerance: u64,
    /// Packets of the engine that no event asked for yet.
    sent: VecDeque<(Instant, Vec<u8>)>,
    live: Live,
    learnt: Vec<LearntTag>,
    /// The ports of packets to the engine.
    header: CommonHeader,
}

const START: u64 = 1_000_000_000;

impl Player {
    fn new(engine: Sctp, tolerance: u64) -> Player {
        Player {
            engine,
            sockets: Sockets::default(),
            now: Instant::from_nanos(START),
            tolerance,
            sent: VecDeque::new(),
            live: Live::default(),
            learnt: Vec::new(),
            header: CommonHeader {
                source: PEER_PORT,
                destination: Port(5000),
                tag: Tag::NONE,
            },
        }
    }

    /// The peer's address.
    pub fn peer() -> Address {
        Address::Socket(([192, 0, 2, 1], 0).into())
    }

    fn step(&mut self, event: &ScriptEvent) -> Result<(), Fault> {
        let due = match event.when {
            When::After(nanos) | When::Between(nanos, _) => self.now.as_nanos() + nanos,
            When::At(nanos) => START + nanos,
            When::Anytime => self.now.as_nanos(),
        };
        if let Action::Expect(packet) = &event.action {
            let until = match event.when {
                When::Anytime => ANYTIME,
                When::Between(from, until) => until.saturating_sub(from) + self.tolerance,
                When::After(_) | When::At(_) => self.tolerance,
            };
            let earliest = match event.when {
                When::Anytime => 0,
                _ => due.saturating_sub(self.tolerance),
            };
            let at = self.expect(packet, earliest, due + until)?;
            // Times go on from the script's, as the engine's differ by the tolerance.
            self.now = Instant::from_nanos(match event.when {
                When::Anytime | When::Between(..) => at.max(due),
                When::After(_) | When::At(_) => due,
            });
            return Ok(());
        }
        self.run_until(due);
        match &event.action {
            Action::Inject(packet) => self.inject(packet)?,
            Action::Call(call) => self.call(call)?,
            Action::Shell(_) | Action::Expect(_) => {}
        }
        self.collect(self.now);
        Ok(())
    }

    /// Runs timers up to a time.
    fn run_until(&mut self, due: u64) {
        while let Some(timer) = self
            .engine
            .poll_timeout()
            .filter(|timer| timer.as_nanos() <= due)
        {
            let at = timer.max(self.now);
            self.engine.handle_timeout(at);
            self.collect(at);
        }
        self.now = Instant::from_nanos(due);
        self.collect(self.now);
    }

    /// Takes what the engine sends.
    fn collect(&mut self, at: Instant) {
        let sent = take_packets(&mut self.engine, at, 64, |_, range, out| {
            out.extend(range.clone().map(|_| 7));
        });
        (self.sent).extend(sent.into_iter().map(|(_, octets)| (at, octets)));
        while let Some(event) = self.engine.poll_event() {
            self.sockets.note(event);
        }
    }

    /// Waits for the next packet, which must be `packet`; the time at which it left.
    fn expect(&mut self, packet: &ScriptPacket, earliest: u64, until: u64) -> Result<u64, Fault> {
        while self.sent.is_empty() {
            let timer = self
                .engine
                .poll_timeout()
                .filter(|timer| timer.as_nanos() <= until);
            let Some(timer) = timer else {
                return Err(Fault::Wrong(format!(
                    "no packet; {} was to come",
                    names(&packet.chunks)
                )));
            };
            let at = timer.max(self.now);
            self.engine.handle_timeout(at);
            self.collect(at);
        }
        let Some((at, octets)) = self.sent.pop_front() else {
            return Err(Fault::Wrong("no packet".into()));
        };
        let came = kinds(&octets);
        if at.as_nanos() < earliest {
            let early = (earliest - at.as_nanos()) / 1_000_000;
            return Err(Fault::Wrong(format!("{came} left {early} ms too early")));
        }
        if at.as_nanos() > until {
            return Err(Fault::Wrong(format!("{came} left too late")));
        }
        self.compare(packet, &octets)?;
        Ok(at.as_nanos())
    }

    fn compare(&mut self, packet: &ScriptPacket, octets: &[u8]) -> Result<(), Fault> {
        self.select_association();
        let chunks: Vec<Chunk<'_>> = Chunks::new(octets).collect();
        let wrong = |what: &str| {
            Fault::Wrong(format!(
                "{what}: {} was to come, {}",
                names(&packet.chunks),
                kinds(octets)
            ))
        };
        if chunks.len() != packet.chunks.len() {
            return Err(wrong("another number of chunks"));
        }
        let mut left = chunks;
        for item in &packet.chunks {
            let pattern = chunk_pattern(item, Sender::Engine, &self.live)?;
            // RFC 9260 gives control chunks of a packet no order; data have one.
            let fits = |chunk: &Chunk<'_>| pattern.fits(chunk.octets(octets));
            let at = left.iter().position(fits);
            let Some(at) = at.filter(|at| *at == 0 || !item.name.ends_with("DATA")) else {
                return Err(wrong(&format!(
                    "other octets {octets:02x?} than {pattern:02x?}"
                )));
            };
            let chunk = left.remove(at);
            if [ChunkType::INIT, ChunkType::INIT_ACK].contains(&chunk.kind) {
                if !parameters_fit(item, &chunk, &self.live)? {
                    return Err(wrong(&format!("other parameters {:02x?}", chunk.value)));
                }
                self.learn(item, &chunk)?;
            }
        }
        let header = CommonHeader::parse(octets).ok_or_else(|| wrong("a broken packet"))?;
        self.header = header.reversed(Tag::NONE);
        Ok(())
    }

    fn learn(&mut self, item: &Item, chunk: &Chunk<'_>) -> Result<(), Fault> {
        let number = |at: usize| {
            chunk.value[at..]
                .first_chunk()
                .map_or(0, |octets| u32::from_be_bytes(*octets))
        };
        let script_tsn = item.number("tsn")?.unwrap_or(0) as u32;
        self.learnt.push(LearntTag {
            script: item.number("tag")?.unwrap_or(0) as u32,
            live: number(0),
            tsn_offset: number(12).wrapping_sub(script_tsn),
        });
        let init = engine_sctp::pdu::Init::parse(chunk.value);
        if let Some(cookie) = init.ok().and_then(|init| init.parameters.cookie) {
            self.live.cookie = cookie;
        }
        Ok(())
    }

    /// The numbers of the association that lives, or of the last handshake.
    fn select_association(&mut self) -> Tag {
        let views = self.engine.association_views(1);
        let own = views.first().map(|view| view.tags.0.0);
        let of_own = self
            .learnt
            .iter()
            .rev()
            .find(|known| Some(known.live) == own);
        let Some(known) = of_own.or(self.learnt.last()) else {
            // No handshake: any tag but none.
            return Tag(0x0a0b_0c0d);
        };
        self.live.tsn_offset = known.tsn_offset;
        Tag(known.live)
    }

    fn inject(&mut self, packet: &ScriptPacket) -> Result<(), Fault> {
        let mut tag = self.select_association();
        if packet
            .chunks
            .first()
            .is_some_and(|first| first.name == "INIT")
        {
            tag = Tag::NONE;
        }
        if packet
            .chunks
            .first()
            .is_some_and(|first| first.name == "COOKIE_ECHO")
        {
            tag = self
                .learnt
                .last()
                .map_or(Tag::NONE, |known| Tag(known.live));
        }
        if let Some(script) = packet.tag {
            let known = self
                .learnt
                .iter()
                .rev()
                .find(|known| known.script == script);
            tag = known.map_or(Tag(script), |known| Tag(known.live));
        }
        let header = CommonHeader { tag, ..self.header };
        let mut octets = header.emit().to_vec();
        let live = Live {
            injects: true,
            ..self.live.clone()
        };
        for item in &packet.chunks {
            octets.extend(chunk_pattern(item, Sender::Script, &live)?.octets());
        }
        octets.extend_from_slice(&packet.raw);
        complete_checksum(&mut octets);
        if packet.has_bad_checksum {
            octets[8] ^= 0xff;
        }
        let source = packet
            .source
            .map(|octets| Address::Socket((octets, 0).into()));
        let path = Path::to(source.unwrap_or(Player::peer()));
        let received = Received::new(path, &octets);
        let mut deliveries = Deliveries::default();
        self.engine
            .handle_packet(self.now, received, &mut deliveries);
        self.sockets.deliver(deliveries);
        Ok(())
    }

    /// The association behind a descriptor.
    pub fn association(&self, descriptor: i64) -> Result<AssociationId, Fault> {
        let known = self.sockets.association(descriptor);
        known.ok_or_else(|| Fault::Wrong(format!("no association behind descriptor {descriptor}")))
    }
}

/// The chunks of a packet by their numbers, for reports.
fn kinds(packet: &[u8]) -> String {
    let kinds: Vec<String> = Chunks::new(packet)
        .map(|chunk| chunk.kind.0.to_string())
        .collect();
    format!("a packet with chunks of types {}", kinds.join(", "))
}

fn names(items: &[Item]) -> String {
    let names: Vec<&str> = items.iter().map(|item| item.name.as_str()).collect();
    names.join(", ")
}
