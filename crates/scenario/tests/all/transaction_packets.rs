//! Transactions of VMTP have the same packets in virtual time, on the loopback, where races run, and on
//! a link between two namespaces.

use crate::recorder::{self, SentPacket, testbed};
use driver::transactions::TransactionEndpoint;
use engine::{Address, EntityId};
use engine_vmtp::{Vmtp, VmtpConfig};
use scenario::engines::vmtp_config;
use scenario::{Scenario, parse};
use sim::PacketEvent;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wire_udp::UdpWire;

const SEED: u64 = 21;
const CALLS: usize = 3;
const LIMIT: Duration = Duration::from_secs(30);
/// Longer than any test: without loss no timer of a live endpoint is to expire.
const NEVER: Duration = Duration::from_secs(3600);

/// Messages in a header, in one packet, in one whole packet group, and in three.
const LENGTHS: [usize; 4] = [20, 700, 16_384, 40_000];

/// What must be equal: flags of the control word without the gap, what is asked, which blocks, and the
/// octets of the packet.
type PacketKind = (u32, u32, u32, usize);

fn kind(packet: &[u8]) -> PacketKind {
    let word = |at: usize| u32::from_be_bytes(packet[at..at + 4].try_into().expect("four octets"));
    (word(12) & !0xff00, word(32), word(20), packet.len())
}

/// A Response with a segment, none of which is in the packet: whether it has come.
fn is_question(kind: &PacketKind) -> bool {
    let (control, flags, delivery, _) = *kind;
    control & 1 == 1 && flags & 1 << 28 != 0 && delivery == 0
}

/// What each station sent until the server asks whether the last Response has come.
fn of_each(packets: &[(usize, PacketKind)]) -> [Vec<PacketKind>; 2] {
    let calls = packets.iter().take_while(|(_, kind)| !is_question(kind));
    let calls: Vec<_> = calls.collect();
    [0, 1].map(|station| {
        let sent = calls.iter().filter(|(from, _)| *from == station);
        sent.map(|(_, kind)| *kind).collect()
    })
}

fn scenario(len: usize) -> Scenario {
    let text = format!(
        r#"
seed = {SEED}
time_limit = "60 s"
[medium]
kind = "direct"
delay = "1 ms"
[[station]]
count = 2
engine = {{ protocol = "vmtp", packet = 1472 }}
[[traffic]]
from = [0]
to = [1]
length = {{ fixed = {len} }}
interarrival = {{ fixed = "1 us" }}
messages = {CALLS}
outstanding = 1
reply = "same"
"#
    );
    parse(&text).unwrap_or_else(|error| panic!("{error}"))
}

fn simulated(len: usize) -> [Vec<PacketKind>; 2] {
    let packets = Arc::new(Mutex::new(Vec::new()));
    let writer = Arc::clone(&packets);
    let outcome = scenario::run(&scenario(len), &[], SEED, move |network| {
        network.observe(move |observation| {
            if observation.event == PacketEvent::Offered {
                let record = (observation.from, kind(observation.packet));
                writer.lock().expect("nobody panicked").push(record);
            }
        });
    })
    .expect("it builds");
    assert_eq!(outcome.total.settled, CALLS as u64, "{outcome:?}");
    let packets = packets.lock().expect("nobody panicked");
    of_each(&packets)
}

/// Calls between endpoints on these two wires.
fn on_wires(len: usize, [near, far]: [(UdpWire, SocketAddr); 2]) -> [Vec<PacketKind>; 2] {
    let packets = Arc::new(Mutex::new(Vec::new()));
    let far_address = far.1;
    let mut from = 0..2;
    let [client, server] = [near, far].map(|(mut wire, _)| {
        let station = from.next().expect("two");
        wire.disable_segmentation().expect("it can be turned off");
        let spec = scenario(len).station[0].engine.clone();
        let config = vmtp_config(&spec, SEED + station as u64).expect("good options");
        let engine = Vmtp::new(VmtpConfig {
            service_wait: NEVER,
            rtt_initial: NEVER,
            packet_wait: NEVER,
            ..config
        });
        let recorder = recorder::record(wire, station, &packets);
        let endpoint = TransactionEndpoint::new(engine, recorder).expect("a helper");
        endpoint.create_entity(entity(station)).expect("room");
        endpoint
    });
    client.locate(entity(1), Address::Socket(far_address));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                if let Ok(mut request) = server.receive(Duration::from_millis(20)) {
                    let octets = std::mem::take(&mut request.octets);
                    server.reply(request, octets);
                }
            }
        });
        for _ in 0..CALLS {
            let replied = client.call(entity(0), entity(1), vec![7; len], LIMIT);
            is_over.fetch_or(replied.is_err(), Ordering::Relaxed);
            assert_eq!(replied.expect("a reply").len(), len);
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let packets = packets.lock().expect("nobody panicked").clone();
    of_each(&in_order(packets))
}

fn in_order(mut packets: Vec<SentPacket>) -> Vec<(usize, PacketKind)> {
    packets.sort_by_key(|packet| packet.at);
    let packets = packets.iter();
    packets
        .map(|sent| (sent.from, kind(&sent.octets)))
        .collect()
}

fn entity(station: usize) -> EntityId {
    EntityId(station as u64)
}

fn bound(at: SocketAddr) -> (UdpWire, SocketAddr) {
    let wire = UdpWire::bind(at).expect("a socket");
    let local = wire.local_addr().expect("an address");
    (wire, local)
}

#[test]
fn transaction_has_the_same_packets_in_virtual_time_and_on_the_loopback() {
    let any = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
    for len in LENGTHS {
        let simulated = simulated(len);
        assert!(simulated[0].len() >= CALLS * len.div_ceil(1024), "{len}");
        assert_eq!(simulated, on_wires(len, [bound(any), bound(any)]), "{len}");
    }
}

#[test]
fn transaction_has_the_same_packets_in_virtual_time_and_between_namespaces() {
    let Some(testbed) = testbed("delay=1ms", SEED) else {
        return;
    };
    testbed.begin(SEED);
    for len in LENGTHS {
        let wires = [0, 1].map(|number| {
            let host = &testbed.hosts()[number];
            let at = SocketAddr::new(host.address(), 0);
            host.run(move || bound(at)).expect("the host lives")
        });
        assert_eq!(simulated(len), on_wires(len, wires), "{len}");
    }
    testbed.end();
}
