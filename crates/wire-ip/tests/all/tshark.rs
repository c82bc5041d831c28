//! tshark reads XTP packets that crossed an interface.

use crate::LIMIT;
use capture::Capture;
use capture::socket::CaptureConfig;
use driver::Endpoint;
use engine::Address;
use engine_xtp::{Config, Xtp};
use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use testbed::{Host, INTERFACE, Testbed, TestbedPlan};
use wire_ip::IpWire;

/// IP protocol number of XTP (IANA).
const XTP: u8 = 36;

/// User bytes: more than a window, so that the capture has every kind of acknowledgement.
const LEN: usize = 3 << 20;

#[test]
fn tshark_reads_xtp_over_raw_ip_without_errors() {
    for ipv6 in [false, true] {
        let mut plan = TestbedPlan::pair("rate=100mbit,delay=1ms".parse().expect("a link"), 1);
        plan.ipv6 = ipv6;
        let Some(testbed) = Testbed::up_or_skip(&plan) else {
            return;
        };
        let file = Scratch::new(ipv6);
        let out = File::create(&file.0).expect("room for a file");
        let capture = testbed.hosts()[1].run(move || {
            let capture = Capture::start(&[INTERFACE], out, &CaptureConfig::default());
            capture.expect("the host's owner may capture in it")
        });
        let capture = capture.expect("the host lives");
        converse(&testbed, ipv6);
        let totals = capture.stop().expect("the file is whole");
        assert_eq!(totals.dropped, 0);
        check(&file.0, ipv6);
    }
}

/// A file that is removed when it goes out of scope.
struct Scratch(PathBuf);

impl Scratch {
    fn new(ipv6: bool) -> Scratch {
        let name = format!("towpath-wire-ip-{}-{ipv6}.pcapng", std::process::id());
        Scratch(std::env::temp_dir().join(name))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn endpoint(host: &Host, ipv6: bool) -> (Endpoint<Xtp, IpWire>, Address) {
    let local = match ipv6 {
        false => host.address(),
        true => host.address6(),
    };
    let wire = host.run(move || IpWire::bind(local, XTP));
    let wire = wire
        .expect("the host lives")
        .expect("its owner may open sockets");
    let config = Config {
        packet_len: 1460,
        port: 7,
        shared_address: true,
        ..Config::default()
    };
    let endpoint = Endpoint::new(Xtp::new(config), wire, 512 << 10).expect("a thread");
    (endpoint, Address::Socket(SocketAddr::new(local, 0)))
}

fn converse(testbed: &Testbed, ipv6: bool) {
    let (far, to) = endpoint(&testbed.hosts()[1], ipv6);
    far.listen(true);
    let (near, _) = endpoint(&testbed.hosts()[0], ipv6);
    let sending = std::thread::spawn(move || {
        let mut circuit = near.connect(to, LIMIT).expect("it listens");
        for number in 0..LEN / 4096 {
            circuit.send(&[number as u8; 4096], LIMIT).expect("room");
        }
        circuit.finish().expect("the end is sent");
        circuit.drain(LIMIT).expect("all arrives");
        (near, circuit)
    });
    let mut circuit = far.accept(LIMIT).expect("a peer");
    let mut buffer = vec![0; 64 << 10];
    let mut got = 0;
    while let Some(len) = circuit.recv(&mut buffer, LIMIT).expect("bytes") {
        for (at, &octet) in (got..).zip(&buffer[..len]) {
            assert_eq!(octet, (at / 4096) as u8);
        }
        got += len;
    }
    assert_eq!(got, LEN);
    // It stays until the close has been acknowledged.
    let _near = sending.join().expect("it was sent");
    circuit.finish().expect("the end is sent");
    circuit.drain(LIMIT).expect("the peer acknowledges it");
}

const FIELDS: [&str; 7] = [
    "_ws.col.Protocol",
    "ip.proto",
    "ipv6.nxt",
    "ip.checksum.status",
    "xtp.checksum.status",
    "_ws.malformed",
    "_ws.expert.message",
];

/// Every packet of the protocol is XTP with a good checksum and without expert messages.
fn check(file: &Path, ipv6: bool) {
    let mut command = Command::new("tshark");
    command.args(["-n", "-o", "ip.check_checksum:TRUE", "-T", "fields"]);
    command.args(["-E", "separator=/t", "-E", "occurrence=f"]);
    for field in FIELDS {
        command.args(["-e", field]);
    }
    let Ok(output) = command.arg("-r").arg(file).output() else {
        eprintln!("SKIPPED: tshark is not installed");
        return;
    };
    let text = String::from_utf8(output.stdout).expect("text");
    let wanted = match ipv6 {
        false => ["XTP", "36", "", "1", "1", "", ""],
        true => ["XTP", "", "36", "", "1", "", ""],
    };
    let number = if ipv6 { 2 } else { 1 };
    let mut good = 0;
    for line in text.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        // The capture has neighbour discovery too.
        if fields[number] == "36" {
            assert_eq!(fields, wanted);
            good += 1;
        }
    }
    assert!(good > LEN / 1460, "{good} packets");
}
