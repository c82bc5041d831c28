//! Captures by taps, packet by packet and as tshark reads them.

use crate::file::{self, PacketRecord, Scratch};
use crate::tshark;
use crate::virtual_session::{DELAY_NS, Script, run};
use capture::tap::time_of_day;
use capture::{
    CapturedPackets, Direction, FileLimit, InterfaceId, LinkType, PacketBlock, PcapngWriter,
    Recorder, ip,
};
use driver::Endpoint;
use engine::{Address, Framing};
use engine_xtp::config::RateLimit;
use engine_xtp::pdu::{Header, Service};
use engine_xtp::{Config, ErrorControl, Xtp};
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wire_udp::UdpWire;

/// An output that the test can read.
#[derive(Clone, Default)]
struct SharedBuffer(Arc<Mutex<Vec<u8>>>);

impl SharedBuffer {
    fn file(&self) -> Vec<u8> {
        self.0.lock().expect("no panic").clone()
    }
}

impl Write for SharedBuffer {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").extend_from_slice(octets);
        Ok(octets.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn recorder(out: impl Write + Send + 'static, limit: FileLimit) -> Recorder {
    let out: Box<dyn Write + Send> = Box::new(out);
    Recorder::new(PcapngWriter::new(out, "sessions in virtual time", limit).expect("room"))
}

/// The default session: byte streams, without loss.
fn script(name: &'static str) -> Script {
    let config = |seed| Config {
        seed,
        ..Config::default()
    };
    Script {
        name,
        configs: [config(1), config(2)],
        sends: [vec![vec![9; 100_000]], vec![vec![8; 3000]]],
        loss_percent: 0,
        start_ns: 333_333_333,
    }
}

fn changed(name: &'static str, loss_percent: u64, change: impl Fn(&mut Config)) -> Script {
    let mut script = script(name);
    script.loss_percent = loss_percent;
    script.configs.iter_mut().for_each(change);
    script
}

/// A session of one request message, and perhaps a reply.
fn service(name: &'static str, service: Service, answer: Option<&str>) -> Script {
    let set = |config: &mut Config| {
        config.service = service;
        config.framing = Framing::Messages;
    };
    let answers = answer.map(|text| text.as_bytes().to_vec());
    Script {
        sends: [
            vec![b"what is the time?".to_vec()],
            answers.into_iter().collect(),
        ],
        ..changed(name, 0, set)
    }
}

/// Sessions that together send packets of every format.
fn scripts() -> Vec<Script> {
    let rate = RateLimit {
        rate_bytes_per_s: 5_000_000,
        burst_bytes: 20_000,
    };
    let mut messages = changed("messages", 5, |config| config.framing = Framing::Messages);
    messages.sends[0] = [1, 64, 1439, 1440, 1441, 5000]
        .map(|len| vec![7; len])
        .into();
    let mut refused = script("refused");
    refused.configs[1].port = 2;
    vec![
        script("stream"),
        changed("implicit", 0, |config| config.explicit = false),
        changed("unsummed", 10, |config| config.checksum = false),
        changed("selective", 10, |_| {}),
        changed("go-back-n", 10, |config| {
            config.error = ErrorControl::GoBackN
        }),
        changed("fastnak", 10, |config| config.fastnak = true),
        changed("no error control", 5, |config| {
            config.error = ErrorControl::None
        }),
        changed("paced", 0, |config| config.rate = Some(rate)),
        changed("sorted", 0, |config| config.sort = Some(7)),
        messages,
        service("transaction", Service::Transaction, Some("half past nine")),
        service("datagram", Service::Datagram, None),
        service("acknowledged datagram", Service::AckedDatagram, None),
        refused,
    ]
}

/// Compares a file of XTP packets with tshark's reading; returns the formats tshark named, or none
/// without tshark.
fn read_by_tshark(file: &[u8]) -> BTreeSet<u8> {
    let records = file::packets(file);
    let scratch = Scratch::holding(file);
    let Some(lines) = tshark::read(scratch.path()) else {
        return BTreeSet::new();
    };
    assert_eq!(lines.len(), records.len());
    for (line, record) in lines.iter().zip(&records) {
        line.assert_good_xtp();
        let header = Header::parse(&record.octets[20..]).expect("a good packet");
        assert_eq!(line.at_ns, record.at_ns, "{line:?}");
        assert_eq!(line.len, record.octets.len(), "{line:?}");
        assert_eq!(line.seq, Some(header.seq), "{line:?}");
        assert_eq!(line.format, Some(header.format as u8), "{line:?}");
    }
    lines.iter().filter_map(|line| line.format).collect()
}

#[test]
fn tshark_reads_every_packet_of_tapped_sessions() {
    let written = SharedBuffer::default();
    let recorder = recorder(written.clone(), FileLimit::default());
    for script in scripts() {
        let outcome = run(&script, &recorder);
        let loses = script.configs[0].error == ErrorControl::None;
        let total: usize = script.sends[0].iter().map(Vec::len).sum();
        let whole = outcome.received[1] == total as u64;
        assert!(
            whole || loses || script.name == "refused",
            "{script:?} {outcome:?}"
        );
        let repairs = script.loss_percent > 0 && !loses;
        assert!(!repairs || outcome.retransmissions > 0, "{}", script.name);
    }
    let packets = recorder.finish().expect("a vector");
    let file = written.file();
    assert_eq!(file::packets(&file).len() as u64, packets);
    let formats = read_by_tshark(&file);
    // DATA, CNTL, FIRST, ECNTL, TCNTL, DIAG: all that unicast has.
    let all = BTreeSet::from([0, 1, 2, 3, 5, 8]);
    assert!(formats.is_empty() || formats == all, "{formats:?}");
}

#[test]
fn tap_on_udp_sockets_timestamps_with_its_clock() {
    let written = SharedBuffer::default();
    let recorder = recorder(written.clone(), FileLimit::default());
    let clock = time_of_day();
    let before = clock();
    let limit = Duration::from_secs(20);
    let end = |name| {
        let wire = UdpWire::bind((Ipv4Addr::LOCALHOST, 0).into()).expect("a socket");
        let local = Address::Socket(wire.local_addr().expect("an address"));
        let tap = capture::tap(wire, &recorder, name, local, ip::XTP, time_of_day());
        let engine = Xtp::new(Config::default());
        let endpoint = Endpoint::new(engine, tap.expect("a vector"), 512 << 10);
        (endpoint.expect("a thread"), local)
    };
    let ((near, _), (far, address)) = (end("near"), end("far"));
    far.listen(true);
    let mut sender = near.connect(address, limit).expect("the peer listens");
    let mut receiver = far.accept(limit).expect("a peer connects");
    let sent = vec![5; 100_000];
    sender.send(&sent, limit).expect("room");
    sender.finish().expect("an open circuit");
    let (mut buffer, mut arrived) = (vec![0; 65_536], 0);
    while let Some(len) = receiver.recv(&mut buffer, limit).expect("an open circuit") {
        arrived += len;
    }
    assert_eq!(arrived, sent.len());
    drop((sender, receiver, near, far));
    recorder.finish().expect("a vector");
    let after = clock();
    let file = written.file();
    read_by_tshark(&file);
    let records = file::packets(&file);
    let payload = |record: &&PacketRecord| record.octets.len() - 20 - 32;
    let total = |interface, direction| -> usize {
        of(&records, interface, direction).iter().map(payload).sum()
    };
    assert!(total(0, 2) >= sent.len() && total(1, 1) >= sent.len());
    assert!(records.iter().all(|record| record.octets.len() <= 1500));
    assert!(
        records
            .iter()
            .all(|record| (before..=after).contains(&record.at_ns))
    );
    assert!(
        records
            .iter()
            .all(|record| record.octets[12..16] == [127, 0, 0, 1])
    );
}

/// Known good packets, made from a description of the formats and checked with another decoder.
const KNOWN: [&str; 8] = [
    "00000001000000010040002200000018bc6e0000000000010000000000000000001000010a0000020a000001138817700008040000000000",
    "00000001000000010044002000000005bbc0000000000002000000000000000068656c6c6f",
    "00000001000000014000002000000005bfd6000000000002000000000000000068656c6c6f",
    "800000010000000100000021000000147fba00000000000100000000000000000000000000000005000000000001000500000002",
    "800000000000000100000023000000284d6c00000000000200000000000000000000000000000578000000000001117000000003000000010000000000000af00000000000001068",
    "80000000000000010000002500000038b49b00000000000100000000000000000000000000000000000000000001000000000001000000000000000200000007001804010000057807735940000100000773594000010000",
    "00000000000000020800002700000038b48000000000000000000000000000000000000000000000000000000001000000000000000000000000000000000009001000010a0000020a000001138817700008040000000000",
    "8000000000000001000200280000001432a4000000000000000000000000000000000001000000016e6f206c697374656e657200",
];

fn octets(hex: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex digits");
    (0..hex.len()).step_by(2).map(digit).collect()
}

#[test]
fn tshark_reads_the_known_packets() {
    let written = SharedBuffer::default();
    let recorder = recorder(written.clone(), FileLimit::default());
    let interface = recorder.interface("known").expect("a vector");
    for (index, hex) in KNOWN.iter().enumerate() {
        let captured = CapturedPackets {
            interface,
            at_ns: 1_234_567_890_123_456_789 + index as u64,
            direction: None,
            from: ip::ip_of(Address::Station(1)),
            to: ip::ip_of(Address::Station(2)),
            protocol: ip::XTP,
            segment_size: usize::MAX,
        };
        assert!(recorder.write(&captured, &octets(hex)));
    }
    assert_eq!(recorder.finish().expect("a vector"), 8);
    let formats = read_by_tshark(&written.file());
    let known = BTreeSet::from([0, 1, 2, 3, 5, 7, 8]);
    assert!(formats.is_empty() || formats == known, "{formats:?}");
}

fn known(index: usize, from: &str, to: &str) -> Vec<u8> {
    let packet = octets(KNOWN[index]);
    let address = |text: &str| text.parse().expect("an address");
    let mut all = ip::header(address(from), address(to), ip::XTP, packet.len());
    all.extend_from_slice(&packet);
    all
}

fn write(writer: &mut PcapngWriter<Vec<u8>>, interface: InterfaceId, octets: &[u8], comment: &str) {
    let written = writer.packet(&PacketBlock {
        interface,
        at_ns: u64::from(u32::MAX) + 5,
        octets,
        original_len: octets.len(),
        direction: Some(Direction::Sent),
        comment,
    });
    assert!(written.expect("a vector"));
}

#[test]
fn tshark_reads_names_comments_and_bad_checksums() {
    let mut writer =
        PcapngWriter::new(Vec::new(), "a file", FileLimit::default()).expect("a vector");
    let ids = ["one", "two"].map(|name| {
        let id = writer.interface(name, LinkType::Ip, 0, "an interface");
        id.expect("a vector")
    });
    write(
        &mut writer,
        ids[1],
        &known(0, "::1", "192.0.2.1"),
        "für später: λ",
    );
    let mut spoiled = known(1, "192.0.2.2", "192.0.2.1");
    spoiled[56] ^= 1;
    write(&mut writer, ids[0], &spoiled, "spoiled");
    let scratch = Scratch::holding(&writer.finish().expect("a vector"));
    let Some(lines) = tshark::read(scratch.path()) else {
        return;
    };
    assert_eq!(
        (&*lines[0].interface, &*lines[0].comment),
        ("two", "für später: λ")
    );
    assert_eq!((&*lines[0].protocol, &*lines[0].xtp_check), ("XTP", "1"));
    assert_eq!(
        (&*lines[1].interface, &*lines[1].comment),
        ("one", "spoiled")
    );
    assert_eq!((&*lines[1].protocol, &*lines[1].xtp_check), ("XTP", "0"));
    assert_eq!(lines[1].at_ns, u64::from(u32::MAX) + 5);
}

fn of(records: &[PacketRecord], interface: u32, direction: u32) -> Vec<&PacketRecord> {
    let wanted =
        |record: &&PacketRecord| (record.interface, record.direction) == (interface, direction);
    records.iter().filter(wanted).collect()
}

#[test]
fn tapped_sends_match_the_peers_tapped_arrivals() {
    let written = SharedBuffer::default();
    let recorder = recorder(written.clone(), FileLimit::default());
    let outcome = run(&script("stream"), &recorder);
    assert_eq!(outcome.received, [3000, 100_000]);
    recorder.finish().expect("a vector");
    let records = file::packets(&written.file());
    for (sent, received) in [(0, 1), (1, 0)] {
        let (sent, received) = (of(&records, sent, 2), of(&records, received, 1));
        assert_eq!(sent.len(), received.len());
        for (sent, received) in sent.iter().zip(received) {
            assert_eq!(sent.octets, received.octets);
            assert_eq!(sent.at_ns + DELAY_NS, received.at_ns);
            assert!(sent.octets.len() <= 1472 + 20, "a packet, not a batch");
        }
    }
    assert_eq!(of(&records, 0, 2).len() as u64, outcome.packets_built);
    assert!(
        outcome.packets_built > 2 * outcome.sends,
        "none was segmented"
    );
}

#[test]
fn full_file_does_not_stop_the_session() {
    let limit = FileLimit {
        packets: Some(10),
        octets: None,
    };
    let written = SharedBuffer::default();
    let recorder = recorder(written.clone(), limit);
    let outcome = run(&script("stream"), &recorder);
    assert_eq!(outcome.received[1], 100_000);
    assert_eq!(recorder.finish().expect("a vector"), 10);
    assert_eq!(file::packets(&written.file()).len(), 10);
}

/// An output that fails after so many octets.
struct FailingWriter(usize);

impl Write for FailingWriter {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        let left = self.0.checked_sub(octets.len());
        self.0 = left.ok_or_else(|| io::Error::other("the disk is full"))?;
        Ok(octets.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn write_error_does_not_stop_the_session_and_is_returned() {
    let recorder = recorder(FailingWriter(400), FileLimit::default());
    let outcome = run(&script("stream"), &recorder);
    assert_eq!(outcome.received[1], 100_000);
    let error = recorder.finish().expect_err("the file broke");
    assert!(error.to_string().contains("the disk is full"));
}
