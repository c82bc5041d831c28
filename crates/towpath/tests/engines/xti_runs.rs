//! Short messages of XTI over SCTP, which travel together and keep their boundaries.

use std::io::Read;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use towpath::{sctp, xti_carrier};
use xti::{Error, Flags, Look, Marks, StreamOptions, TliError, XtiEndpoint, inet};

const LIMIT: Duration = Duration::from_secs(30);

fn open(options: StreamOptions) -> XtiEndpoint {
    let carrier = xti_carrier::sctp(&sctp::EndpointConfig::default());
    XtiEndpoint::open_over(carrier, options).expect("it opens")
}

/// Both ends of a connection.
fn pair(options: StreamOptions) -> (XtiEndpoint, XtiEndpoint) {
    let (listener, client) = (open(options), open(options));
    let any = inet::encode("127.0.0.1:0".parse().expect("an address"));
    let address = listener.bind(&any, 1).expect("a port").address;
    client.bind(&[], 0).expect("no address is needed");
    client.start_connect(&address).expect("it begins");
    let until = Instant::now() + LIMIT;
    let call = listener.listen(until).expect("a connection");
    let server = open(options);
    listener.accept(&server, call.sequence).expect("accepted");
    client
        .wait(true, Duration::from_millis(1))
        .expect("it waits");
    loop {
        match client.receive_connect() {
            Err(Error {
                tli: TliError::NoData,
                ..
            }) if Instant::now() < until => {
                client
                    .wait(true, Duration::from_millis(20))
                    .expect("it waits");
            }
            other => break other.expect("it is connected"),
        }
    }
    (client, server)
}

/// Factors that change how messages travel.
fn all_options() -> Vec<StreamOptions> {
    let mut all = Vec::new();
    for (high, low) in [(1, 0), (700, 100), (32_768, 0)] {
        for (hold, deferred) in [(true, true), (true, false), (false, true)] {
            all.push(StreamOptions {
                marks: Marks::new(high, low).expect("marks"),
                hold,
                deferred,
                ..StreamOptions::default()
            });
        }
    }
    all
}

/// Message `number` of a test: mostly short ones of many lengths, now and then a long one.
fn message(number: usize) -> Vec<u8> {
    let len = match number % 50 {
        49 => 3000 + 700 * (number % 40),
        short => 1 + short * 3 % 97,
    };
    (0..len).map(|at| (at + number) as u8).collect()
}

/// The next message, received into a buffer of `room` octets.
fn receive(end: &XtiEndpoint, room: usize) -> Vec<u8> {
    let (mut all, mut buffer) = (Vec::new(), vec![0; room]);
    loop {
        let received = end.receive_within(&mut buffer, LIMIT).expect("a piece");
        all.extend_from_slice(&buffer[..received.len]);
        if !received.more {
            return all;
        }
    }
}

#[test]
fn messages_that_travel_together_keep_their_boundaries() {
    const COUNT: usize = 600;
    for options in all_options() {
        let (client, server) = pair(options);
        thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0..COUNT {
                    let octets = message(number);
                    let sent = client.send(&octets, Flags::default(), LIMIT);
                    assert_eq!(sent.expect("it is sent"), octets.len());
                }
            });
            for number in 0..COUNT {
                let room = [7, 64, 65_536][number % 3];
                assert!(
                    receive(&server, room) == message(number),
                    "{options:?}: message {number}"
                );
            }
        });
    }
}

#[test]
fn many_messages_by_one_call_are_those_that_were_sent() {
    const COUNT: usize = 2000;
    let (client, server) = pair(StreamOptions::default());
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..COUNT {
                client
                    .send(&message(number), Flags::default(), LIMIT)
                    .expect("it is sent");
            }
            // It goes behind the data, for which the peer may have no room yet.
            while let Err(error) = client.send_release() {
                assert_eq!(error.tli, TliError::Flow);
                client.wait(true, LIMIT).expect("it waits");
            }
        });
        let (mut got, mut begun) = (0, Vec::new());
        while got < COUNT {
            // One message by itself between the runs, in two parts.
            if got % 100 == 5 {
                assert!(receive(&server, 2) == message(got), "message {got}");
                got += 1;
                continue;
            }
            let calls = 1 + got % 33;
            let received = server.receive_run(calls, LIMIT, |octets, more| {
                begun.extend_from_slice(octets);
                if !more {
                    assert!(std::mem::take(&mut begun) == message(got), "message {got}");
                    got += 1;
                }
            });
            assert!((1..=calls).contains(&received.expect("messages")));
            // What is left over when the next receive is that of a whole message.
            while !begun.is_empty() {
                server
                    .receive_run(1, LIMIT, |octets, more| {
                        begun.extend_from_slice(octets);
                        if !more {
                            assert!(std::mem::take(&mut begun) == message(got), "message {got}");
                            got += 1;
                        }
                    })
                    .expect("its rest");
            }
        }
        let end = server.receive_run(9, LIMIT, |_, _| panic!("there is no other"));
        assert_eq!(end.expect_err("an event").tli, TliError::Look);
        assert_eq!(server.look(), Some(Look::Release));
    });
}

#[test]
fn what_was_sent_leaves_by_itself() {
    for options in all_options() {
        let (client, server) = pair(options);
        // All of them fit into what the ends keep.
        for (len, count) in [(1, 700), (40, 700), (64, 700), (1500, 50)] {
            let shared: Arc<[u8]> = vec![9; len].into();
            let (mut sent, until) = (0, Instant::now() + LIMIT);
            while sent < count {
                match client.try_send_run(&shared, count - sent) {
                    Ok(taken) => sent += taken,
                    Err(error) => assert_eq!(error.tli, TliError::Flow),
                }
                assert!(Instant::now() < until, "{options:?}: {sent} of {count}");
            }
            // The client does nothing more, and no message waits for it.
            for _ in 0..count {
                assert_eq!(receive(&server, 2048).len(), len, "{options:?}");
            }
        }
    }
}

#[test]
fn expedited_data_pass_messages_of_a_run() {
    let (client, server) = pair(StreamOptions::default());
    for number in 0..100 {
        client
            .send(&message(number % 40), Flags::default(), LIMIT)
            .expect("it is sent");
    }
    client.flush(LIMIT).expect("it leaves");
    // The first of the run, of which the user takes a part.
    let mut first = [0; 1];
    assert_eq!(
        server
            .receive_within(&mut first, LIMIT)
            .expect("a message")
            .len,
        1
    );
    let expedited = Flags {
        expedited: true,
        ..Flags::default()
    };
    client.send(b"now", expedited, LIMIT).expect("it is sent");
    client.flush(LIMIT).expect("it leaves");
    let (mut ordinary, mut buffer) = (0, [0; 256]);
    let mut passed = None;
    while ordinary < 99 || passed.is_none() {
        let received = server
            .receive_within(&mut buffer, LIMIT)
            .expect("a message");
        if received.expedited {
            assert_eq!(&buffer[..received.len], b"now");
            passed = Some(ordinary);
        } else {
            ordinary += 1;
            assert!(
                buffer[..received.len] == message(ordinary % 40),
                "message {ordinary}"
            );
        }
    }
}

#[test]
fn a_run_of_which_all_was_received_hides_no_event() {
    let (client, server) = pair(StreamOptions::default());
    for number in 0..3 {
        client
            .send(&message(number), Flags::default(), LIMIT)
            .expect("it is sent");
    }
    for number in 0..3 {
        assert!(receive(&server, 256) == message(number));
    }
    assert_eq!(server.look(), None);
    client.send_release().expect("it releases");
    let until = Instant::now() + LIMIT;
    while server.look() != Some(Look::Release) {
        assert!(Instant::now() < until, "no event");
        server
            .wait(false, Duration::from_millis(20))
            .expect("it waits");
    }
}

/// `tirdwr` takes over messages that came together, of which the user has some, and a part of one.
#[test]
fn run_that_waits_is_read_as_octets() {
    const COUNT: usize = 100;
    let (client, server) = pair(StreamOptions::default());
    let mut expected = Vec::new();
    for number in 0..COUNT {
        client
            .send(&message(number), Flags::default(), LIMIT)
            .expect("it is sent");
        expected.extend(message(number));
    }
    client.flush(LIMIT).expect("it leaves");
    // The first whole, and some octets of the second.
    let mut got = receive(&server, 65_536);
    let mut buffer = [0; 2];
    let part = server
        .receive_within(&mut buffer, LIMIT)
        .expect("the second one");
    assert!(part.more && part.len == 2);
    got.extend(buffer);
    // Others come to the head behind what was taken from it.
    while server.look() != Some(Look::Data) {
        server.wait(false, LIMIT).expect("it waits");
    }
    let Ok(mut bytes) = server.into_byte_stream(LIMIT) else {
        panic!("nothing but data waits");
    };
    client.send_release().expect("it releases");
    bytes.read_to_end(&mut got).expect("all of it");
    assert!(
        got == expected,
        "{} octets of {}",
        got.len(),
        expected.len()
    );
}
