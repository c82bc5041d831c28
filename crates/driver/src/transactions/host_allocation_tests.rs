//! Allocations of a call in its caller's thread and in its server's: none, once tables and buffers have
//! their size.

use super::TransactionEndpoint;
use crate::sys::counting_allocator::allocations;
use engine::{Address, EntityId, Note};
use engine_vmtp::{Vmtp, VmtpConfig};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use wire_udp::UdpWire;

const CALLER: EntityId = EntityId(1 << 32 | 1);
const SERVER: EntityId = EntityId(2 << 32 | 2);
const LIMIT: Duration = Duration::from_secs(30);

/// Calls before the count, and calls counted.
const WARM_UP: u64 = 300;
const COUNTED: u64 = 1000;

/// What threads may allocate beside calls: a table that grows once more.
const OTHERS: u64 = COUNTED / 100;

type Endpoint = TransactionEndpoint<Vmtp, UdpWire>;

fn endpoint(host: u32) -> (Endpoint, Address) {
    let wire = UdpWire::bind(([127, 0, 0, 1], 0).into()).expect("a port");
    let address = Address::Socket(wire.local_addr().expect("bound"));
    let engine = Vmtp::new(VmtpConfig {
        host,
        packet_lifetime: Duration::ZERO,
        secret: engine::Secret::from_seed(u64::from(host)),
        ..VmtpConfig::default()
    });
    let endpoint = TransactionEndpoint::new(engine, wire).expect("a thread");
    (endpoint, address)
}

/// Answers each request with its own octets; the allocations of all calls but the first.
fn serve(server: &Endpoint, is_over: &AtomicBool) -> u64 {
    let (mut served, mut before) = (0, 0);
    while !is_over.load(Ordering::Relaxed) {
        let Ok(mut request) = server.receive(Duration::from_millis(20)) else {
            continue;
        };
        let octets = std::mem::take(&mut request.octets);
        server.reply(request, octets);
        served += 1;
        if served == WARM_UP {
            before = allocations();
        }
    }
    allocations() - before
}

/// Calls as often; the allocations of all calls but the first.
fn call(client: &Endpoint, message: &[u8]) -> u64 {
    let mut before = 0;
    for number in 0..WARM_UP + COUNTED {
        if number == WARM_UP {
            before = allocations();
        }
        let request = client.message(message);
        let call = client.begin(CALLER, SERVER, request, &Note::default());
        let reply = client
            .take(&call, LIMIT)
            .expect("in time")
            .expect("a reply");
        assert_eq!(reply.octets, message);
        client.recycle(reply.octets);
    }
    allocations() - before
}

#[test]
fn calls_allocate_nothing_in_the_threads_of_caller_and_server() {
    for len in [20, 1000, 16_384] {
        let ((client, _), (server, at)) = (endpoint(1), endpoint(2));
        client.create_entity(CALLER).expect("room");
        server.create_entity(SERVER).expect("room");
        client.locate(SERVER, at);
        let is_over = AtomicBool::new(false);
        let (called, served) = std::thread::scope(|scope| {
            let serving = scope.spawn(|| serve(&server, &is_over));
            let called = call(&client, &vec![7; len]);
            is_over.store(true, Ordering::Relaxed);
            (called, serving.join().expect("no panic"))
        });
        let text = format!("{COUNTED} calls of {len} octets");
        assert!(called < OTHERS, "{text}: {called} by the caller");
        assert!(served < OTHERS, "{text}: {served} by the server");
    }
}
