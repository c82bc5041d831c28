//! Answers a second to a flood of INITs, and of a UDP echo for comparison.
//!
//! `sctp_flood_bench sctp|udp SECONDS FLOODER_CPU SERVER_CPU` - answers a second that came back.
//!
//! The flooder is the same for both: packets of one length by plain calls, [`OUTSTANDING`] of them
//! unanswered. Each INIT has another tag and another port, as if each came from another peer. The
//! server is a process of its own.

#[path = "bench/peer.rs"]
mod peer;

use driver::Endpoint;
use engine_sctp::numbers::{Port, Tag, Tsn};
use engine_sctp::pdu::header::complete_checksum;
use engine_sctp::pdu::init::{Init, InitParameters};
use engine_sctp::pdu::{ChunkType, CommonHeader};
use engine_sctp::{Sctp, SctpConfig};
use peer::{Outcome, Peer, end_with_input, pin, print_place};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};
use wire_udp::UdpWire;

/// Packets without an answer yet: enough that the server never waits, and few enough for its socket.
const OUTSTANDING: u32 = 64;

/// Answers that are missing so long are given up.
const LOST_AFTER: Duration = Duration::from_millis(100);

fn main() -> Outcome<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [kind @ ("sctp" | "udp"), seconds, flooder, server] => {
            println!("{}", flood(kind, seconds.parse()?, (flooder, server))?);
            Ok(())
        }
        ["serve-sctp", cpu] => serve_sctp(cpu),
        ["serve-udp", cpu] => serve_udp(cpu),
        _ => Err("see the top of this file for how to call it".into()),
    }
}

/// Answers a second.
fn flood(kind: &str, seconds: f64, (own_cpu, server_cpu): (&str, &str)) -> Outcome<f64> {
    let server = Peer::start(&[&format!("serve-{kind}"), server_cpu])?;
    let address: SocketAddr = server.place.parse()?;
    pin(own_cpu)?;
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.connect(address)?;
    socket.set_read_timeout(Some(LOST_AFTER))?;
    let answers = exchange(&socket, kind == "sctp", Duration::from_secs_f64(seconds))?;
    server.end()?;
    Ok(answers as f64 / seconds)
}

/// Answers that came within `span`.
fn exchange(socket: &UdpSocket, is_sctp: bool, span: Duration) -> Outcome<u64> {
    let (mut answers, mut sent, mut outstanding) = (0, 0, 0);
    let mut buffer = [0; 2048];
    let began = Instant::now();
    while began.elapsed() < span {
        while outstanding < OUTSTANDING {
            sent += 1;
            socket.send(&init(sent))?;
            outstanding += 1;
        }
        match socket.recv(&mut buffer) {
            Ok(len) => {
                let is_answer = !is_sctp || len > 12 && buffer[12] == ChunkType::INIT_ACK.0;
                answers += u64::from(is_answer);
                outstanding -= 1;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => outstanding = 0,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(answers)
}

/// An INIT of the peer number `number`.
fn init(number: u32) -> Vec<u8> {
    let header = CommonHeader {
        source: Port(1024 + (number % 60_000) as u16),
        destination: SctpConfig::default().port,
        tag: Tag::NONE,
    };
    let mut packet = header.emit().to_vec();
    let init = Init {
        tag: Tag(number),
        rwnd: 128 << 10,
        outbound_streams: 10,
        inbound_streams: 10,
        initial_tsn: Tsn(number),
        parameters: InitParameters::default(),
    };
    init.push(&mut packet, ChunkType::INIT);
    complete_checksum(&mut packet);
    packet
}

fn serve_sctp(cpu: &str) -> Outcome<()> {
    pin(cpu)?;
    let wire = UdpWire::bind("127.0.0.1:0".parse()?)?;
    let address = wire.local_addr()?;
    let endpoint = Endpoint::new(Sctp::new(SctpConfig::default()), wire, 64 << 10)?;
    endpoint.listen(true);
    print_place(address)?;
    end_with_input();
    loop {
        // No INIT of the flood is followed by a COOKIE-ECHO.
        match endpoint.accept(Duration::from_secs(1)) {
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {}
            Err(error) => return Err(error.into()),
            Ok(_) => return Err("the flood opened an association".into()),
        }
    }
}

fn serve_udp(cpu: &str) -> Outcome<()> {
    pin(cpu)?;
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    print_place(socket.local_addr()?)?;
    end_with_input();
    let mut buffer = [0; 2048];
    loop {
        let (len, from) = socket.recv_from(&mut buffer)?;
        socket.send_to(&buffer[..len], from)?;
    }
}
