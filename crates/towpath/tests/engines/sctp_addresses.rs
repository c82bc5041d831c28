//! Addresses that a host, and with it an endpoint of SCTP, gets and loses under traffic.

use super::testbed_hosts::hosts_over;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use testbed::{Host, interface_name};
use towpath::sctp::{
    AddressChange, Association, Endpoint, EndpointConfig, MessageInfo, Notice, PathStatus,
    ReconfigOutcome,
};

const LIMIT: Duration = Duration::from_secs(20);

/// Octets of a message, which begins with its number.
const MESSAGE_LEN: usize = 600;

fn config(addresses: &str) -> EndpointConfig {
    let words = [
        ("auth", "on"),
        ("addresses", addresses),
        ("heartbeat", "200ms"),
        ("rto_min", "50ms"),
    ];
    let words = words.map(|(name, value)| (name.to_owned(), value.to_owned()));
    EndpointConfig::parse(&words.into()).expect("options")
}

/// Gives `host` its address on link number `link` (`add`), or takes it (`del`).
fn change_host(host: &Host, what: &'static str, link: usize) {
    let address = format!("{}/16", host.address_on(link));
    let done = host.run(move || {
        let mut ip = Command::new("ip");
        ip.args(["address", what, &address, "dev", &interface_name(link)]);
        ip.output()
    });
    let output = done.expect("the host is there").expect("ip(8) runs");
    assert!(output.status.success(), "{output:?}");
}

/// An endpoint of `host` with its addresses on `links`.
fn bind(host: &Host, links: &[usize], addresses: &'static str) -> Endpoint {
    let at = links
        .iter()
        .map(|link| SocketAddr::new(host.address_on(*link), 0));
    let at: Vec<SocketAddr> = at.collect();
    let bound = host.run(move || Endpoint::bind(&at, &config(addresses)));
    bound.expect("the host is there").expect("sockets")
}

/// Changes the addresses of an endpoint in its host.
fn change_endpoint(
    (host, link): (&Host, usize),
    endpoint: &Endpoint,
    change: fn(&Endpoint, IpAddr) -> io::Result<()>,
) {
    let (endpoint, address) = (endpoint.clone(), host.address_on(link));
    let done = host.run(move || change(&endpoint, address));
    done.expect("the host is there").expect("it can change");
}

/// The sending end, and the thread of the receiving one.
struct Flow {
    client: Association,
    sent: u64,
    received: Arc<AtomicU64>,
    receiving: JoinHandle<()>,
    notices: Vec<Notice>,
}

impl Flow {
    /// Opens an association to `to`, addresses of `server`, and begins.
    fn open(client: &Endpoint, server: &Endpoint, to: &[SocketAddr]) -> Flow {
        server.listen(true);
        let (client, to) = (client.clone(), to.to_vec());
        let opening = std::thread::spawn(move || client.connect(&to, LIMIT));
        let accepted = server.accept(LIMIT).expect("an association");
        let received = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&received);
        Flow {
            client: opening.join().expect("no panic").expect("it opens"),
            sent: 0,
            received,
            receiving: std::thread::spawn(move || receive_numbers(accepted, &count)),
            notices: Vec::new(),
        }
    }

    /// Sends numbered messages until `is_so`.
    fn send_until(&mut self, what: &str, mut is_so: impl FnMut(&Flow) -> bool) {
        let end = Instant::now() + LIMIT;
        let mut message = [7; MESSAGE_LEN];
        while !is_so(self) {
            assert!(
                Instant::now() < end,
                "{what}: {:?}",
                self.client.status().paths
            );
            for _ in 0..16 {
                message[..8].copy_from_slice(&self.sent.to_be_bytes());
                let info = MessageInfo::default();
                self.client
                    .send(&message, &info, LIMIT)
                    .expect("it goes on");
                self.sent += 1;
            }
            self.client.flush().expect("the sockets work");
            self.notices
                .extend(std::iter::from_fn(|| self.client.next_notice()));
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Sends until a hundred more messages have arrived.
    fn go_on(&mut self) {
        let before = self.received.load(Ordering::Relaxed);
        self.send_until("more messages", |flow| {
            flow.received.load(Ordering::Relaxed) > before + 100
        });
    }

    /// Sends until the peer has agreed to a change of an own address.
    fn await_agreement(&mut self, address: IpAddr, change: AddressChange) {
        let outcome = ReconfigOutcome::Done;
        let wanted = Notice::OwnAddress {
            address,
            change,
            outcome,
        };
        self.send_until("an answer", |flow| flow.notices.contains(&wanted));
    }

    /// Sends until a path is active from each of `addresses`, and there are none from others.
    fn await_paths(&mut self, addresses: &[IpAddr]) {
        self.send_until("the paths", |flow| {
            let paths = flow.client.status().paths;
            let active = |ip: &IpAddr| {
                let mut active = paths.iter();
                active.any(|path| path.local.ip() == *ip && path.status == PathStatus::Active)
            };
            let mut sources = paths.iter().map(|path| path.local.ip());
            addresses.iter().all(active) && sources.all(|ip| addresses.contains(&ip))
        });
    }

    /// Ends; every message has arrived then.
    fn end(self) {
        self.client.shutdown(LIMIT).expect("everything arrived");
        self.receiving.join().expect("no panic");
        assert_eq!(self.received.load(Ordering::Relaxed), self.sent);
    }
}

/// Receives messages, each with the number that follows, until the end.
fn receive_numbers(mut server: Association, count: &AtomicU64) {
    let mut buffer = vec![0; MESSAGE_LEN];
    while let Some(got) = server.receive(&mut buffer, LIMIT).expect("no failure") {
        assert_eq!((got.len, got.end), (MESSAGE_LEN, true));
        let number = u64::from_be_bytes(*buffer.first_chunk().expect("eight octets"));
        assert_eq!(number, count.load(Ordering::Relaxed), "in order, once");
        count.store(number + 1, Ordering::Relaxed);
    }
}

#[test]
fn endpoint_gains_and_loses_addresses_as_its_host_does() {
    let Some(testbed) = hosts_over(&["a", "b"], "kernel+kernel") else {
        return;
    };
    let [a, b] = ["a", "b"].map(|name| testbed.host(name).expect("it is up"));
    let [first, second] = [0, 1].map(|link| a.address_on(link));
    // The client's host has one address at first.
    change_host(a, "del", 1);
    let (client, server) = (bind(a, &[0], "dynamic"), bind(b, &[0, 1], "dynamic"));
    let mut flow = Flow::open(&client, &server, &server.local_addrs());
    flow.await_paths(&[first]);
    change_host(a, "add", 1);
    change_endpoint((a, 1), &client, Endpoint::gain_address);
    flow.await_agreement(second, AddressChange::Added);
    flow.await_paths(&[first, second]);
    // The host loses the other one before the endpoint knows.
    change_host(a, "del", 0);
    flow.go_on();
    change_endpoint((a, 0), &client, Endpoint::lose_address);
    assert_eq!(client.local_addrs().len(), 1);
    flow.await_agreement(first, AddressChange::Deleted);
    flow.await_paths(&[second]);
    change_host(a, "add", 0);
    change_endpoint((a, 0), &client, Endpoint::gain_address);
    flow.await_agreement(first, AddressChange::Added);
    flow.await_paths(&[first, second]);
    flow.end();
}

#[test]
fn peer_with_fixed_addresses_keeps_its_association_and_new_ones_list_the_change() {
    let Some(testbed) = hosts_over(&["a", "b"], "kernel+kernel") else {
        return;
    };
    let [a, b] = ["a", "b"].map(|name| testbed.host(name).expect("it is up"));
    let [first, second] = [0, 1].map(|link| a.address_on(link));
    let (client, server) = (bind(a, &[0, 1], "fixed"), bind(b, &[0, 1], "fixed"));
    let mut flow = Flow::open(&client, &server, &server.local_addrs());
    flow.await_paths(&[first, second]);
    change_host(a, "del", 0);
    change_endpoint((a, 0), &client, Endpoint::lose_address);
    flow.go_on();
    let mut later = Flow::open(&client, &server, &server.local_addrs());
    later.await_paths(&[second]);
    later.end();
    flow.end();
}

#[test]
fn addresses_that_an_endpoint_cannot_gain_or_lose_are_named() {
    let local = |last| IpAddr::from(Ipv4Addr::new(127, 0, 0, last));
    let bind = |ip| Endpoint::bind(&[SocketAddr::new(ip, 0)], &config("dynamic"));
    let endpoint = bind(local(1)).expect("a socket");
    let last = endpoint.lose_address(local(1)).expect_err("the last");
    assert_eq!(last.kind(), ErrorKind::InvalidInput);
    assert!(last.to_string().contains("has no other"), "{last}");
    let known = endpoint.gain_address(local(1)).expect_err("it has it");
    assert_eq!(known.kind(), ErrorKind::AlreadyExists);
    let foreign = endpoint.gain_address("192.0.2.1".parse().expect("an address"));
    assert_eq!(
        foreign.expect_err("no host has it").kind(),
        ErrorKind::AddrNotAvailable
    );
    endpoint.gain_address(local(2)).expect("the host has it");
    let port = endpoint.local_addrs()[0].port();
    assert_eq!(endpoint.local_addrs()[1], SocketAddr::new(local(2), port));
    endpoint.lose_address(local(1)).expect("there is another");
    assert!(
        endpoint.lose_address(local(1)).is_err(),
        "it has it no more"
    );
    // The port of an address that went is free.
    let freed = std::net::UdpSocket::bind((local(1), port)).expect("a free port");
    let taken = endpoint
        .gain_address(local(1))
        .expect_err("somebody has it");
    assert_eq!(taken.kind(), ErrorKind::AddrInUse);
    drop(freed);
    endpoint.gain_address(local(1)).expect("it is free again");
    let any = bind(Ipv4Addr::UNSPECIFIED.into()).expect("a socket");
    let refused = any.gain_address(local(2)).expect_err("it has all");
    assert!(refused.to_string().contains("bind to each"), "{refused}");
}
