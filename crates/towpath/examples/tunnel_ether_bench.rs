//! Benchmarks of XTP's carriers and of the TCP tunnel, besides races; each prints one number.
//!
//! `tunnel_ether_bench forward bare|through|shortcut SECONDS` - MB/s of user data over a TCP
//! connection, direct, through a tunnel by UDP, or through one by shared memory, all on the loopback:
//! sender and near end on CPU 0, the rest on CPU 1.
//! `tunnel_ether_bench ether bare|xtp SECONDS` - frames of 1400 octets per second received between
//! two hosts of a testbed, by the packet ring alone or by XTP above it. Needs root, or unprivileged
//! user namespaces.

use driver::Endpoint;
use engine::Associations;
use engine_xtp::{Config, Xtp};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::error::Error;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use testbed::{INTERFACE, Testbed, TestbedPlan, enter_user_namespace};
use towpath::tunnel::Tunnel;
use towpath::xtp::{EndpointConfig, Shortcut};
use wire::Wire;
use wire_ether::{EtherWire, Interface};

type Outcome<T> = Result<T, Box<dyn Error>>;

const LIMIT: Duration = Duration::from_secs(10);

/// Octets of a frame's payload.
const PACKET: usize = 1400;

/// Frames per batch.
const BATCH: usize = 32;

fn main() -> Outcome<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let [what, how, seconds] = words[..] else {
        return Err("see the top of this file for how to call it".into());
    };
    let span = Duration::from_secs_f64(seconds.parse()?);
    let value = match (what, how) {
        ("forward", "bare") => forward(None, span)?,
        ("forward", "through") => forward(Some(Shortcut::Off), span)?,
        ("forward", "shortcut") => forward(Some(Shortcut::On), span)?,
        ("ether", "bare") => ether(span, bare)?,
        ("ether", "xtp") => ether(span, xtp)?,
        _ => return Err("see the top of this file for how to call it".into()),
    };
    println!("{value:.3}");
    Ok(())
}

/// Starts a thread pinned to one CPU.
fn on<R: Send + 'static>(cpu: usize, work: impl FnOnce() -> R + Send + 'static) -> JoinHandle<R> {
    std::thread::spawn(move || {
        let mut set = CpuSet::new();
        set.set(cpu);
        // Without such a CPU the scheduler chooses.
        let _ = sched_setaffinity(None, &set);
        work()
    })
}

fn join<R>(thread: JoinHandle<io::Result<R>>) -> Outcome<R> {
    Ok(thread.join().map_err(|_| "a thread panicked")??)
}

fn local() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// Through a tunnel with this shortcut, or without one.
fn forward(through: Option<Shortcut>, span: Duration) -> Outcome<f64> {
    let listener = TcpListener::bind(local())?;
    let target = listener.local_addr()?;
    let receiving = on(1, move || {
        let (mut tcp, _) = listener.accept()?;
        let (mut buffer, mut bytes) = (vec![0; 64 << 10], 0);
        let mut began = None;
        loop {
            match tcp.read(&mut buffer)? {
                0 => break,
                len => bytes += len,
            }
            began.get_or_insert_with(Instant::now);
        }
        let seconds = began.map_or(0.0, |began| began.elapsed().as_secs_f64());
        Ok::<f64, io::Error>(bytes as f64 / 1e6 / seconds.max(1e-9))
    });
    let stop = Arc::new(AtomicBool::new(false));
    let mut ends = Vec::new();
    let mut entry = target;
    if let Some(shortcut) = through {
        let settings = EndpointConfig {
            shortcut,
            ..EndpointConfig::default()
        };
        for cpu in [1, 0] {
            let settings = settings.clone();
            let (to, stop) = (entry, Arc::clone(&stop));
            let (sender, made) = std::sync::mpsc::channel();
            ends.push(on(cpu, move || {
                let mut end = match cpu {
                    1 => Tunnel::from_xtp(local(), to, &settings)?,
                    _ => Tunnel::to_xtp(local(), to, &settings)?,
                };
                let _ = sender.send(end.local_addr()?);
                end.run(&stop)
            }));
            entry = made.recv_timeout(LIMIT)?;
        }
    }
    let sending = on(0, move || {
        let mut tcp = TcpStream::connect(entry)?;
        let (message, end) = (vec![1; 16 << 10], Instant::now() + span);
        while Instant::now() < end {
            tcp.write_all(&message)?;
        }
        Ok::<(), io::Error>(())
    });
    join(sending)?;
    let rate = join(receiving)?;
    stop.store(true, Ordering::Relaxed);
    for end in ends {
        join(end)?;
    }
    Ok(rate)
}

/// Runs `measure` on wires of two hosts.
fn ether(span: Duration, measure: fn([EtherWire; 2], Duration) -> Outcome<f64>) -> Outcome<f64> {
    enter_user_namespace()?;
    let testbed = Testbed::up(&TestbedPlan::pair("kernel".parse()?, 1))?;
    let mut wires = Vec::new();
    for host in testbed.hosts() {
        let made = host.run(|| {
            let settings = wire_ether::EtherWireConfig {
                encapsulation: wire_ether::Encapsulation::EtherType,
                ethertype: 0x817d,
                packet_max: PACKET,
                bypass: false,
            };
            EtherWire::open(Interface::find(INTERFACE)?, &settings)
        });
        wires.push(made??);
    }
    let wires = wires.try_into().map_err(|_| "a testbed has two hosts")?;
    measure(wires, span)
}

fn bare([mut near, far]: [EtherWire; 2], span: Duration) -> Outcome<f64> {
    let to = far.address();
    let done = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&done);
    let receiving = on(1, move || {
        let receiver = far.receiver().ok_or(ErrorKind::Unsupported)?;
        let mut buffer = vec![0; far.capabilities().receive_len];
        let mut frames = 0;
        while !ended.load(Ordering::Relaxed) {
            match receiver.receive(&mut buffer) {
                Ok(arrival) => frames += arrival.len / PACKET,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(frames)
    });
    let sending = on(0, move || {
        let octets = vec![1; PACKET * BATCH];
        let end = Instant::now() + span;
        while Instant::now() < end {
            match near.send(to.into(), &[IoSlice::new(&octets)], PACKET) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::yield_now(),
                other => other?,
            }
        }
        Ok::<(), io::Error>(())
    });
    join(sending)?;
    done.store(true, Ordering::Relaxed);
    Ok(join(receiving)? as f64 / span.as_secs_f64())
}

fn xtp([near, far]: [EtherWire; 2], span: Duration) -> Outcome<f64> {
    let to = far.address();
    let engine = |seed| {
        Xtp::new(Config {
            packet_len: PACKET,
            checksum: false,
            port: 7,
            shared_address: true,
            seed,
            ..Config::default()
        })
    };
    let payload = engine(1).layout(None).payload;
    let receiving = on(1, move || {
        let endpoint = Endpoint::new(engine(1), far, 512 << 10)?;
        endpoint.listen(true);
        let mut circuit = endpoint.accept(LIMIT)?;
        let (mut buffer, mut bytes) = (vec![0; 64 << 10], 0);
        while let Some(len) = circuit.recv(&mut buffer, LIMIT)? {
            bytes += len;
        }
        circuit.finish()?;
        let _ = circuit.drain(Duration::from_millis(100));
        Ok(bytes)
    });
    let sending = on(0, move || {
        let endpoint = Endpoint::new(engine(2), near, 512 << 10)?;
        let mut circuit = endpoint.connect(to, LIMIT)?;
        let message = vec![1; 16 << 10];
        let end = Instant::now() + span;
        while Instant::now() < end {
            circuit.send(&message, LIMIT)?;
        }
        circuit.finish()?;
        circuit.drain(LIMIT)
    });
    join(sending)?;
    let bytes: usize = join(receiving)?;
    Ok((bytes / payload) as f64 / span.as_secs_f64())
}
