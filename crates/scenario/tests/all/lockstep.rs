//! The same packets, simulated and on an emulated link: one message at a time, losses by the number
//! of the packet, timers of 200 ms and more.

use crate::recorder::{self, testbed};
use driver::Endpoint;
use engine::Address;
use engine_xtp::Xtp;
use engine_xtp::pdu::Packet;
use scenario::engines::xtp_config;
use scenario::{Scenario, parse};
use sim::PacketEvent;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use testbed::Testbed;
use wire_udp::UdpWire;

/// Fields of a packet that must be equal in both.
type PacketRecord = (usize, String, u64, usize, u32);

const SEED: u64 = 11;
const MESSAGES: u64 = 12;
const LEN: u64 = 4000;
const LIMIT: Duration = Duration::from_secs(20);

/// The link as the testbed's option; the scenario has the same values.
const LINK: &str = "loss=12%,delay=2ms";

fn scenario() -> Scenario {
    let text = format!(
        r#"
seed = {SEED}
time_limit = "600 s"
[medium]
kind = "direct"
delay = "2 ms"
[faults]
loss = "12%"
[[station]]
count = 2
engine = {{ protocol = "xtp", packet = 1472, status_delay = "200 ms", wait_min = "200 ms", wait_initial = "500 ms", keep_alive = "0 s" }}
[[traffic]]
from = [0]
to = [1]
length = {{ fixed = {LEN} }}
interarrival = {{ fixed = "1 ms" }}
messages = {MESSAGES}
outstanding = 1
"#
    );
    parse(&text).unwrap_or_else(|error| panic!("{error}"))
}

/// Direction, type, sequence, length and flags.
fn packet_record(from: usize, packet: &[u8]) -> PacketRecord {
    let parsed = Packet::parse(packet).expect("an engine's own packet");
    let header = &parsed.header;
    let format = format!("{:?}", parsed.body.format());
    (from, format, header.seq, packet.len(), header.options.0)
}

fn simulated() -> Vec<PacketRecord> {
    let scenario = scenario();
    let packets = Arc::new(Mutex::new(Vec::new()));
    let writer = Arc::clone(&packets);
    let outcome = scenario::run(&scenario, &[], SEED, move |network| {
        network.observe(move |observation| {
            if observation.event == PacketEvent::Offered {
                let mut packets = writer.lock().expect("nobody panicked");
                packets.push(packet_record(observation.from, observation.packet));
            }
        });
    })
    .expect("it builds");
    assert_eq!(outcome.total.settled, MESSAGES, "{outcome:?}");
    assert!(outcome.stations[0].retransmissions > 0, "losses matter");
    let packets = packets.lock().expect("nobody panicked");
    packets.clone()
}

fn emulated(testbed: &Testbed) -> Vec<PacketRecord> {
    let packets = Arc::new(Mutex::new(Vec::new()));
    let spec = scenario().station[0].engine.clone();
    let [left, right] = [0, 1].map(|from| {
        let host = &testbed.hosts()[from];
        let address = SocketAddr::new(host.address(), 4000);
        let wire = host.run(move || UdpWire::bind(address));
        let mut wire = wire.expect("the host lives").expect("a socket");
        wire.disable_segmentation().expect("it can be turned off");
        let config = xtp_config(&spec, SEED + from as u64).expect("good options");
        let recorder = recorder::record(wire, from, &packets);
        let endpoint = Endpoint::new(Xtp::new(config), recorder, 1 << 20);
        (endpoint.expect("a helper"), address)
    });
    testbed.begin(SEED);
    right.0.listen(true);
    let receiver = std::thread::spawn(move || {
        let mut circuit = right.0.accept(LIMIT).expect("a circuit");
        let mut buffer = vec![0; LEN as usize];
        for _ in 0..MESSAGES {
            let len = circuit.recv(&mut buffer, LIMIT).expect("a message");
            assert_eq!(len, Some(LEN as usize));
        }
        circuit
    });
    let circuit = left.0.connect(Address::Socket(right.1), LIMIT);
    let mut circuit = circuit.expect("it connects");
    for _ in 0..MESSAGES {
        std::thread::sleep(Duration::from_millis(1));
        circuit.send(&[7; LEN as usize], LIMIT).expect("sent");
        circuit.drain(LIMIT).expect("acknowledged");
    }
    let mut packets = packets.lock().expect("nobody panicked").clone();
    testbed.end();
    packets.sort_by_key(|packet| packet.at);
    drop(receiver.join().expect("the receiver ends"));
    let records = packets.iter();
    records
        .map(|sent| packet_record(sent.from, &sent.octets))
        .collect()
}

#[test]
fn simulated_and_emulated_link_carry_same_packets() {
    let simulated = simulated();
    let Some(testbed) = testbed(LINK, SEED) else {
        return;
    };
    let emulated = emulated(&testbed);
    for (index, (simulated, emulated)) in simulated.iter().zip(&emulated).enumerate() {
        assert_eq!(simulated, emulated, "packet {index}");
    }
    assert_eq!(simulated.len(), emulated.len());
    assert!(simulated.len() as u64 > 4 * MESSAGES, "{}", simulated.len());
}
