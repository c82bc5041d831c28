//! Closing, exhaustively: every order of the users' acts and the packets, with one fault anywhere.
//!
//! The close state of an endpoint is four bits (XTP 4.0 s. 6.10); that of an association is the
//! pair. All orders are tried, so all reachable pairs are seen, and each leads to the end.

use crate::choices::Choices;
use core::fmt::Write;
use core::hash::Hasher;
use engine::test_kit::{take_packets, zeros};
use engine::{
    Address, AssociationId, Associations, AssociationsExt, CloseReason, Deliveries, Event, Instant,
    Protocol, Received,
};
use engine_xtp::pdu::Service;
use engine_xtp::{Config, Holdings, Xtp};
use std::collections::{BTreeSet, VecDeque};
use std::hash::DefaultHasher;

/// An act of a user, done once at any possible time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Send,
    Finish,
    /// Finishes after the peer has finished.
    Answer,
    Abort,
}

use Act::{Abort, Answer, Finish, Send};

/// A possible next step.
#[derive(Clone, Copy, Debug)]
enum Step {
    Act(usize),
    Deliver(usize),
    /// Faults, of which a run may have one.
    Lose(usize),
    Repeat(usize),
    Overtake(usize),
    Timer,
}

struct CloseRun {
    engines: [Xtp; 2],
    ids: [Option<AssociationId>; 2],
    acts: [VecDeque<Act>; 2],
    in_flight: [VecDeque<Vec<u8>>; 2],
    now: Instant,
    faults: usize,
    received: [usize; 2],
    finished: [bool; 2],
    closed: [Option<CloseReason>; 2],
    log: String,
}

const BYTES: u64 = 10;

/// Longer than all timeouts together.
const LONG: Instant = Instant::from_nanos(300_000_000_000);

impl CloseRun {
    fn new(config: &Config, acts: [&[Act]; 2]) -> CloseRun {
        let engine = |seed| {
            Xtp::new(Config {
                seed,
                ..config.clone()
            })
        };
        let mut engines = [engine(1), engine(2)];
        engines[1].listen(true);
        let id = engines[0].connect(Instant::ZERO, &[Address::Station(1)]);
        CloseRun {
            engines,
            ids: [Some(id.expect("room for one")), None],
            acts: acts.map(|list| list.iter().copied().collect()),
            in_flight: Default::default(),
            now: Instant::ZERO,
            faults: 1,
            received: [0; 2],
            finished: [false; 2],
            closed: [None; 2],
            log: String::new(),
        }
    }

    /// Runs until no step is left, or a state is reached that an earlier run explored. Adds all
    /// pairs of close states to `seen`.
    fn finish(&mut self, choices: &mut Choices, seen: &mut Seen) -> bool {
        loop {
            self.send();
            let steps = self.steps();
            if steps.is_empty() {
                match self.deadline() {
                    Some(at) => self.timeout(at),
                    None => return true,
                }
                continue;
            }
            if choices.is_new() {
                seen.pairs.insert(self.pair());
                if !seen.visited.insert(self.state_hash()) {
                    return false;
                }
            }
            let step = steps[choices.pick(steps.len())];
            let _ = writeln!(self.log, "{}: {step:?}", self.pair());
            self.perform(step);
        }
    }

    /// Hash of the state that decides what can happen from here on.
    fn state_hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        let mut add = |text: &str| hasher.write(text.as_bytes());
        for engine in &self.engines {
            let text = format!("{engine:?}");
            // Counters, random state and scratch memory are left out.
            let (front, rest) = text.split_once("counters:").expect("counters");
            let (_, rest) = rest.split_once("rng:").expect("the random state");
            let (rest, _) = rest.split_once("scratch:").expect("scratch memory");
            add(front);
            add(rest);
        }
        let users = (&self.ids, &self.acts, &self.in_flight, self.faults);
        add(&format!("{users:?} {:?} {:?}", self.finished, self.closed));
        hasher.finish()
    }

    fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        for side in [0, 1] {
            let ready = match self.acts[side].front() {
                Some(Answer) => self.finished[side],
                Some(_) => self.ids[side].is_some(),
                None => false,
            };
            let open = ready && self.closed[side].is_none();
            steps.extend(open.then_some(Step::Act(side)));
        }
        let in_flight = [0, 1]
            .into_iter()
            .filter(|&to| !self.in_flight[to].is_empty());
        steps.extend(in_flight.clone().map(Step::Deliver));
        if self.faults > 0 {
            steps.extend(in_flight.clone().map(Step::Lose));
            steps.extend(in_flight.clone().map(Step::Repeat));
            let behind = in_flight.clone().filter(|&to| self.in_flight[to].len() > 1);
            steps.extend(behind.map(Step::Overtake));
            steps.extend((!steps.is_empty() && self.deadline().is_some()).then_some(Step::Timer));
        }
        steps
    }

    fn perform(&mut self, step: Step) {
        self.faults -= usize::from(!matches!(step, Step::Act(_) | Step::Deliver(_)));
        match step {
            Step::Act(side) => self.act(side),
            Step::Deliver(to) => {
                let packet = self.in_flight[to].pop_front().expect("a packet in flight");
                self.deliver(to, &packet);
            }
            Step::Lose(to) => drop(self.in_flight[to].pop_front()),
            Step::Repeat(to) => {
                let packet = self.in_flight[to]
                    .front()
                    .expect("a packet in flight")
                    .clone();
                self.deliver(to, &packet);
            }
            Step::Overtake(to) => self.in_flight[to].swap(0, 1),
            Step::Timer => {
                let at = self.deadline().expect("a timer");
                self.timeout(at.max(self.now));
            }
        }
    }

    fn act(&mut self, side: usize) {
        let id = self.ids[side].expect("an association");
        let engine = &mut self.engines[side];
        match self.acts[side].pop_front().expect("an act") {
            Send => engine.push(self.now, id, BYTES),
            Finish | Answer => engine.finish(self.now, id),
            Abort => engine.abort(self.now, id),
        }
    }

    fn deliver(&mut self, to: usize, packet: &[u8]) {
        let mut deliveries = Deliveries::default();
        let from = Address::Station(1 - to as u32);
        self.engines[to].handle_packet(self.now, Received::new(from, packet), &mut deliveries);
        for delivery in deliveries.bytes {
            let engine::Bytes::Packet(range) = delivery.bytes else {
                panic!("nothing can arrive out of order");
            };
            self.received[to] += range.len();
            self.engines[to].consume(self.now, delivery.association, range.len() as u64);
        }
    }

    fn timeout(&mut self, now: Instant) {
        self.now = now;
        assert!(now < LONG, "it never ends:\n{}{}", self.log, self.pair());
        for engine in &mut self.engines {
            if engine.poll_timeout().is_some_and(|at| at <= now) {
                engine.handle_timeout(now);
            }
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let both = self
            .engines
            .iter()
            .filter_map(|engine| engine.poll_timeout());
        both.min()
    }

    /// Both engines send all packets they can. User bytes are zeros.
    fn send(&mut self) {
        for side in [0, 1] {
            let sent = take_packets(&mut self.engines[side], self.now, 4, zeros);
            self.in_flight[1 - side].extend(sent.into_iter().map(|(_, octets)| octets));
            while let Some(event) = self.engines[side].poll_event() {
                self.handle_event(side, event);
            }
        }
    }

    fn handle_event(&mut self, side: usize, event: Event) {
        match event {
            Event::Accepted(id, _) if self.ids[side].is_none() => self.ids[side] = Some(id),
            Event::Finished(_) => self.finished[side] = true,
            Event::Closed(id, reason) if self.ids[side] == Some(id) => {
                assert_eq!(self.closed[side], None, "closed twice");
                self.closed[side] = Some(reason);
            }
            _ => {}
        }
    }

    /// The close states of both endpoints: WCLOSE and RCLOSE sent in lower case, received in upper
    /// case.
    fn pair(&self) -> String {
        let name = |side: usize| {
            let Some(id) = self.ids[side] else {
                return "none".to_owned();
            };
            let Some(state) = self.engines[side].close_state(id) else {
                return "gone".to_owned();
            };
            let bits = [
                (state.wclose_sent, 'w'),
                (state.rclose_received, 'R'),
                (state.wclose_received, 'W'),
                (state.rclose_sent, 'r'),
            ];
            bits.map(|(set, name)| if set { name } else { '-' })
                .iter()
                .collect()
        };
        format!("{} {}", name(0), name(1))
    }
}

/// The close states and the state hashes that all runs saw.
#[derive(Default)]
struct Seen {
    pairs: BTreeSet<String>,
    visited: BTreeSet<u64>,
}

/// Tries all orders of `acts` with up to one fault; returns the pairs of close states seen.
fn explore(config: &Config, acts: [&[Act]; 2]) -> BTreeSet<String> {
    let mut seen = Seen::default();
    let mut choices = Choices::default();
    let mut runs = 0;
    let abrupt = acts.concat().contains(&Abort);
    loop {
        let mut run = CloseRun::new(config, acts);
        if run.finish(&mut choices, &mut seen) {
            assert_ended(&run, config, abrupt);
        }
        runs += 1;
        if !choices.advance() {
            break;
        }
    }
    assert!(runs > 1, "nothing was tried");
    seen.pairs
}

fn assert_ended(run: &CloseRun, config: &Config, abrupt: bool) {
    let log = &run.log;
    for side in [0, 1] {
        let ended = run.ids[side].is_none() || run.closed[side].is_some();
        assert!(ended, "{side} never ends:\n{log}");
        assert_eq!(run.engines[side].holdings(), Holdings::default(), "{log}");
        assert_eq!(run.engines[side].poll_timeout(), None, "{log}");
        if abrupt || config.service == Service::Datagram {
            continue;
        }
        // With a fault, the amplification limit may keep a responder from requesting an ACK.
        let unsure = config.service == Service::Transaction && side == 1 && run.faults == 0;
        let expected = match run.closed[side] {
            Some(CloseReason::TimedOut) if unsure => CloseReason::TimedOut,
            _ => CloseReason::Graceful,
        };
        assert_eq!(run.closed[side], Some(expected), "{side}:\n{log}");
        assert!(run.finished[side], "{side}:\n{log}");
    }
}

fn config(service: Service, explicit: bool) -> Config {
    Config {
        service,
        explicit,
        ..Config::default()
    }
}

/// Asserts that `lists` lead to exactly the pairs of `expected`: rows of an opener's state and the
/// responder's states with it.
fn assert_pairs(config: &Config, lists: &[[&[Act]; 2]], expected: &[(&str, &[&str])]) {
    let explored = lists.iter().flat_map(|acts| explore(config, *acts));
    let seen: BTreeSet<String> = explored.collect();
    let row = |(one, others): &(&str, &[&str])| {
        let pairs = others.iter().map(|other| format!("{one} {other}"));
        pairs.collect::<Vec<String>>()
    };
    let expected: BTreeSet<String> = expected.iter().flat_map(row).collect();
    let missed: Vec<&String> = expected.difference(&seen).collect();
    let more: Vec<&String> = seen.difference(&expected).collect();
    let service = config.service;
    assert!(
        missed.is_empty() && more.is_empty(),
        "{service:?}: not {missed:?} but {more:?}"
    );
}

/// Acts of the users of a stream; at least one finishes by itself. The longest lists only with
/// TOWPATH_SEEDS.
fn stream_acts(explicit: bool) -> Vec<[&'static [Act]; 2]> {
    let mut lists: Vec<&[Act]> = vec![&[Finish], &[Answer], &[Abort], &[Send, Finish]];
    let all: &[Act] = &[Send, Finish, Abort];
    let wide = std::env::var("TOWPATH_SEEDS").is_ok();
    if wide {
        lists.extend([&[Finish, Abort][..], &[Send, Answer], &[Send, Abort], all]);
    }
    let mut pairs = vec![[all, &[Finish]], [&[Finish], all]];
    if !explicit {
        pairs.extend([[all, &[Send, Finish]], [&[Send, Finish], all]]);
    }
    for one in &lists {
        for other in &lists {
            let endless = one.contains(&Answer) && other.contains(&Answer);
            let long = one.len() > 1 && other.len() > 1;
            if !endless && (!long || wide) {
                pairs.push([*one, *other]);
            }
        }
    }
    pairs
}

/// Rows of streams that are opened in either way.
const STREAM_ROWS: [(&str, &[&str]); 7] = [
    ("----", &["none", "----", "w---", "gone"]),
    ("--W-", &["w---", "gone"]),
    ("--Wr", &["w---", "wR--", "gone"]),
    ("wR--", &["--Wr", "w-Wr", "gone"]),
    ("w-W-", &["w---", "w-Wr", "gone"]),
    ("w-Wr", &["w---", "w-W-", "w-Wr", "wR--", "wRW-", "gone"]),
    ("wRW-", &["w-Wr", "gone"]),
];

#[test]
fn stream_close_states_all_reach_end() {
    let rows: [(&str, &[&str]); 3] = [
        (
            "w---",
            &["----", "--W-", "--Wr", "w---", "w-W-", "w-Wr", "gone"],
        ),
        ("gone", &["none", "----", "w---", "--W-", "--Wr", "wR--"]),
        ("gone", &["w-W-", "w-Wr", "wRW-", "gone"]),
    ];
    assert_pairs(
        &config(Service::Stream, true),
        &stream_acts(true),
        &[&STREAM_ROWS, &rows[..]].concat(),
    );
}

/// The responder's address validation limits what it may send, so fewer pairs are reachable than after an explicit opening.
#[test]
fn implicit_stream_close_states_all_reach_end() {
    let rows: [(&str, &[&str]); 3] = [
        (
            "w---",
            &[
                "none", "----", "--W-", "--Wr", "w---", "w-W-", "w-Wr", "gone",
            ],
        ),
        ("gone", &["none", "----", "w---", "--W-", "--Wr"]),
        ("gone", &["w-W-", "w-Wr", "wR--", "gone"]),
    ];
    assert_pairs(
        &config(Service::Stream, false),
        &stream_acts(false),
        &[&STREAM_ROWS, &rows[..]].concat(),
    );
}

#[test]
fn transaction_close_states_all_reach_end() {
    let acts: [[&[Act]; 2]; 4] = [
        [&[Send, Finish], &[Send, Answer]],
        [&[Send, Finish], &[Send, Finish]],
        [&[Send, Finish], &[Abort]],
        [&[Send, Finish, Abort], &[Answer]],
    ];
    let rows: [(&str, &[&str]); 5] = [
        ("----", &["none"]),
        ("w---", &["none", "--W-", "--Wr", "w-Wr", "gone"]),
        ("wR--", &["--Wr", "w-Wr", "gone"]),
        ("wRW-", &["w-Wr"]),
        ("gone", &["none", "--W-", "--Wr", "w-Wr", "gone"]),
    ];
    assert_pairs(&config(Service::Transaction, false), &acts, &rows);
}

/// Datagrams have one direction; the other is closed from the start.
#[test]
fn datagram_close_states_all_reach_end() {
    let acts: [[&[Act]; 2]; 3] = [
        [&[Send, Finish], &[]],
        [&[Send, Finish], &[Abort]],
        [&[Send, Finish, Abort], &[]],
    ];
    let rows: [(&str, &[&str]); 3] = [
        ("--Wr", &["none"]),
        ("w-Wr", &["none", "gone"]),
        ("gone", &["none", "gone"]),
    ];
    assert_pairs(&config(Service::AckedDatagram, false), &acts, &rows);
    let rows: [(&str, &[&str]); 2] = [("--Wr", &["none"]), ("gone", &["none", "gone"])];
    assert_pairs(&config(Service::Datagram, false), &acts, &rows);
}
