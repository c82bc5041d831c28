//! Benchmarks of XTP endpoints, besides races: transactions, idle circuits, many circuits.
//!
//! `xtp_endpoint_bench transactions xtp|udp|tcp SECONDS CLIENT_CPU SERVER_CPU [busy|sleepy] [BYTES]` -
//! microseconds (median) from the request to the reply, of 64 bytes each if not given, set-up and close
//! included (UDP has neither); busy: both ends busy-poll instead of sleeping.
//! `xtp_endpoint_bench idle COUNT` - resident MB of the larger of two processes that hold COUNT
//! circuits between them, each of which carried a request and a reply.
//! `xtp_endpoint_bench many COUNT SECONDS SENDER_CPU RECEIVER_CPU` - MB/s that arrived over COUNT
//! circuits of one endpoint, all of which always have data to send.
//!
//! Each starts its peer as a separate process.

#[path = "bench/many.rs"]
mod many;
#[path = "bench/memory.rs"]
mod memory;
#[path = "bench/peer.rs"]
mod peer;

use many::{keep_full, receive_on_all};
use memory::resident_mb;
use peer::{Outcome, Peer, end_with_input, pin, print_place, wait_for_end};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};
use towpath::xtp::{Circuit, Endpoint, EndpointConfig};

const LIMIT: Duration = Duration::from_secs(20);

/// Bytes of a request, a reply, and a message of `idle`.
const SHORT: usize = 64;

/// Bytes of a message of `many`.
const LONG: usize = 16 << 10;

fn main() -> Outcome<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["transactions", kind, seconds, client, server, ref more @ ..] => {
            let bytes = more.get(1).map_or(Ok(SHORT), |bytes| bytes.parse())?;
            let measure = (seconds.parse()?, bytes);
            transactions(kind, measure, client, server, more.first() == Some(&"busy"))
        }
        ["idle", count] => idle(count.parse()?),
        ["many", count, seconds, sender, receiver] => {
            send_on_many(count.parse()?, seconds.parse()?, sender, receiver)
        }
        ["serve-xtp", cpu, ref more @ ..] => serve_xtp(cpu, more == ["busy"]),
        ["serve-udp", cpu, ref more @ ..] => serve_udp(cpu, more == ["busy"]),
        ["serve-tcp", cpu, ref more @ ..] => serve_tcp(cpu, more == ["busy"]),
        ["hold", count] => hold_circuits(count.parse()?),
        ["count", count, cpu] => count_bytes(count.parse()?, cpu),
        _ => Err("see the top of this file for how to call it".into()),
    }
}

fn local() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// Configuration of an endpoint that sleeps, or busy-polls for a second first.
fn settings(busy: bool) -> EndpointConfig {
    EndpointConfig {
        spin: Duration::from_secs(u64::from(busy)),
        ..EndpointConfig::default()
    }
}

/// Repeats a non-blocking call until it succeeds.
fn retry_while_blocked<T>(mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match attempt() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::hint::spin_loop(),
            other => return other,
        }
    }
}

fn transactions(
    kind: &str,
    span: (f64, usize),
    client: &str,
    server: &str,
    busy: bool,
) -> Outcome<()> {
    let role = format!("serve-{kind}");
    let peer = Peer::start(&[&role, server, if busy { "busy" } else { "sleepy" }])?;
    pin(client)?;
    let to: SocketAddr = peer.place.parse()?;
    let mut times_ns = match kind {
        "xtp" => {
            let endpoint = Endpoint::bind(local(), &settings(busy))?;
            measure(span, |request, reply| {
                Ok(endpoint.transact(to, request, reply, LIMIT)?)
            })
        }
        "udp" => {
            let socket = UdpSocket::bind(local())?;
            socket.set_nonblocking(busy)?;
            measure(span, |request, reply| {
                socket.send_to(request, to)?;
                Ok(retry_while_blocked(|| socket.recv_from(reply))?.0)
            })
        }
        "tcp" => measure(span, |request, reply| {
            let mut stream = TcpStream::connect(to)?;
            stream.set_nodelay(true)?;
            stream.write_all(request)?;
            stream.shutdown(std::net::Shutdown::Write)?;
            stream.set_nonblocking(busy)?;
            let mut len = 0;
            loop {
                match retry_while_blocked(|| stream.read(&mut reply[len..]))? {
                    0 => return Ok(len),
                    more => len += more,
                }
            }
        }),
        _ => Err("xtp, udp or tcp".into()),
    }?;
    peer.end()?;
    times_ns.sort_unstable();
    let p50_ns = times_ns[times_ns.len() / 2];
    println!("{:.3}", p50_ns as f64 / 1000.0);
    Ok(())
}

/// Times of transactions of so many bytes each way, for so many seconds.
fn measure(
    (seconds, bytes): (f64, usize),
    transact: impl Fn(&[u8], &mut [u8]) -> Outcome<usize>,
) -> Outcome<Vec<u64>> {
    let (request, mut reply) = (vec![7; bytes], [0; 4096]);
    let mut times_ns = Vec::new();
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let mut began = Instant::now();
    while began < end {
        let len = transact(&request, &mut reply)?;
        let ended = Instant::now();
        if reply[..len] != request[..] {
            return Err("a reply is not its request".into());
        }
        times_ns.push((ended - began).as_nanos() as u64);
        began = ended;
    }
    Ok(times_ns)
}

fn serve_xtp(cpu: &str, busy: bool) -> Outcome<()> {
    pin(cpu)?;
    let endpoint = Endpoint::bind(local(), &settings(busy))?;
    endpoint.listen(true);
    print_place(endpoint.local_addr())?;
    end_with_input();
    let mut request = [0; 4096];
    loop {
        let (accepted, len) = match endpoint.accept_request(&mut request, LIMIT) {
            Err(error) if error.kind() == io::ErrorKind::TimedOut => continue,
            other => other?,
        };
        accepted.reply(&request[..len], LIMIT)?;
    }
}

fn serve_udp(cpu: &str, busy: bool) -> Outcome<()> {
    pin(cpu)?;
    let socket = UdpSocket::bind(local())?;
    socket.set_nonblocking(busy)?;
    print_place(socket.local_addr()?)?;
    end_with_input();
    let mut request = [0; 4096];
    loop {
        let (len, from) = retry_while_blocked(|| socket.recv_from(&mut request))?;
        socket.send_to(&request[..len], from)?;
    }
}

fn serve_tcp(cpu: &str, busy: bool) -> Outcome<()> {
    pin(cpu)?;
    let listener = TcpListener::bind(local())?;
    listener.set_nonblocking(busy)?;
    print_place(listener.local_addr()?)?;
    end_with_input();
    let mut request = [0; 4096];
    loop {
        let (mut stream, _) = retry_while_blocked(|| listener.accept())?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(busy)?;
        let mut len = 0;
        loop {
            match retry_while_blocked(|| stream.read(&mut request[len..]))? {
                0 => break,
                more => len += more,
            }
        }
        stream.write_all(&request[..len])?;
    }
}

fn idle(count: usize) -> Outcome<()> {
    let peer = Peer::start(&["hold", &count.to_string()])?;
    let to: SocketAddr = peer.place.parse()?;
    let endpoint = Endpoint::bind(local(), &EndpointConfig::default())?;
    let mut circuits = Vec::with_capacity(count);
    let mut reply = [0; SHORT];
    for _ in 0..count {
        let mut circuit = endpoint.connect(to, LIMIT)?;
        circuit.send(&[7; SHORT], LIMIT)?;
        circuit.recv(&mut reply, LIMIT)?;
        circuits.push(circuit);
    }
    let ours = resident_mb()?;
    let theirs: f64 = peer.end()?.parse()?;
    println!("{:.1}", ours.max(theirs));
    // Closing ten thousand circuits is not measured.
    std::process::exit(0);
}

/// Holds `count` circuits, replies on each, and prints the resident memory.
fn hold_circuits(count: usize) -> Outcome<()> {
    let endpoint = Endpoint::bind(local(), &EndpointConfig::default())?;
    endpoint.listen(true);
    print_place(endpoint.local_addr())?;
    let mut circuits = Vec::with_capacity(count);
    let mut request = [0; SHORT];
    for _ in 0..count {
        let mut circuit = endpoint.accept(LIMIT)?;
        let len = circuit.recv(&mut request, LIMIT)?.unwrap_or(0);
        circuit.send(&request[..len], LIMIT)?;
        circuits.push(circuit);
    }
    wait_for_end()?;
    println!("{:.1}", resident_mb()?);
    std::process::exit(0);
}

/// Socket buffers for a batch of each of a thousand circuits, plus the kernel's overhead.
fn large_socket_buffers() -> EndpointConfig {
    EndpointConfig {
        socket_buffer_len: 256 << 20,
        ..EndpointConfig::default()
    }
}

fn send_on_many(count: usize, seconds: f64, sender: &str, receiver: &str) -> Outcome<()> {
    let peer = Peer::start(&["count", &count.to_string(), receiver])?;
    let to: SocketAddr = peer.place.parse()?;
    pin(sender)?;
    let endpoint = Endpoint::bind(local(), &large_socket_buffers())?;
    let mut circuits = Vec::with_capacity(count);
    for _ in 0..count {
        circuits.push(endpoint.connect(to, LIMIT)?);
    }
    let mut watch = endpoint.watch()?;
    let ids: Vec<_> = circuits.iter().map(Circuit::id).collect();
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    keep_full(&ids, &mut watch, (end, peer), |at| {
        circuits[at].try_send(&[7; LONG])
    })
}

/// Receives on `count` circuits until its input ends; prints MB/s received.
fn count_bytes(count: usize, cpu: &str) -> Outcome<()> {
    pin(cpu)?;
    let endpoint = Endpoint::bind(local(), &large_socket_buffers())?;
    endpoint.listen(true);
    print_place(endpoint.local_addr())?;
    let mut watch = endpoint.watch()?;
    let accept = || {
        let circuit = endpoint.try_accept()?;
        Ok((circuit.id(), circuit))
    };
    let all = (count, Duration::ZERO);
    let bytes_per_s = receive_on_all(all, &mut watch, accept, Circuit::try_recv)?;
    println!("{:.1}", bytes_per_s.unwrap_or(0.0) / 1e6);
    std::process::exit(0);
}
