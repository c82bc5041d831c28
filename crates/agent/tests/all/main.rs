//! Integration tests of the agent: clients, faulty and hostile peers.

mod advisories;
mod caps;
mod churn;
mod common;
mod dishonest_peers;
#[path = "../../../../fuzz/src/session.rs"]
mod fuzzed;
mod groups;
mod hosts;
mod limits;
mod mutated_files;
mod raw_sockets;
mod sessions;
mod turns;
mod unauthenticated;

/// The fuzz targets' checks, with requests mutated here; `TOWPATH_SEEDS` sets the number.
#[test]
fn mutated_requests_handled() {
    use control::session::ToAgent;
    use control::{Side, ToWorker};
    let tell = |number, message| ToAgent::ToWorker(number, Box::new(message));
    let good: Vec<u8> = [
        ToAgent::Clock(1),
        ToAgent::Spawn(1),
        tell(1, ToWorker::Listen(common::job("tcp", Side::Listen))),
        tell(1, ToWorker::Go(0)),
        ToAgent::EndWorker(1),
        ToAgent::Spawn(1),
        ToAgent::Spawn(2),
        tell(1, ToWorker::Listen(mixed())),
        tell(1, ToWorker::Stop),
        tell(
            2,
            ToWorker::Connect(common::job("udp", Side::Connect), Vec::new()),
        ),
        ToAgent::EndWorker(1),
        ToAgent::Leave,
    ]
    .iter()
    .flat_map(|request| control::frame::encode(request, 9999).expect("it fits"))
    .collect();
    fuzzed::session(&good);
    let seeds = std::env::var("TOWPATH_SEEDS")
        .ok()
        .and_then(|text| text.parse().ok());
    for seed in 0..seeds.unwrap_or(20_000u64) {
        let mut random = advisories::SplitMix64(seed);
        let mut octets = good.clone();
        for _ in 0..1 + random.next() % 6 {
            let at = random.next() as usize % octets.len();
            octets[at] = random.next() as u8;
        }
        fuzzed::frames(&octets);
        fuzzed::session(&octets);
    }
}

/// A sender with some messages much longer than the rest.
fn mixed() -> control::Job {
    let mut job = common::job("tcp", control::Side::Listen);
    job.role = control::Role::Both;
    job.mix = Some(control::Mix {
        small: 1,
        full: 1 << 20,
        small_percent: 50,
    });
    job
}

/// The control channel of a process of these tests, its standard input; None where the test runner runs its entry
/// point.
fn channel() -> Option<std::os::fd::OwnedFd> {
    use std::os::fd::AsFd;
    let channel = std::io::stdin().as_fd().try_clone_to_owned();
    let channel = channel.expect("standard input");
    let is_channel = rustix::net::sockopt::socket_domain(&channel).is_ok();
    is_channel.then_some(channel)
}

/// Entry point of these tests' workers: this program, with the control channel as standard input.
#[test]
fn worker_of_these_tests() {
    if let Some(channel) = channel() {
        loadgen::worker::main(channel);
    }
}

/// Entry point of workers as they are under an agent: without rights.
#[test]
fn worker_without_rights_of_these_tests() {
    if let Some(channel) = channel() {
        agent::server::privilege::drop_all(false).expect("rights can be dropped");
        loadgen::worker::main(channel);
    }
}

/// Entry point of the process that keeps the right to raw sockets.
#[test]
fn raw_sockets_of_these_tests() {
    if let Some(channel) = channel() {
        let interfaces = [testbed::INTERFACE.to_owned()];
        // An error is the agent's to see.
        let _ = agent::server::raw_sockets::run(channel, &interfaces, false);
    }
}
