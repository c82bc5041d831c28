//! The storage server behind a path that loses, repeats, damages and delays datagrams, and through
//! restarts: what is put is got again, and nothing grows.
//!
//! One file, or as many as a fifth of a second takes. With `TOWPATH_BLOCKS_S=3600` in its environment
//! it runs for an hour and watches the memory of the process, in which it is then to be alone:
//! `cargo test --release -p towpath --test engines blocks_under_faults`.

use crate::faulty_path::{FaultyPath, MemoryWatch, asked_span};
use engine::SplitMix64;
use std::fs;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use towpath::blocks::{self, BlockClient};
use towpath::vmtp::{Endpoint, EndpointConfig, entities};

const SEED: u64 = 5;
/// How long a block may take. Only a failure takes so long.
const LIMIT: Duration = Duration::from_secs(60);
/// Names that files have, and octets of the longest.
const NAMES: u64 = 4;
const LEN_MAX: u64 = 150_000;
/// A life of the server.
const LIFE: Duration = Duration::from_millis(400);
/// Records of one client whose entity has eight calls in flight, at most, and of those that ask it.
const RECORDS_MAX: usize = 64;
/// Serves the folder, life after life, until `is_over`. The lives, and the most records of one.
fn serve_lives(folder: &Path, at: SocketAddr, is_over: &AtomicBool) -> (u64, usize) {
    let (mut lives, mut records_max) = (0, 0);
    while !is_over.load(Ordering::Relaxed) {
        let config = EndpointConfig {
            // Records are forgotten soon, so that what is not forgotten shows.
            packet_lifetime: Duration::from_millis(10),
            ..EndpointConfig::default()
        };
        let Ok(endpoint) = Endpoint::bind(at, &config) else {
            std::thread::sleep(Duration::from_millis(1));
            continue;
        };
        let reports = endpoint.serve_entities().expect("a socket");
        let born = Instant::now();
        let ends = || is_over.load(Ordering::Relaxed) || born.elapsed() > LIFE;
        blocks::serve(&endpoint, folder, 2, ends).expect("it serves");
        let report = entities::query(&reports).expect("a report");
        records_max = records_max.max(report.records_total);
        assert_eq!(report.entities_total, 1, "the server's name alone");
        lives += 1;
    }
    (lives, records_max)
}

/// Puts, gets and lists files; ends with a round in which the server was away.
struct User<'a> {
    client: BlockClient,
    scratch: &'a Path,
    random: SplitMix64,
    rounds: u64,
}

impl User<'_> {
    fn round(&mut self) {
        self.rounds += 1;
        let name = format!("file-{}", self.random.next_u64() % NAMES);
        let len = self.random.next_u64() % LEN_MAX;
        let salt = self.random.next_u64();
        let octets: Vec<u8> = (0..len)
            .map(|at| (at * 31 + (at >> 9) + salt) as u8)
            .collect();
        let (source, copy) = (self.scratch.join("source"), self.scratch.join("copy"));
        fs::write(&source, &octets).expect("room");
        self.until_done(|client| client.put(&source, &name).map(drop));
        self.until_done(|client| client.get(&name, &copy).map(drop));
        assert!(fs::read(&copy).expect("it is got") == octets, "{name}");
        self.until_done(|client| client.list("").map(drop));
    }

    /// Again, as a user would, while the server is away or has just been started.
    fn until_done(&self, act: impl Fn(&BlockClient) -> io::Result<()>) {
        let begun = Instant::now();
        while let Err(error) = act(&self.client) {
            let kind = error.kind();
            let is_away = [io::ErrorKind::ConnectionRefused, io::ErrorKind::TimedOut];
            assert!(is_away.contains(&kind), "{error}");
            assert!(begun.elapsed() < LIMIT, "for a minute: {error}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

fn scratch() -> PathBuf {
    let name = format!("blocks-faults-{}", std::process::id());
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(path.join("served")).expect("a folder");
    path
}

#[test]
fn files_survive_faults_and_restarts_and_nothing_grows() {
    let asked = asked_span("TOWPATH_BLOCKS_S");
    let span = asked.unwrap_or(Duration::from_millis(200));
    let scratch = scratch();
    let served = scratch.join("served");
    // The port stays the server's between two lives: the path knows no other.
    let free = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    let server = free.expect("a port");
    let path = FaultyPath::new(server, SEED);
    let at = path.address();
    let over = AtomicBool::new(false);
    let (faults, lives, records_max, rounds) = std::thread::scope(|scope| {
        let path = scope.spawn(|| path.run(&over));
        let lives = scope.spawn(|| serve_lives(&served, server, &over));
        let done = std::panic::catch_unwind(|| use_for(span, at, &scratch, asked.is_some()));
        over.store(true, Ordering::Relaxed);
        let (lives, records_max) = lives.join().expect("no panic");
        let rounds = done.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (path.join().expect("no panic"), lives, records_max, rounds)
    });
    eprintln!("{rounds} files, {faults} faults, {lives} lives, {records_max} records at most");
    assert!(rounds > 0 && faults > 0 && lives > 0);
    assert!(records_max <= RECORDS_MAX, "{records_max} records");
    let names = fs::read_dir(&served).expect("a folder").count() as u64;
    assert!(names <= NAMES, "{names} files, of which some are parts");
    let _ = fs::remove_dir_all(&scratch);
}

/// Uses the server for so long; the rounds. Watches the memory after a minute of warming up.
fn use_for(span: Duration, at: SocketAddr, scratch: &Path, watches_memory: bool) -> u64 {
    let mut user = User {
        client: BlockClient::new(at, LIMIT).expect("a client"),
        scratch,
        random: SplitMix64::new(SEED),
        rounds: 0,
    };
    let begun = Instant::now();
    let mut memory = watches_memory.then(|| MemoryWatch::new(span));
    while begun.elapsed() < span || user.rounds == 0 {
        user.round();
        memory.iter_mut().for_each(MemoryWatch::look);
    }
    user.rounds
}
