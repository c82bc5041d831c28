//! A relay between a group and receivers that multicast does not reach, over sockets.

use super::group::pattern;
use super::hostile_datagrams::bombard;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use towpath::xtp::group::{
    GroupEndpointConfig, MemberState, Receiver, Relay, Sender, Stream, example_group,
};

const LIMIT: Duration = Duration::from_secs(60);
const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn read_all(mut stream: Stream) -> io::Result<Vec<u8>> {
    let (mut all, mut buffer) = (Vec::new(), [0; 65_536]);
    while let Some(len) = stream.recv(&mut buffer, LIMIT)? {
        all.extend_from_slice(&buffer[..len]);
    }
    // The sender may be gone once it has all acknowledgements.
    let _ = stream.close(Duration::from_secs(5));
    Ok(all)
}

/// A running relay and its stop flag.
fn start(mut relay: Relay) -> (Arc<AtomicBool>, JoinHandle<Relay>) {
    let stop = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&stop);
    let running = thread::spawn(move || {
        relay.run(&seen).expect("its sockets work");
        relay
    });
    (stop, running)
}

#[test]
fn receivers_behind_relay_are_group_members() {
    let group = example_group();
    let listen = || Receiver::listen((HERE, 0).into(), &GroupEndpointConfig::default());
    let behind: Vec<Receiver> = (0..3).map(|_| listen().expect("a port")).collect();
    let members: Vec<SocketAddr> = behind.iter().map(Receiver::local_addr).collect();
    let near = Receiver::join(group, HERE, &GroupEndpointConfig::default())
        .expect("the loopback has groups");
    let relay = Relay::join(group, HERE, &members).expect("the loopback has groups");
    let stand_ins = relay.proxy_addresses().expect("they are bound");
    let (stop, running) = start(relay);
    let bytes = pattern(1_000_000);
    let receiving: Vec<_> = behind
        .into_iter()
        .chain([near])
        .map(|receiver| {
            thread::spawn(move || {
                // Two senders, hence one stream from each.
                let streams = [receiver.accept(LIMIT)?, receiver.accept(LIMIT)?];
                let reading = streams.map(|stream| thread::spawn(|| read_all(stream)));
                let all = reading.map(|one| one.join().expect("no panic"));
                all.into_iter().collect::<io::Result<Vec<_>>>()
            })
        })
        .collect();
    let sending = [0, 1].map(|salt| {
        let sent = bytes[salt..].to_vec();
        thread::spawn(move || {
            let mut sender = Sender::open(group, HERE, &GroupEndpointConfig::for_members(4))?;
            sender.wait_ready(LIMIT)?;
            for part in sent.chunks(30_000) {
                sender.send(part, LIMIT)?;
            }
            sender.close(LIMIT)
        })
    });
    for sender in sending {
        let report = sender
            .join()
            .expect("no panic")
            .expect("all have everything");
        assert!(
            report
                .iter()
                .all(|member| member.state == MemberState::Done),
            "{report:?}"
        );
        for stand_in in &stand_ins {
            let address = engine::Address::Socket(*stand_in);
            assert!(
                report.iter().any(|member| member.address == address),
                "{report:?}"
            );
        }
    }
    for receiver in receiving {
        let mut all = receiver
            .join()
            .expect("no panic")
            .expect("both streams end");
        all.sort_by_key(Vec::len);
        assert!(all[0] == bytes[1..] && all[1] == bytes);
    }
    stop.store(true, Ordering::Relaxed);
    let relayed = running.join().expect("no panic").counters();
    assert!(
        relayed.repeated > 3 * 2 * 600 && relayed.returned > 6,
        "{relayed:?}"
    );
}

#[test]
fn relay_refuses_unicast_address_and_wrong_member_count() {
    let member = SocketAddr::from((HERE, 9));
    let wrong = [
        (
            SocketAddr::from((HERE, 5000)),
            vec![member],
            "no multicast address",
        ),
        (example_group(), vec![], "1 to 500 members, not 0"),
        (example_group(), vec![member; 501], "not 501"),
    ];
    for (group, members, expected) in wrong {
        let error = Relay::join(group, HERE, &members)
            .map(drop)
            .expect_err(expected);
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn receiver_behind_relay_is_served_after_hostile_datagrams() {
    let group = example_group();
    let receiver =
        Receiver::listen((HERE, 0).into(), &GroupEndpointConfig::default()).expect("a port");
    let relay =
        Relay::join(group, HERE, &[receiver.local_addr()]).expect("the loopback has groups");
    let mut targets = relay.proxy_addresses().expect("they are bound");
    targets.extend([group, receiver.local_addr()]);
    let (stop, running) = start(relay);
    bombard(Ipv4Addr::LOCALHOST, &targets, 4);
    let bytes = pattern(100_000);
    let expected = bytes.clone();
    let (say, arrived) = std::sync::mpsc::channel();
    thread::spawn(move || {
        // Streams of strangers may come first, and last until they are taken for dead.
        while let Ok(stream) = receiver.accept(LIMIT) {
            let (say, expected) = (say.clone(), expected.clone());
            thread::spawn(move || {
                if read_all(stream).is_ok_and(|read| read == expected) {
                    let _ = say.send(());
                }
            });
        }
    });
    let mut sender =
        Sender::open(group, HERE, &GroupEndpointConfig::for_members(1)).expect("opens");
    sender.wait_ready(LIMIT).expect("the member joins");
    sender.send(&bytes, LIMIT).expect("room");
    sender.close(LIMIT).expect("it is acknowledged");
    arrived.recv_timeout(LIMIT).expect("the stream came whole");
    stop.store(true, Ordering::Relaxed);
    running.join().expect("no panic");
}
