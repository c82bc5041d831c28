//! Captures of interfaces in a namespace of their own.

use crate::file::{self, PacketRecord, Scratch};
use crate::namespace;
use crate::tshark;
use capture::socket::CaptureConfig;
use capture::{Capture, FileLimit, tap};
use std::fs::File;
use std::io::{self, Write};
use std::net::UdpSocket;
use std::sync::mpsc::{Receiver, Sender, channel};

const LOOPBACK: [&str; 1] = ["link set lo up"];

/// Octets in front of a datagram on the loopback: Ethernet, IPv4, UDP.
const HEADERS: usize = 14 + 20 + 8;

/// Sends datagrams numbered from 0 to a socket that reads them.
fn send(count: u32, len: usize) {
    let receiver = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let to = receiver.local_addr().expect("an address");
    let sender = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let mut buffer = vec![0; len];
    for number in 0..count {
        buffer[..4].copy_from_slice(&number.to_be_bytes());
        sender.send_to(&buffer, to).expect("it is sent");
        receiver.recv(&mut [0; 2048]).expect("it arrives");
    }
}

fn number(record: &PacketRecord) -> u32 {
    let octets = &record.octets[HEADERS..HEADERS + 4];
    u32::from_be_bytes(octets.try_into().expect("4 octets"))
}

#[test]
fn loopback_datagrams_are_captured_once_with_kernel_timestamps() {
    namespace::inside(&LOOPBACK, || {
        let scratch = Scratch::new();
        let out = File::create(scratch.path()).expect("room for a file");
        let clock = tap::time_of_day();
        let before = clock();
        let capture = Capture::start(&["lo"], out, &CaptureConfig::default()).expect("root may");
        send(1000, 1234);
        let totals = capture.stop().expect("a file");
        let after = clock();
        assert_eq!((totals.written, totals.dropped), (1000, 0));
        let records = file::packets(&std::fs::read(scratch.path()).expect("the file"));
        let numbers: Vec<u32> = records.iter().map(number).collect();
        assert_eq!(numbers, (0..1000).collect::<Vec<_>>());
        assert!(records.is_sorted_by_key(|record| record.at_ns));
        assert!(before <= records[0].at_ns && records[999].at_ns <= after);
        assert!(records.iter().any(|record| record.at_ns % 1000 != 0));
        let Some(lines) = tshark::read(scratch.path()) else {
            return;
        };
        assert_eq!(lines.len(), records.len());
        for (line, record) in lines.iter().zip(&records) {
            assert_eq!((&*line.protocol, &*line.interface), ("UDP", "lo"));
            assert_eq!(line.at_ns, record.at_ns);
            assert_eq!(line.len, HEADERS + 1234);
            assert_eq!((&*line.malformed, &*line.ip_check), ("", "1"));
        }
    });
}

#[test]
fn snap_length_and_packet_limit_apply() {
    namespace::inside(&LOOPBACK, || {
        let scratch = Scratch::new();
        let out = File::create(scratch.path()).expect("room for a file");
        let settings = CaptureConfig {
            snap_len: 60,
            limit: FileLimit {
                packets: Some(10),
                octets: None,
            },
            ..CaptureConfig::default()
        };
        let capture = Capture::start(&["lo"], out, &settings).expect("root may");
        send(25, 500);
        let totals = capture.stop().expect("a file");
        assert_eq!((totals.written, totals.beyond_limit), (10, 15));
        let records = file::packets(&std::fs::read(scratch.path()).expect("the file"));
        assert_eq!(records.len(), 10);
        for record in records {
            assert_eq!(
                (record.octets.len(), record.original_len),
                (60, HEADERS + 500)
            );
        }
    });
}

#[test]
fn veth_packet_is_sent_on_one_end_and_received_on_the_other() {
    let commands = [
        "link add near type veth peer name far",
        "link set near up",
        "link set far up",
        "address add 10.9.9.1/24 dev near",
        "neighbour add 10.9.9.2 lladdr 02:00:00:00:00:02 dev near",
    ];
    namespace::inside(&commands, || {
        let scratch = Scratch::new();
        let out = File::create(scratch.path()).expect("room for a file");
        let capture = Capture::start(&["near", "far"], out, &CaptureConfig::default());
        let capture = capture.expect("root may");
        let sender = UdpSocket::bind("10.9.9.1:0").expect("a socket");
        for _ in 0..20 {
            sender.send_to(&[1; 777], "10.9.9.2:9").expect("it is sent");
        }
        let totals = capture.stop().expect("a file");
        assert_eq!(totals.dropped, 0);
        let records = file::packets(&std::fs::read(scratch.path()).expect("the file"));
        // The kernel sends IPv6 packets by itself on a new interface.
        let ours = |interface, direction| {
            let wanted = |record: &&PacketRecord| {
                record.original_len == HEADERS + 777
                    && (record.interface, record.direction) == (interface, direction)
            };
            records.iter().filter(wanted).count()
        };
        assert_eq!((ours(0, 2), ours(1, 1)), (20, 20));
        assert_eq!((ours(0, 1), ours(1, 2)), (0, 0));
    });
}

/// An output that blocks at its first write until it is released.
struct BlockingWriter {
    began: Sender<()>,
    go: Receiver<()>,
    free: bool,
}

impl Write for BlockingWriter {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        if !self.free {
            let _ = self.began.send(());
            let _ = self.go.recv();
            self.free = true;
        }
        Ok(octets.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn kernel_drops_are_counted() {
    namespace::inside(&LOOPBACK, || {
        let (began, has_begun) = channel();
        let (let_go, go) = channel();
        let out = BlockingWriter {
            began,
            go,
            free: false,
        };
        let settings = CaptureConfig {
            backlog: 64 << 10,
            ..CaptureConfig::default()
        };
        let capture = Capture::start(&["lo"], out, &settings).expect("root may");
        // Dropped before the capture, which would else wait for it after a panic.
        let let_go = let_go;
        // Fills the buffer in front of the file, however much of it the kernel drops.
        let mut sent = 0;
        while has_begun.try_recv().is_err() {
            assert!(
                sent < 1_000_000,
                "the file is written to when the buffer is full"
            );
            send(100, 1400);
            sent += 100;
        }
        send(500, 1400);
        sent += 500;
        let_go.send(()).expect("it waits");
        let totals = capture.stop().expect("a file");
        assert!(totals.dropped > 100, "{totals:?}");
        assert_eq!(totals.written + totals.dropped, sent, "{totals:?}");
    });
}

#[test]
fn write_error_ends_the_capture_and_is_returned() {
    struct FailingWriter;
    impl Write for FailingWriter {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::Error::other("the disk is full"))
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    namespace::inside(&LOOPBACK, || {
        let capture =
            Capture::start(&["lo"], FailingWriter, &CaptureConfig::default()).expect("root may");
        send(1000, 1400);
        let error = capture.stop().expect_err("nothing could be written");
        assert!(error.to_string().contains("the disk is full"), "{error}");
    });
}

#[test]
fn unknown_interface_is_named_in_the_error() {
    for name in ["no-such-one", "a\0b", ""] {
        let started = Capture::start(&[name], io::sink(), &CaptureConfig::default());
        let error = started.expect_err("there is none");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(error.to_string().contains(name), "{error}");
    }
}
