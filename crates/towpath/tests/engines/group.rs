//! Groups over real multicast, between threads and processes of this host, and without multicast.

use rustix::net::{AddressFamily, SocketType, netdevice, socket};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use towpath::xtp::group::{
    AdmittedHost, GroupEndpointConfig, MemberState, Receiver, Sender, Stream, example_group,
};

const LIMIT: Duration = Duration::from_secs(60);

const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Bytes that differ at each position.
pub fn pattern(len: usize) -> Vec<u8> {
    let word = |at: usize| {
        (at as u64)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .to_be_bytes()
    };
    (0..len.div_ceil(8)).flat_map(word).take(len).collect()
}

fn read_all(stream: &mut Stream) -> io::Result<Vec<u8>> {
    let (mut all, mut buffer) = (Vec::new(), vec![0; 65_536]);
    while let Some(len) = stream.recv(&mut buffer, LIMIT)? {
        all.extend_from_slice(&buffer[..len]);
    }
    Ok(all)
}

/// A receiver in a thread; returns the data it received.
fn receive(
    group: SocketAddr,
    local: IpAddr,
    settings: &GroupEndpointConfig,
) -> JoinHandle<Vec<u8>> {
    let receiver = Receiver::join(group, local, settings).expect("it joins");
    thread::spawn(move || {
        let mut stream = receiver.accept(LIMIT).expect("a sender comes");
        let all = read_all(&mut stream).expect("a whole stream");
        // If the final acknowledgement is lost, the close takes some seconds.
        let _ = stream.close(LIMIT);
        all
    })
}

fn send_all(sender: &mut Sender, bytes: &[u8]) {
    sender.wait_ready(LIMIT).expect("all join");
    for part in bytes.chunks(50_000) {
        sender.send(part, LIMIT).expect("space to send");
    }
}

#[test]
fn eight_receivers_on_one_host_get_every_byte() {
    let bytes = pattern(4 << 20);
    let group = example_group();
    let settings = GroupEndpointConfig::for_members(8);
    let receivers: Vec<_> = (0..8).map(|_| receive(group, LOCAL, &settings)).collect();
    let mut sender = Sender::open(group, LOCAL, &settings).expect("it opens");
    send_all(&mut sender, &bytes);
    let report = sender.close(LIMIT).expect("all have everything");
    assert_eq!(report.len(), 8);
    for member in report {
        assert_eq!(
            (member.state, member.received),
            (MemberState::Done, bytes.len() as u64)
        );
    }
    for receiver in receivers {
        assert!(receiver.join().expect("no panic") == bytes);
    }
}

#[test]
fn group_messages_keep_boundaries_with_control_sent_to_group() {
    let group = example_group();
    let mut settings = GroupEndpointConfig::for_members(3).messages();
    settings.ack_to_group = true;
    let receivers: Vec<_> = (0..3)
        .map(|_| Receiver::join(group, LOCAL, &settings).expect("it joins"))
        .collect();
    let mut sender = Sender::open(group, LOCAL, &settings).expect("it opens");
    sender.wait_ready(LIMIT).expect("all join");
    for len in [1, 5000, 64, 200_000] {
        sender.send(&pattern(len), LIMIT).expect("space to send");
    }
    sender.flush().expect("the loopback takes it");
    let mut buffer = vec![0; 300_000];
    for receiver in &receivers {
        let mut stream = receiver.accept(LIMIT).expect("a sender came");
        for len in [1, 5000, 64, 200_000] {
            let got = stream.recv(&mut buffer, LIMIT).expect("it comes");
            assert_eq!(got, Some(len));
            assert!(buffer[..len] == pattern(len));
        }
    }
}

#[test]
fn bucket_reliability_delivers_to_uncounted_receivers() {
    use towpath::xtp::group::{BucketConfig, Reliability};
    let bytes = pattern(300_000);
    let group = example_group();
    let mut settings = GroupEndpointConfig::default();
    settings.config.reliability = Reliability::Buckets(BucketConfig::default());
    settings.config.damping = true;
    settings.config.slot = Duration::from_millis(2);
    settings.ack_to_group = true;
    let receivers: Vec<_> = (0..4).map(|_| receive(group, LOCAL, &settings)).collect();
    let mut sender = Sender::open(group, LOCAL, &settings).expect("it opens");
    send_all(&mut sender, &bytes);
    sender
        .close(LIMIT)
        .expect("all who responded have everything");
    assert!(sender.members().is_empty());
    for receiver in receivers {
        assert!(receiver.join().expect("no panic") == bytes);
    }
}

#[test]
fn leaving_member_is_reported_and_others_get_all_data() {
    let bytes = pattern(3 << 20);
    let group = example_group();
    let settings = GroupEndpointConfig::for_members(3);
    let leaver = Receiver::join(group, LOCAL, &settings).expect("it joins");
    let leaver_address = leaver.local_addr();
    let others: Vec<_> = (0..2).map(|_| receive(group, LOCAL, &settings)).collect();
    let leaving = thread::spawn(move || {
        let mut stream = leaver.accept(LIMIT).expect("a sender comes");
        let mut buffer = vec![0; 1000];
        stream.recv(&mut buffer, LIMIT).expect("something comes");
        stream.close(LIMIT).expect("it leaves");
    });
    let mut sender = Sender::open(group, LOCAL, &settings).expect("it opens");
    send_all(&mut sender, &bytes);
    let report = sender.close(LIMIT).expect("the others have everything");
    leaving.join().expect("no panic");
    let gone = report.first().expect("those that are gone come first");
    assert_eq!(gone.address, engine::Address::Socket(leaver_address));
    assert_eq!(gone.state, MemberState::Left);
    assert!(
        report[1..]
            .iter()
            .all(|member| member.state == MemberState::Done)
    );
    for other in others {
        assert!(other.join().expect("no panic") == bytes);
    }
}

#[test]
fn replicated_packets_reach_receivers_without_multicast() {
    let bytes = pattern(1 << 20);
    let mut settings = GroupEndpointConfig::for_members(3);
    let any: SocketAddr = "127.0.0.1:0".parse().expect("a literal address");
    let receivers: Vec<_> = (0..3)
        .map(|_| Receiver::listen(any, &settings).expect("a free port"))
        .collect();
    let addresses = receivers
        .iter()
        .map(|receiver| engine::Address::Socket(receiver.local_addr()));
    settings.config.replicate = addresses.collect();
    let reading: Vec<_> = receivers
        .into_iter()
        .map(|receiver| {
            thread::spawn(move || {
                let mut stream = receiver.accept(LIMIT).expect("a sender comes");
                let all = read_all(&mut stream).expect("a whole stream");
                let _ = stream.close(LIMIT);
                all
            })
        })
        .collect();
    let mut sender = Sender::open(any, LOCAL, &settings).expect("it opens");
    send_all(&mut sender, &bytes);
    sender.close(LIMIT).expect("all have everything");
    for reader in reading {
        assert!(reader.join().expect("no panic") == bytes);
    }
}

#[test]
fn wait_ready_times_out_and_admission_list_is_enforced() {
    let group = example_group();
    let mut settings = GroupEndpointConfig::for_members(2);
    let receiver = receive(group, LOCAL, &settings);
    let mut sender = Sender::open(group, LOCAL, &settings).expect("it opens");
    let error = sender
        .wait_ready(Duration::from_millis(500))
        .expect_err("one is missing");
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    let second = receive(group, LOCAL, &settings);
    send_all(&mut sender, b"now both are there");
    sender.close(LIMIT).expect("both have it");
    for receiver in [receiver, second] {
        assert_eq!(receiver.join().expect("no panic"), b"now both are there");
    }
    settings.config.admitted = Some(vec![AdmittedHost {
        address: "127.9.9.9".parse().expect("a literal address"),
        join_secret: None,
    }]);
    let excluded = Receiver::join(group, LOCAL, &settings).expect("it joins");
    let mut sender = Sender::open(group, LOCAL, &settings).expect("it opens");
    assert!(sender.wait_ready(Duration::from_millis(300)).is_err());
    assert!(sender.members().is_empty());
    assert!(excluded.accept(Duration::from_millis(50)).is_err());
}

#[test]
fn unicast_address_is_refused_with_remedy() {
    let wrong: SocketAddr = "10.0.0.1:5000".parse().expect("a literal address");
    let settings = GroupEndpointConfig::default();
    let sent = Sender::open(wrong, LOCAL, &settings)
        .err()
        .expect("refused");
    let heard = Receiver::join(wrong, LOCAL, &settings)
        .err()
        .expect("refused");
    for error in [sent, heard] {
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert!(error.to_string().contains("239.1.2.3:5000"), "{error}");
    }
}

/// The transport xtp-multicast, which the conformance tests skip: one direction only.
#[test]
fn multicast_circuit_delivers_only_what_all_receivers_have() {
    let transport = towpath::find("xtp-multicast").expect("it is registered");
    assert!(transport.is_one_to_many());
    let mut options = towpath::Options::default();
    for wrong in ["0", "101", "many"] {
        options
            .transport_specific
            .insert("receivers".into(), wrong.into());
        let why = transport
            .check_options(&options.transport_specific)
            .expect_err("refused");
        assert!(why.contains("from 1 to 100"), "{why}");
    }
    options
        .transport_specific
        .insert("receivers".into(), "4".into());
    options.circuits = 2;
    let mut listener = transport.listen(&options).expect("groups are there");
    let rendezvous = listener.rendezvous().expect("addresses");
    let deadline = std::time::Instant::now() + LIMIT;
    let (mut senders, mut receivers) = (Vec::new(), Vec::new());
    thread::scope(|scope| {
        let connecting = scope.spawn(|| {
            let connect = |index| transport.connect(&rendezvous, index, &options);
            [0, 1].map(|index| connect(index).expect("all join"))
        });
        for _ in 0..2 {
            receivers.push(listener.accept(deadline).expect("a sender comes"));
        }
        senders.extend(connecting.join().expect("no panic"));
    });
    for (sender, receiver) in senders.iter_mut().zip(&mut receivers) {
        let bytes = pattern(700_000);
        let error = receiver
            .try_send(b"back")
            .expect_err("there is no way back");
        assert_eq!(error.kind(), io::ErrorKind::Unsupported);
        assert!(sender.try_recv(&mut [0; 8]).is_err());
        let mut got = Vec::new();
        let mut parts = bytes.chunks(10_000).peekable();
        let mut buffer = vec![0; 65_536];
        loop {
            match parts.peek() {
                Some(part) if sender.send(part).is_ok() => {
                    parts.next();
                    if parts.peek().is_none() {
                        sender.finish().expect("the end is sent");
                    }
                }
                _ => {}
            }
            match receiver.try_recv(&mut buffer) {
                Ok(Some(len)) => got.extend_from_slice(&buffer[..len]),
                Ok(None) => break,
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "{error}"),
            }
            assert!(
                std::time::Instant::now() < deadline,
                "{} bytes came",
                got.len()
            );
        }
        assert!(got == bytes);
        assert_eq!(receiver.effective()["receivers"], "4");
        // Packets of 15 KiB, as on every loopback.
        assert!(sender.counts()["packets_sent"] > 45);
    }
}

/// The environment variable that makes this program a receiving process.
const GROUP: &str = "TOWPATH_TEST_GROUP";

/// The child's half of the test below; passes when run alone.
#[test]
fn receiving_process() {
    let Ok(group) = std::env::var(GROUP) else {
        return;
    };
    let group: SocketAddr = group.parse().expect("the parent's group");
    let receiver = Receiver::join(group, LOCAL, &GroupEndpointConfig::default()).expect("it joins");
    let mut stream = receiver.accept(LIMIT).expect("a sender comes");
    let all = read_all(&mut stream).expect("a whole stream");
    let right = all == pattern(all.len());
    let _ = stream.close(Duration::from_secs(5));
    println!("\nreceived {} {right}", all.len());
    io::stdout().flush().expect("the parent reads");
}

fn child(group: SocketAddr) -> Child {
    Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "group::receiving_process", "--nocapture"])
        .env(GROUP, group.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("this program runs")
}

/// Kills a process when the test fails.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sends `bytes`, which all members have in the end.
fn send_to_all(mut sender: Sender, bytes: &[u8]) {
    send_all(&mut sender, bytes);
    let report = sender.close(LIMIT).expect("all have everything");
    let is_done = report
        .iter()
        .all(|member| member.state == MemberState::Done);
    assert!(is_done);
}

#[test]
fn one_process_sends_to_five_processes() {
    let group = example_group();
    let mut children: Vec<_> = (0..5).map(|_| Ended(child(group))).collect();
    let bytes = pattern(2 << 20);
    let sender =
        Sender::open(group, LOCAL, &GroupEndpointConfig::for_members(5)).expect("it opens");
    send_to_all(sender, &bytes);
    for child in &mut children {
        let output = child.0.stdout.take().expect("a pipe");
        let mut lines = BufReader::new(output).lines().map_while(Result::ok);
        let line_printed = lines.find(|line| line.starts_with("received"));
        assert_eq!(line_printed, Some(format!("received {} true", bytes.len())));
        let _ = lines.by_ref().count();
    }
}

/// Runs `test` in a network namespace with IPv6; prints SKIPPED when it cannot.
fn with_ipv6(test: impl FnOnce(u32) + Send) {
    let name = format!("towpath-group-{}", std::process::id());
    let ip = |words: &str| {
        let output = Command::new("ip").args(words.split(' ')).output();
        output.is_ok_and(|output| output.status.success())
    };
    if !ip(&format!("netns add {name}")) {
        eprintln!("SKIPPED: groups over IPv6: no network namespace can be made here");
        return;
    }
    let made = ip(&format!("-n {name} link add near type veth peer name far"))
        && ip(&format!("-n {name} link set lo up"))
        && ip(&format!("-n {name} link set near up"))
        && ip(&format!("-n {name} link set far up"))
        && ip(&format!("-n {name} addr add fd00:7::1/64 dev near nodad"));
    let failed = thread::scope(|scope| {
        let inside = scope.spawn(|| {
            let file = File::open(format!("/run/netns/{name}")).expect("it was made");
            let net = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(file.as_fd(), net).expect("its maker may enter");
            let any = socket(AddressFamily::INET, SocketType::DGRAM, None).expect("a socket");
            test(netdevice::name_to_index(any, "near").expect("it was made"));
        });
        inside.join().is_err()
    });
    let removed = ip(&format!("netns delete {name}"));
    assert!(made && removed && !failed);
}

#[test]
fn ipv6_group_receives_every_byte() {
    with_ipv6(|index| {
        let address = Ipv6Addr::new(0xff15, 0, 0, 0, 0, 0, 0x77, 1);
        let group = SocketAddr::from(SocketAddrV6::new(address, 5577, 0, index));
        let local: IpAddr = "fd00:7::1".parse().expect("a literal address");
        let bytes = pattern(500_000);
        let settings = GroupEndpointConfig::for_members(3);
        let receivers: Vec<_> = (0..3).map(|_| receive(group, local, &settings)).collect();
        let sender = Sender::open(group, local, &settings).expect("it opens");
        send_to_all(sender, &bytes);
        for receiver in receivers {
            assert!(receiver.join().expect("no panic") == bytes);
        }
    });
}
