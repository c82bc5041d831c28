//! Benchmarks of VMTP endpoints, besides races: calls, many callers, many clients.
//!
//! `vmtp_endpoint_bench call BYTES SECONDS CLIENT_CPU SERVER_CPU` - microseconds (median) of a call
//! whose request and reply have BYTES each.
//! `vmtp_endpoint_bench rate tasks|threads CALLERS SECONDS CLIENT_CPU SERVER_CPU` - calls of 20 B a
//! second of so many callers at one endpoint: entities in one thread, each of which calls again when its
//! turn comes and its reply has come; or a thread each.
//! `vmtp_endpoint_bench requests tasks|threads CALLERS BYTES SECONDS CLIENT_CPU SERVER_CPU` - megabits a second
//! that requests of BYTES carry, which are answered with 20 B, of so many callers.
//! `vmtp_endpoint_bench entities COUNT` - resident MB of the larger of two processes after COUNT
//! clients of an endpoint have called the other's server once.
//!
//! Each starts its peer as a separate process.

#[path = "bench/memory.rs"]
mod memory;
#[path = "bench/peer.rs"]
mod peer;

use memory::resident_mb;
use peer::{Outcome, Peer, pin, print_place, wait_for_end};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use towpath::vmtp::{Client, Endpoint, EndpointConfig, EntityId, Note};

const LIMIT: Duration = Duration::from_secs(20);

/// Bytes of a request and of a reply that lie in the header.
const SHORT: usize = 20;

/// The discriminator of the server.
const SERVER: u32 = 7;

fn main() -> Outcome<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["call", bytes, seconds, client, server] => {
            call(bytes.parse()?, seconds.parse()?, client, server)
        }
        ["rate", how, callers, seconds, client, server] => {
            let load = (callers.parse()?, SHORT, "serve");
            let calls_per_s = rate(how, load, seconds.parse()?, (client, server))?;
            println!("{calls_per_s:.1}");
            Ok(())
        }
        ["requests", how, callers, bytes, seconds, client, server] => {
            let bytes = bytes.parse()?;
            let load = (callers.parse()?, bytes, "serve-short");
            let calls_per_s = rate(how, load, seconds.parse()?, (client, server))?;
            println!("{:.1}", calls_per_s * bytes as f64 * 8e-6);
            Ok(())
        }
        ["entities", count] => entities(count.parse()?),
        ["serve", cpu] => serve(Some(cpu), usize::MAX),
        ["serve-short", cpu] => serve(Some(cpu), SHORT),
        ["serve"] => serve(None, usize::MAX),
        _ => Err("see the top of this file for how to call it".into()),
    }
}

fn local() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// The server, a process of its own.
struct Server {
    peer: Peer,
    address: SocketAddr,
    entity: EntityId,
}

impl Server {
    /// Starts this program with `words`, which make it serve.
    fn start(words: &[&str]) -> Outcome<Server> {
        let peer = Peer::start(words)?;
        let (address, entity) = peer
            .place
            .split_once(' ')
            .ok_or("two words were expected")?;
        Ok(Server {
            address: address.parse()?,
            entity: EntityId(entity.parse()?),
            peer,
        })
    }

    /// An endpoint that knows where the peer's server is.
    fn endpoint(&self) -> Outcome<Endpoint> {
        let endpoint = Endpoint::bind(local(), &EndpointConfig::default())?;
        endpoint.locate(self.entity, self.address);
        Ok(endpoint)
    }
}

/// Answers each request with its own bytes, `len_max` at most, and prints the resident memory when its input
/// ends.
fn serve(cpu: Option<&str>, len_max: usize) -> Outcome<()> {
    if let Some(cpu) = cpu {
        pin(cpu)?;
    }
    let endpoint = Endpoint::bind(local(), &EndpointConfig::default())?;
    let entity = endpoint.create_entity(SERVER)?;
    print_place(format_args!("{} {}", endpoint.local_addr(), entity.0))?;
    let over = std::thread::spawn(wait_for_end);
    let answer = |octets: &[u8]| octets[..octets.len().min(len_max)].to_vec();
    endpoint.serve(1, |request| answer(&request.octets), || over.is_finished());
    println!("{:.1}", resident_mb()?);
    std::process::exit(0);
}

fn call(bytes: usize, seconds: f64, client: &str, server: &str) -> Outcome<()> {
    let process = Server::start(&["serve", server])?;
    pin(client)?;
    let endpoint = process.endpoint()?;
    let caller = endpoint.create_client()?;
    let request: Arc<[u8]> = vec![7; bytes].into();
    let mut times_ns = Vec::new();
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let mut began = Instant::now();
    while began < end {
        let reply = caller.call(process.entity, Arc::clone(&request), LIMIT)?;
        let ended = Instant::now();
        if reply.octets[..] != request[..] {
            return Err("a reply is not its request".into());
        }
        times_ns.push((ended - began).as_nanos() as u64);
        began = ended;
    }
    process.peer.end()?;
    times_ns.sort_unstable();
    let p50_ns = times_ns[times_ns.len() / 2];
    println!("{:.3}", p50_ns as f64 / 1000.0);
    Ok(())
}

/// Calls of one kind.
struct Calls {
    server: EntityId,
    request: Arc<[u8]>,
}

/// Calls a second of so many callers with requests of so many bytes, to a server that is started by a word.
fn rate(
    how: &str,
    (callers, bytes, serve): (usize, usize, &str),
    seconds: f64,
    (client, server): (&str, &str),
) -> Outcome<f64> {
    let process = Server::start(&[serve, server])?;
    pin(client)?;
    let endpoint = process.endpoint()?;
    let clients: Result<Vec<Client>, _> = (0..callers).map(|_| endpoint.create_client()).collect();
    let clients = clients?;
    let span = Duration::from_secs_f64(seconds);
    let calls = Calls {
        server: process.entity,
        request: vec![7; bytes].into(),
    };
    let run = |span: Duration| match how {
        "tasks" => call_in_turn(&clients, &calls, span),
        "threads" => call_in_threads(&clients, &calls, span),
        _ => Err("tasks or threads".into()),
    };
    // Warm-up: the server learns the clients.
    run(span / 4)?;
    let began = Instant::now();
    let calls = run(span)?;
    let calls_per_s = calls as f64 / began.elapsed().as_secs_f64();
    process.peer.end()?;
    Ok(calls_per_s)
}

/// All clients in this thread, in turn.
fn call_in_turn(clients: &[Client], calls: &Calls, span: Duration) -> Outcome<u64> {
    let begin =
        |client: &Client| client.begin(calls.server, Arc::clone(&calls.request), &Note::default());
    let mut begun: Vec<_> = clients.iter().map(begin).collect();
    let end = Instant::now() + span;
    let mut answered = 0;
    while Instant::now() < end {
        for (client, call) in clients.iter().zip(&mut begun) {
            client.take(call, LIMIT).ok_or("a call took too long")??;
            *call = begin(client);
            answered += 1;
        }
    }
    for (client, call) in clients.iter().zip(&begun) {
        client.take(call, LIMIT).ok_or("a call took too long")??;
        answered += 1;
    }
    Ok(answered)
}

fn call_in_threads(clients: &[Client], calls: &Calls, span: Duration) -> Outcome<u64> {
    let answered = AtomicU64::new(0);
    let end = Instant::now() + span;
    let work = |client: &Client| -> io::Result<()> {
        while Instant::now() < end {
            client.call(calls.server, Arc::clone(&calls.request), LIMIT)?;
            answered.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    };
    let work = &work;
    std::thread::scope(|scope| -> Outcome<()> {
        let threads: Vec<_> = clients
            .iter()
            .map(|client| scope.spawn(move || work(client)))
            .collect();
        for thread in threads {
            thread.join().map_err(|_| "a caller panicked")??;
        }
        Ok(())
    })?;
    Ok(answered.into_inner())
}

fn entities(count: usize) -> Outcome<()> {
    let process = Server::start(&["serve"])?;
    let endpoint = process.endpoint()?;
    let mut clients = Vec::with_capacity(count);
    for _ in 0..count {
        let client = endpoint.create_client()?;
        client.call(process.entity, &[7; SHORT][..], LIMIT)?;
        clients.push(client);
    }
    let ours = resident_mb()?;
    let theirs: f64 = process.peer.end()?.parse()?;
    println!("{:.1}", ours.max(theirs));
    Ok(())
}
