//! XTP between two endpoints behind a path that loses, repeats, damages and delays datagrams: streams and messages of
//! drawn lengths, on circuits that are opened, closed and aborted. What is sent comes back, and nothing grows.
//!
//! As many circuits as a second takes. With `TOWPATH_XTP_S=3600` in its environment it runs for an hour and watches the
//! memory of the process, in which it is then to be alone:
//! `cargo test --release -p towpath --test engines xtp_under_faults`.

use crate::faulty_path::{FaultyPath, MemoryWatch, asked_span};
use engine::{Framing, SplitMix64};
use engine_xtp::Holdings;
use std::io;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use towpath::xtp::{Circuit, Endpoint, EndpointConfig};

const SEED: u64 = 9;
/// How long a call may take. Only a failure takes so long.
const LIMIT: Duration = Duration::from_secs(60);
/// Threads of a pair that open circuits, and those that serve them: twice as many, as some wait for the end of an aborted one.
const USERS: u64 = 2;
const SERVERS: usize = 4;
/// Messages of a circuit, at most, and bits of their longest lengths: some circuits carry several packets' worth of each
/// kind, some more than a send store takes at once.
const MESSAGES_MAX: u64 = 24;
const LEN_BITS_MAX: u64 = 16;
/// Of so many circuits one is aborted, with its messages on the way.
const ABORT_EVERY: u64 = 16;
/// Associations of an endpoint: two of each user and server, as one may end while the next begins, and those aborted
/// whose peer has not noticed.
const ASSOCIATIONS_MAX: usize = 64;

/// Two endpoints, of streams or of messages, and the path between them.
struct Pair {
    framing: Framing,
    client: Endpoint,
    server: Endpoint,
    /// Where the client finds the server.
    at: SocketAddr,
    aborted: AtomicU64,
    completed: AtomicU64,
}

impl Pair {
    fn new(framing: Framing) -> (Pair, FaultyPath) {
        let mut config = EndpointConfig::default();
        config.config.checksum = true;
        // An abort that is lost is noticed soon.
        config.config.keepalive = Duration::from_millis(500);
        let bind = || {
            let local = SocketAddr::from(([127, 0, 0, 1], 0));
            let bound = match framing {
                Framing::Messages => Endpoint::bind_messages(local, &config),
                _ => Endpoint::bind(local, &config),
            };
            bound.expect("a free port")
        };
        let (client, server) = (bind(), bind());
        server.listen(true);
        let path = FaultyPath::new(server.local_addr(), SEED);
        let pair = Pair {
            framing,
            client,
            server,
            at: path.address(),
            aborted: AtomicU64::new(0),
            completed: AtomicU64::new(0),
        };
        (pair, path)
    }

    /// Serves circuits one after the other until `is_over`.
    fn serve(&self, is_over: &AtomicBool) {
        while !is_over.load(Ordering::Relaxed) {
            match self.server.accept(Duration::from_millis(20)) {
                // The client notices a circuit that ends early, unless it has aborted it.
                Ok(circuit) => drop(answer(circuit)),
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}"),
            }
        }
    }

    /// Uses circuits one after the other for so long.
    fn use_for(&self, span: Duration, user: u64) {
        let mut random = SplitMix64::new(SEED + user);
        let begun = Instant::now();
        loop {
            self.round(&mut random);
            if begun.elapsed() >= span {
                return;
            }
        }
    }

    /// Opens a circuit, sends messages, and gets them back.
    fn round(&self, random: &mut SplitMix64) {
        let messages = drawn_messages(random);
        let mut circuit = self.client.connect(self.at, LIMIT).expect("it listens");
        for message in &messages {
            circuit.send(message, LIMIT).expect("the server reads");
        }
        if random.below(ABORT_EVERY) == 0 {
            circuit.abort().expect("a wire");
            self.aborted.fetch_add(1, Ordering::Relaxed);
            return;
        }
        circuit.finish().expect("a wire");
        let back = receive_all(&mut circuit).expect("the server answers");
        match self.framing {
            Framing::Messages => assert!(back == messages, "messages that were not sent so"),
            _ => assert!(back.concat() == messages.concat(), "other bytes"),
        }
        circuit.close(LIMIT).expect("the server has ended too");
        self.completed.fetch_add(1, Ordering::Relaxed);
    }

    fn holdings(&self) -> [Holdings; 2] {
        [&self.client, &self.server].map(Endpoint::holdings)
    }

    /// Waits until no association is left, and checks that nothing else is. One whose abort was lost takes up to CTIMEOUT,
    /// 30 s.
    fn check_nothing_stays(&self) {
        let end = Instant::now() + LIMIT;
        let are_left = || self.holdings().iter().any(|held| held.associations > 0);
        while are_left() {
            assert!(Instant::now() < end, "{:?}", self.holdings());
            std::thread::sleep(Duration::from_millis(2));
        }
        for held in self.holdings() {
            let kept = (held.unvalidated, held.reassembly_bytes, held.routes);
            assert_eq!(kept, (0, 0, 0), "{held:?}");
        }
    }
}

/// Messages of drawn lengths; none is empty, as XTP has no such messages.
fn drawn_messages(random: &mut SplitMix64) -> Vec<Vec<u8>> {
    let count = 1 + random.below(MESSAGES_MAX);
    let mut message = |_| {
        let bits = random.below(LEN_BITS_MAX + 1);
        let len = 1 + random.below(1 << bits);
        let salt = random.next_u64();
        let octet = |at: u64| (at * 31 + (at >> 9) + salt) as u8;
        (0..len).map(octet).collect()
    };
    (0..count).map(&mut message).collect()
}

/// Sends all messages of the peer back when it has ended its direction.
fn answer(mut circuit: Circuit) -> io::Result<()> {
    for message in receive_all(&mut circuit)? {
        circuit.send(&message, LIMIT)?;
    }
    circuit.close(LIMIT)
}

/// The peer's messages, or parts of its stream, up to the end of its direction.
fn receive_all(circuit: &mut Circuit) -> io::Result<Vec<Vec<u8>>> {
    let mut buffer = vec![0; 1 << LEN_BITS_MAX];
    let mut messages = Vec::new();
    while let Some(len) = circuit.recv(&mut buffer, LIMIT)? {
        messages.push(buffer[..len].to_vec());
    }
    Ok(messages)
}

#[test]
fn streams_and_messages_survive_faults_and_nothing_grows() {
    let asked = asked_span("TOWPATH_XTP_S");
    let span = asked.unwrap_or(Duration::from_secs(1));
    let made = [Framing::Stream, Framing::Messages].map(Pair::new);
    let (pairs, paths): (Vec<Pair>, Vec<FaultyPath>) = made.into_iter().unzip();
    let over = AtomicBool::new(false);
    let faults: u64 = std::thread::scope(|scope| {
        let over = &over;
        let start = |path: FaultyPath| scope.spawn(|| path.run(over));
        let paths: Vec<_> = paths.into_iter().map(start).collect();
        for pair in &pairs {
            for _ in 0..SERVERS {
                scope.spawn(|| pair.serve(over));
            }
        }
        let used = catch_unwind(AssertUnwindSafe(|| use_all(&pairs, span, asked.is_some())));
        over.store(true, Ordering::Relaxed);
        used.unwrap_or_else(|panic| resume_unwind(panic));
        let faults = paths.into_iter().map(|path| path.join().expect("no panic"));
        faults.sum()
    });
    let sum = |count: fn(&Pair) -> &AtomicU64| -> u64 {
        pairs
            .iter()
            .map(|pair| count(pair).load(Ordering::Relaxed))
            .sum()
    };
    let (completed, aborted) = (sum(|pair| &pair.completed), sum(|pair| &pair.aborted));
    eprintln!("{completed} circuits, {aborted} aborted ones, {faults} faults");
    assert!(completed > 0 && faults > 0);
}

/// Uses all pairs for so long; what their endpoints hold stays bounded, and is gone at the end.
fn use_all(pairs: &[Pair], span: Duration, watches_memory: bool) {
    std::thread::scope(|scope| {
        let start = |pair, user| scope.spawn(move || Pair::use_for(pair, span, user));
        let users: Vec<_> = pairs
            .iter()
            .flat_map(|pair| (0..USERS).map(move |user| (pair, user)))
            .map(|(pair, user)| start(pair, user))
            .collect();
        let mut memory = watches_memory.then(|| MemoryWatch::new(span));
        while !users.iter().all(|user| user.is_finished()) {
            std::thread::sleep(Duration::from_millis(50));
            for held in pairs.iter().flat_map(Pair::holdings) {
                assert!(held.associations <= ASSOCIATIONS_MAX, "{held:?}");
            }
            memory.iter_mut().for_each(MemoryWatch::look);
        }
    });
    pairs.iter().for_each(Pair::check_nothing_stays);
}
