//! Messages a second of each transport between two threads, for a quick look while working on one.
//!
//! `cargo run --release -p towpath --example rates -- [TRANSPORT ...] [BYTES ...]`
//!
//! It is no measurement: one run, no pairing, no statistics. `towpath race` is.

use std::io::ErrorKind::WouldBlock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use towpath::{Circuit, Options, Transport, all, find};

/// How long each transport runs.
const SPAN: Duration = Duration::from_millis(700);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (mut transports, mut lengths) = (Vec::new(), Vec::new());
    for argument in std::env::args().skip(1) {
        match argument.parse::<usize>() {
            Ok(len) => lengths.push(len),
            Err(_) => transports.push(find(&argument)?),
        }
    }
    if transports.is_empty() {
        transports = all().to_vec();
    }
    if lengths.is_empty() {
        lengths = vec![64, 1400, 16384];
    }
    for transport in transports {
        for &message_len in &lengths {
            let options = Options {
                message_len,
                interface: Some("lo".into()),
                ..Options::default()
            };
            match transport.available(&options) {
                Ok(()) => look(transport, &options)?,
                Err(why) => println!("{:14} {}; {}", transport.name(), why.reason, why.remedy),
            }
        }
    }
    Ok(())
}

fn look(transport: &dyn Transport, options: &Options) -> std::io::Result<()> {
    let mut listener = transport.listen(options)?;
    let rendezvous = listener.rendezvous()?;
    let over = AtomicBool::new(false);
    let (bytes, server, client) = std::thread::scope(|scope| {
        let sending = scope.spawn(|| {
            let mut client = transport.connect(&rendezvous, 0, options)?;
            send(&mut *client, options.message_len, &over);
            Ok::<_, std::io::Error>((client.effective(), client.counts()))
        });
        let mut server = listener.accept(Instant::now() + Duration::from_secs(5))?;
        let bytes = receive(&mut *server);
        over.store(true, Ordering::Relaxed);
        drop(server);
        let (effective, counts) = sending.join().expect("the sender ends")?;
        Ok::<_, std::io::Error>((bytes, effective, counts))
    })?;
    let seconds = SPAN.as_secs_f64();
    println!(
        "{:14} {:6} B {:12.0}/s {:8.2} Gbit/s  {server:?} {client:?}",
        transport.name(),
        options.message_len,
        bytes as f64 / options.message_len as f64 / seconds,
        bytes as f64 * 8e-9 / seconds,
    );
    Ok(())
}

fn send(circuit: &mut dyn Circuit, len: usize, over: &AtomicBool) {
    let message = vec![0x5a; len];
    while !over.load(Ordering::Relaxed) {
        match circuit.send_run(&message, 64) {
            Ok(_) => {}
            Err(error) if error.kind() == WouldBlock => {}
            Err(_) => return,
        }
    }
}

/// Receives for the span, after a tenth of it to get going; gives the bytes.
fn receive(circuit: &mut dyn Circuit) -> u64 {
    let mut buffer = vec![0; 64 << 10];
    let start = Instant::now() + SPAN / 10;
    let (mut bytes, mut counting) = (0, false);
    loop {
        let now = Instant::now();
        if !counting && now >= start {
            (bytes, counting) = (0, true);
        }
        if now >= start + SPAN {
            return bytes;
        }
        match circuit.recv_run(&mut buffer, 64) {
            Ok(Some(arrived)) => bytes += arrived.bytes,
            Ok(None) => return bytes,
            Err(_) => {}
        }
    }
}
