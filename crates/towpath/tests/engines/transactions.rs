//! Transactions of XTP as a library.

use crate::files::endpoint;
use std::thread;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(20);

#[test]
fn transactions_leave_no_state() {
    const COUNT: usize = 200;
    let server = endpoint();
    server.listen(true);
    let address = server.local_addr();
    let serving = thread::spawn(move || {
        let mut request = vec![0; 10_000];
        for number in 0..COUNT {
            let mut circuit = server.accept(LIMIT).expect("a request");
            let len = circuit.recv_all(&mut request, LIMIT).expect("all of it");
            request[..len].reverse();
            // Every third reply comes in two packets at least.
            let front = if number % 3 == 1 { len / 2 } else { 0 };
            if front > 0 {
                circuit.send(&request[..front], LIMIT).expect("space");
                circuit.flush().expect("a packet");
            }
            circuit
                .send_last(&request[front..len], LIMIT)
                .expect("space to send");
            circuit.close(LIMIT).expect("the client takes it");
        }
        server.holdings()
    });
    let client = endpoint();
    let mut reply = vec![0; 10_000];
    for number in 0..COUNT {
        let request: Vec<u8> = (0..1 + number * 40).map(|i| i as u8).collect();
        let len = client
            .transact(address, &request, &mut reply, LIMIT)
            .expect("a reply");
        assert!(reply[..len].iter().rev().eq(&request), "number {number}");
    }
    // The server has the client's final acknowledgement, which may have been delayed.
    let holdings = serving.join().expect("no panic");
    assert_eq!((holdings.associations, holdings.reassembly_bytes), (0, 0));
    assert_eq!(client.holdings().associations, 0);
}

#[test]
fn transactions_of_several_threads_end_without_another_call() {
    const THREADS: usize = 3;
    const EACH: usize = 40;
    let server = endpoint();
    server.listen(true);
    let address = server.local_addr();
    let serving = thread::spawn(move || {
        let mut request = [0; 64];
        for _ in 0..THREADS * EACH {
            let mut circuit = server.accept(LIMIT).expect("a request");
            let len = circuit.recv_all(&mut request, LIMIT).expect("all of it");
            circuit.send_last(&request[..len], LIMIT).expect("room");
        }
        server
    });
    let client = endpoint();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let client = &client;
            scope.spawn(move || {
                for number in 0..EACH {
                    let (request, mut reply) = ([thread as u8 + 1; 48], [0; 64]);
                    let len = client.transact(address, &request[number..], &mut reply, LIMIT);
                    assert_eq!(&reply[..len.expect("a reply")], &request[number..]);
                }
            });
        }
    });
    let server = serving.join().expect("no panic");
    let deadline = Instant::now() + LIMIT;
    while [&client, &server].map(|end| end.holdings().associations) != [0, 0] {
        assert!(
            Instant::now() < deadline,
            "the last acknowledgement stays away"
        );
        thread::sleep(Duration::from_millis(1));
    }
}
