//! Users of an endpoint of transactions that come back soon, and then do not.

use driver::TransactionEndpoint;
use driver::transactions::Call;
use engine::{Address, EntityId, Note};
use engine_vmtp::{Vmtp, VmtpConfig};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;
use wire_udp::UdpWire;

const LIMIT: Duration = Duration::from_secs(20);

/// Calls by which an endpoint learns that its users come back soon: more than it takes.
const LESSONS: usize = 400;

const SERVER: EntityId = EntityId(7 << 32 | 1);

type Host = TransactionEndpoint<Vmtp, UdpWire>;

fn host() -> (Host, SocketAddr) {
    let wire = UdpWire::bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a port");
    let address = wire.local_addr().expect("bound");
    let config = VmtpConfig {
        packet_lifetime: Duration::ZERO,
        ..VmtpConfig::default()
    };
    let host = Host::new(Vmtp::new(config), wire).expect("a thread");
    (host, address)
}

fn client_number(number: u64) -> EntityId {
    EntityId((100 + number) << 32 | 2)
}

/// An endpoint with these clients, and one with a server that they know.
fn pair(clients: u64) -> (Host, Host) {
    let (near, _) = host();
    let (far, at) = host();
    far.create_entity(SERVER).expect("room");
    near.locate(SERVER, Address::Socket(at));
    for number in 0..clients {
        near.create_entity(client_number(number)).expect("room");
    }
    (near, far)
}

fn call(host: &Host, number: u64) {
    let reply = host.call(client_number(number), SERVER, &[7; 8], LIMIT);
    assert_eq!(reply.expect("a reply").len(), 1);
}

fn begin(host: &Host, number: u64) -> Call {
    host.begin(client_number(number), SERVER, &[7; 8], &Note::default())
}

/// Takes a request, and answers when others may do so too.
fn serve_one(host: &Host) {
    let request = host.receive(LIMIT).expect("a request");
    host.reply_noted(request, &[1], &Note::default());
    host.flush_replies();
}

#[test]
fn reply_leaves_although_its_server_does_not_come_back() {
    let (near, far) = pair(1);
    let (answered, is_answered) = channel();
    let far = &far;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for _ in 0..LESSONS {
                serve_one(far);
            }
            // It takes no other request before the last of these calls is answered.
            is_answered.recv_timeout(LIMIT).expect("an answer");
        });
        for _ in 0..LESSONS {
            call(&near, 0);
        }
        answered.send(()).expect("it waits");
    });
}

#[test]
fn requests_behind_one_whose_service_takes_long_are_served_by_others() {
    let (near, far) = pair(2);
    let served = AtomicUsize::new(0);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let Ok(request) = far.receive(Duration::from_millis(50)) else {
                        continue;
                    };
                    let number = served.fetch_add(1, Ordering::Relaxed);
                    let end = std::time::Instant::now() + LIMIT;
                    // One of the last two is answered when the other is served.
                    while number >= LESSONS && served.load(Ordering::Relaxed) < LESSONS + 2 {
                        assert!(std::time::Instant::now() < end, "it stays in the queue");
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    far.reply_noted(request, &[1], &Note::default());
                    far.flush_replies();
                }
            });
        }
        for _ in 0..LESSONS {
            call(&near, 0);
        }
        let calls = [0, 1].map(|number| begin(&near, number));
        near.flush_calls();
        let replies = calls.map(|call| near.take(&call, LIMIT));
        is_over.store(true, Ordering::Relaxed);
        assert!(replies.iter().all(|reply| matches!(reply, Some(Ok(_)))));
    });
}

#[test]
fn calls_of_many_callers_are_all_answered_while_some_go_and_others_stay() {
    const CALLERS: u64 = 12;
    let (near, far) = pair(CALLERS);
    let is_over = AtomicBool::new(false);
    let (near, far, is_over) = (&near, &far, &is_over);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    if let Ok(request) = far.receive(Duration::from_millis(50)) {
                        far.reply_noted(request, &[1], &Note::default());
                        far.flush_replies();
                    }
                }
            });
        }
        let callers: Vec<_> = (0..CALLERS)
            .map(|number| {
                scope.spawn(move || {
                    for round in 0..40 * (number as usize + 1) {
                        let begun = begin(near, number);
                        near.flush_calls();
                        if round % 97 == 96 {
                            // It is away while others wait for it.
                            std::thread::sleep(Duration::from_millis(1));
                        }
                        let reply = near.take(&begun, LIMIT).expect("in time");
                        assert_eq!(reply.expect("a reply").octets, [1]);
                    }
                })
            })
            .collect();
        for caller in callers {
            caller.join().expect("all are answered");
        }
        is_over.store(true, Ordering::Relaxed);
    });
}
