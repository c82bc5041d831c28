//! Modules between the user and the transport: what every circuit promises holds with them too.

use super::support::{LIMIT, Subject, flush, for_each, pattern, recv, recv_bytes, recv_one, send};
use super::{allowed, assert_comes, assert_full_circuit_blocks};
use std::io::ErrorKind;
use std::time::{Duration, Instant};
use towpath::{Interest, Options, all};

fn with(words: &str) -> Options {
    Options {
        transport_specific: [("push".to_owned(), words.to_owned())].into(),
        ..Options::default()
    }
}

/// The words of pushes whose users get what was sent.
const TRANSPARENT: [&str; 3] = ["pass", "meter/buffer/pass", "buffer/compress/meter"];

#[test]
fn messages_pass_modules_intact_and_in_order() {
    for words in TRANSPARENT {
        for_each(&with(words), |subject| {
            let mut pair = subject.pair();
            for (salt, len) in [0, 1, 64, 1400, 16384, 40_000].into_iter().enumerate() {
                if !allowed(subject, len) {
                    continue;
                }
                let message = pattern(len, salt);
                send(&mut *pair.client, &message);
                let got = match subject.transport.class().stream {
                    true => recv_bytes(&mut *pair.server, len),
                    false => recv_one(&mut *pair.server),
                };
                assert!(got == message, "{}: {len} bytes", subject.name());
                send(&mut *pair.server, b"reply");
                assert_eq!(recv_one(&mut *pair.client), b"reply", "{}", subject.name());
            }
            let effective = pair.client.effective();
            assert_eq!(effective.get("push").map(String::as_str), Some(words));
        });
    }
}

#[test]
fn meter_counts_what_passes_it() {
    for_each(&with("meter"), |subject| {
        let mut pair = subject.introduced_pair();
        send(&mut *pair.client, &pattern(700, 1));
        recv_all(subject, &mut *pair.server, 700);
        let (sent, received) = (pair.client.counts(), pair.server.counts());
        assert_eq!(
            sent.get("meter_messages_sent"),
            Some(&3),
            "{}",
            subject.name()
        );
        assert_eq!(
            sent.get("meter_octets_sent"),
            Some(&710),
            "{}",
            subject.name()
        );
        assert_eq!(
            received.get("meter_octets_received"),
            Some(&710),
            "{}",
            subject.name()
        );
    });
}

fn recv_all(subject: &Subject, circuit: &mut dyn towpath::Circuit, len: usize) -> Vec<u8> {
    match subject.transport.class().stream {
        true => recv_bytes(circuit, len),
        false => recv_one(circuit),
    }
}

#[test]
fn full_circuit_with_modules_blocks_its_sender_without_loss() {
    for_each(&with("buffer/pass"), assert_full_circuit_blocks);
}

#[test]
fn end_of_a_direction_passes_modules_behind_the_data() {
    for_each(&with("buffer/compress"), |subject| {
        if !subject.transport.class().half_close {
            return;
        }
        let mut pair = subject.introduced_pair();
        send(&mut *pair.client, b"the last");
        let deadline = Instant::now() + LIMIT;
        while let Err(error) = pair.client.finish() {
            assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}");
            assert!(Instant::now() < deadline, "{}", subject.name());
        }
        assert_eq!(
            recv_one(&mut *pair.server),
            b"the last",
            "{}",
            subject.name()
        );
        assert_eq!(recv(&mut *pair.server), None, "{}", subject.name());
        send(&mut *pair.server, b"the other way");
        assert_eq!(recv_one(&mut *pair.client), b"the other way");
    });
}

#[test]
fn wait_with_modules_returns_at_deadline_and_on_arrival() {
    for_each(&with("meter/buffer"), |subject| {
        let mut pair = subject.introduced_pair();
        let soon = Instant::now() + Duration::from_millis(5);
        pair.server.wait(Interest::Read, soon).expect("a wait");
        let mut buffer = [0; 64];
        let nothing = pair.server.try_recv(&mut buffer).expect_err("nothing");
        assert_eq!(nothing.kind(), ErrorKind::WouldBlock, "{}", subject.name());
        send(&mut *pair.client, b"now");
        flush(&mut *pair.client);
        assert_comes(&mut *pair.server, 3);
    });
}

#[test]
fn message_is_received_in_parts_above_modules() {
    for_each(&with("pass"), |subject| {
        let is_stream = subject.transport.class().stream;
        let mut pair = subject.introduced_pair();
        let message = pattern(1400, 5);
        send(&mut *pair.client, &message);
        let (mut got, mut buffer) = (Vec::new(), [0; 400]);
        let deadline = Instant::now() + LIMIT;
        while got.len() < message.len() {
            match pair.server.receive_part(&mut buffer) {
                Ok(part) => {
                    let part = part.expect("a part");
                    got.extend_from_slice(&buffer[..part.len]);
                    let ends = !is_stream && got.len() == message.len();
                    assert_eq!(part.end, ends, "{}", subject.name());
                }
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}"),
            }
            assert!(Instant::now() < deadline, "{}", subject.name());
        }
        assert!(got == message, "{}", subject.name());
    });
}

#[test]
fn without_a_push_no_stream_head_is_on_the_path() {
    for_each(&Options::default(), |subject| {
        let pair = subject.introduced_pair();
        assert_eq!(
            pair.client.effective().get("push"),
            None,
            "{}",
            subject.name()
        );
        let pushed = with("pass").transport_specific;
        let class = subject.transport.class_with(&pushed);
        assert!(class.offload.contains("stream head"), "{}", subject.name());
    });
}

#[test]
fn wrong_pushes_are_refused_with_what_would_be_right() {
    for transport in all() {
        let name = transport.name();
        let refused = |words: &str| transport.check_options(&with(words).transport_specific);
        let why = refused("compres").expect_err("no such module");
        let takes_modules = name != "null" && !transport.is_one_to_many();
        match takes_modules {
            true => assert!(why.contains("'compres'") && why.contains("meter"), "{why}"),
            false => assert!(why.contains("no option 'push'"), "{name}: {why}"),
        }
        let valid = refused("pass/meter/buffer");
        assert_eq!(valid.is_ok(), takes_modules, "{name}");
    }
}

/// Options with several words of modules.
fn with_all(words: &[(&str, &str)]) -> Options {
    let own = words.iter();
    Options {
        transport_specific: own
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect(),
        ..Options::default()
    }
}

#[test]
fn fault_drops_what_a_transport_may_lose_and_is_refused_elsewhere() {
    let words = [
        ("push", "fault"),
        ("fault-drop", "50%"),
        ("fault-seed", "3"),
    ];
    let options = with_all(&words);
    for transport in all() {
        let checked = transport.check_options(&options.transport_specific);
        let may_lose = !transport.class().reliable && transport.name() != "null";
        assert_eq!(
            checked.is_ok(),
            may_lose,
            "{}: {checked:?}",
            transport.name()
        );
    }
    let udp = towpath::find("udp").expect("a transport");
    let mut pair = Subject::new(udp, &options).pair();
    for number in 0..200_u32 {
        pair.client.send(&number.to_le_bytes()).expect("room");
    }
    let mut got = 0;
    let mut buffer = [0; 64];
    while pair.server.recv(&mut buffer).is_ok() {
        got += 1;
    }
    let dropped = pair.client.counts()["fault_dropped"];
    assert_eq!(got + dropped, 200);
    assert!(
        (60..140).contains(&dropped),
        "{dropped}: 5 deviations are 35"
    );
}

#[test]
fn fault_holds_each_message_for_its_time() {
    let words = [("push", "fault"), ("fault-delay", "20ms")];
    for_each(&with_all(&words), |subject| {
        let mut pair = subject.introduced_pair();
        let start = Instant::now();
        send(&mut *pair.client, b"held");
        recv_all(subject, &mut *pair.server, 4);
        assert!(
            start.elapsed() >= Duration::from_millis(20),
            "{}",
            subject.name()
        );
        let counts = pair.client.counts();
        assert_eq!(counts.get("fault_delayed"), Some(&3), "{}", subject.name());
    });
}

#[test]
fn capture_writes_a_file_for_each_circuit() {
    let folder = std::env::temp_dir().join(format!("towpath-capture-{}", std::process::id()));
    std::fs::create_dir(&folder).expect("a folder");
    let path = folder.to_str().expect("text").to_owned();
    let tcp = towpath::find("tcp").expect("a transport");
    let words = [("push", "capture"), ("capture-to", path.as_str())];
    let mut pair = Subject::new(tcp, &with_all(&words)).pair();
    send(&mut *pair.client, b"written in a file");
    assert_eq!(recv_bytes(&mut *pair.server, 17), b"written in a file");
    assert_eq!(pair.client.counts().get("capture_messages"), Some(&1));
    drop(pair);
    let files = std::fs::read_dir(&folder).expect("a folder").map(|file| {
        let octets = std::fs::read(file.expect("a file").path()).expect("its octets");
        let has = octets.windows(17).any(|part| part == b"written in a file");
        (octets[..4].to_vec(), has)
    });
    let files: Vec<_> = files.collect();
    std::fs::remove_dir_all(&folder).expect("the test's own folder");
    // The block type of a section header reads the same from both ends.
    assert_eq!(files, vec![(vec![0x0a, 0x0d, 0x0d, 0x0a], true); 2]);
}

/// A file with a key, gone with the test.
struct KeyFile(std::path::PathBuf);

impl KeyFile {
    fn new(name: &str, octet: u8) -> KeyFile {
        let file = format!("towpath-key-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(file);
        std::fs::write(&path, [octet; 32]).expect("a file");
        KeyFile(path)
    }

    fn options(&self, push: &str) -> Options {
        let path = self.0.to_str().expect("text");
        with_all(&[("push", push), ("seal-key", path)])
    }
}

impl Drop for KeyFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Runs `test` on transports that lose nothing and keep the order.
fn for_each_sealed(options: &Options, test: impl Fn(&Subject) + Sync) {
    for &transport in all() {
        let class = transport.class();
        let checked = transport.check_options(&options.transport_specific);
        if !class.reliable || !class.ordered {
            let why = checked.expect_err("no place for seal");
            assert!(why.contains("tcp") || transport.name() == "null", "{why}");
        } else if checked.is_ok()
            && transport.available(options).is_ok()
            && !transport.name().ends_with("-ether")
        {
            test(&Subject::new(transport, options));
        }
    }
}

#[test]
fn sealed_messages_pass_where_frames_keep_their_order() {
    let key = KeyFile::new("pass", 1);
    for_each_sealed(&key.options("compress/seal"), |subject| {
        let pushed = &subject.connecting.transport_specific;
        assert!(subject.transport.class_with(pushed).encrypted);
        let mut pair = subject.pair();
        for (salt, len) in [1, 64, 1400, 40_000].into_iter().enumerate() {
            let message = pattern(len, salt);
            send(&mut *pair.client, &message);
            assert!(
                recv_all(subject, &mut *pair.server, len) == message,
                "{}",
                subject.name()
            );
            send(&mut *pair.server, b"reply");
            assert_eq!(recv_all(subject, &mut *pair.client, 5), b"reply");
        }
    });
}

#[test]
fn another_key_ends_the_circuit_with_a_sentence() {
    let (one, two) = (KeyFile::new("one", 1), KeyFile::new("two", 2));
    let tcp = towpath::find("tcp").expect("a transport");
    let mut subject = Subject::new(tcp, &one.options("seal"));
    subject.connecting = two.options("seal");
    let mut pair = subject.pair();
    send(&mut *pair.client, b"sealed with two");
    let deadline = Instant::now() + LIMIT;
    let error = loop {
        match pair.server.recv(&mut [0; 64]) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            other => break other.expect_err("another key"),
        }
        assert!(Instant::now() < deadline, "nothing arrives");
    };
    assert_eq!(error.kind(), ErrorKind::InvalidData);
    assert!(error.to_string().contains("the same key"), "{error}");
    assert!(pair.server.send(b"no more").is_err());
}

#[test]
fn sealed_stream_that_is_cut_off_is_an_error_and_not_the_end() {
    let key = KeyFile::new("cut", 1);
    let tcp = towpath::find("tcp").expect("a transport");
    for cut in [false, true] {
        let mut subject = Subject::new(tcp, &key.options("seal"));
        if cut {
            // The frames of a peer that ends without saying so: none at all.
            subject.connecting = Options::default();
        }
        let mut pair = subject.pair();
        pair.client.finish().expect("an end");
        let deadline = Instant::now() + LIMIT;
        let got = loop {
            match pair.server.recv(&mut [0; 64]) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                other => break other,
            }
            assert!(Instant::now() < deadline, "nothing arrives");
        };
        match cut {
            false => assert_eq!(got.expect("the end"), None),
            true => assert_eq!(got.expect_err("cut off").kind(), ErrorKind::InvalidData),
        }
    }
}
