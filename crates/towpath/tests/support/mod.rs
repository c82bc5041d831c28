//! Shared by the conformance tests: subjects, pairs of circuits, sends and receives that retry.
#![allow(dead_code, reason = "each test file uses its own part")]

pub mod namespace;

use std::io::ErrorKind::WouldBlock;
use std::time::{Duration, Instant};
use towpath::{Circuit, Listener, Options, Transport, all};

/// Timeout after which a test fails instead of hanging: a machine that others use may stand still for seconds.
pub const LIMIT: Duration = Duration::from_secs(60);

/// A transport with the options of both ends.
pub struct Subject {
    pub transport: &'static dyn Transport,
    pub listening: Options,
    pub connecting: Options,
}

/// A listener and the two ends of its first circuit.
pub struct Pair {
    pub listener: Box<dyn Listener>,
    pub client: Box<dyn Circuit>,
    pub server: Box<dyn Circuit>,
}

impl Subject {
    pub fn new(transport: &'static dyn Transport, options: &Options) -> Subject {
        Subject {
            transport,
            listening: options.clone(),
            connecting: options.clone(),
        }
    }

    /// The same with an option of the transport's own at both ends.
    pub fn with_option(&self, name: &str, value: &str) -> Subject {
        let mut subject = Subject {
            transport: self.transport,
            listening: self.listening.clone(),
            connecting: self.connecting.clone(),
        };
        for options in [&mut subject.listening, &mut subject.connecting] {
            let own = &mut options.transport_specific;
            own.insert(name.to_owned(), value.to_owned());
        }
        subject
    }

    /// Whether the transport has an option of its own by that name.
    pub fn has_option(&self, name: &str) -> bool {
        let mut options = self.transport.options().iter();
        options.any(|option| option.name == name)
    }

    pub fn name(&self) -> &'static str {
        self.transport.name()
    }

    /// Whether it uses interfaces instead of Internet addresses.
    pub fn is_link_layer(&self) -> bool {
        self.name().ends_with("-ether")
    }

    /// Opens `options.circuits` circuits: clients and servers, in the same order.
    #[allow(clippy::type_complexity)]
    pub fn open(
        &self,
    ) -> (
        Box<dyn Listener>,
        Vec<Box<dyn Circuit>>,
        Vec<Box<dyn Circuit>>,
    ) {
        let name = self.name();
        let fail = |what: &str, error: std::io::Error| -> ! { panic!("{name}: {what}: {error}") };
        let mut listener = self
            .transport
            .listen(&self.listening)
            .unwrap_or_else(|error| fail("listen", error));
        let rendezvous = listener
            .rendezvous()
            .unwrap_or_else(|error| fail("rendezvous", error));
        let count = self.listening.circuits;
        let (mut clients, mut servers) = (Vec::new(), Vec::new());
        // Some transports complete a handshake only while the listener accepts.
        std::thread::scope(|scope| {
            let connecting = scope.spawn(|| {
                let connect = |index| {
                    let made = self.transport.connect(&rendezvous, index, &self.connecting);
                    made.unwrap_or_else(|error| fail("connect", error))
                };
                (0..count).map(connect).collect::<Vec<_>>()
            });
            for _ in 0..count {
                let server = listener.accept(Instant::now() + LIMIT);
                servers.push(server.unwrap_or_else(|error| fail("accept", error)));
            }
            clients = connecting.join().expect("the connecting thread ends");
        });
        (listener, clients, servers)
    }

    /// Opens one circuit.
    pub fn pair(&self) -> Pair {
        let (listener, mut clients, mut servers) = self.open();
        Pair {
            listener,
            client: clients.remove(0),
            server: servers.remove(0),
        }
    }

    /// Opens one circuit whose listening side knows its peer.
    pub fn introduced_pair(&self) -> Pair {
        let mut pair = self.pair();
        send(&mut *pair.client, b"hello");
        // A listening side that connects its socket does so on the second message.
        send(&mut *pair.client, b"hello");
        if self.transport.class().stream {
            assert_eq!(recv_bytes(&mut *pair.server, 10), b"hellohello");
        } else {
            assert_eq!(recv_one(&mut *pair.server), b"hello");
            assert_eq!(recv_one(&mut *pair.server), b"hello");
        }
        pair
    }
}

/// Runs `test` for every transport that carries data and is available.
pub fn for_each(options: &Options, test: impl Fn(&Subject) + Sync) {
    let mut tested = 0;
    for &transport in all() {
        match transport.name() {
            "null" => continue,
            // One direction only: tested separately.
            _ if transport.is_one_to_many() => continue,
            "raw-ether" | "xtp-ether" | "vmtp-ether" => {
                tested += usize::from(namespace::with_veth(transport, options, &test));
            }
            _ => {
                let subject = Subject::new(transport, options);
                match transport.available(options) {
                    Ok(()) => {
                        // Shown if the test fails.
                        println!("with {}", subject.name());
                        test(&subject);
                        tested += 1;
                    }
                    Err(why) => eprintln!("SKIPPED: {}: {}", subject.name(), why.reason),
                }
            }
        }
    }
    assert!(tested >= 5, "hardly any transport is available here");
}

/// A message whose content depends on the position and on `salt`.
pub fn pattern(len: usize, salt: usize) -> Vec<u8> {
    (0..len)
        .map(|at| (at * 7 + salt * 31 + at / 251) as u8)
        .collect()
}

/// Sends one message and flushes; retries while the circuit is full.
pub fn send(circuit: &mut dyn Circuit, message: &[u8]) {
    let deadline = Instant::now() + LIMIT;
    loop {
        match circuit.send(message) {
            Ok(()) => break,
            Err(error) if error.kind() == WouldBlock => {}
            Err(error) => panic!("send of {} bytes: {error}", message.len()),
        }
        assert!(
            Instant::now() < deadline,
            "no space for {} bytes",
            message.len()
        );
    }
    flush(circuit);
}

/// Flushes the circuit; retries while it is full.
pub fn flush(circuit: &mut dyn Circuit) {
    let deadline = Instant::now() + LIMIT;
    while let Err(error) = circuit.flush() {
        assert_eq!(error.kind(), WouldBlock, "flush: {error}");
        assert!(Instant::now() < deadline, "no space for a flush");
    }
}

/// Receives one message, or the bytes a stream has; None at the end.
pub fn recv(circuit: &mut dyn Circuit) -> Option<Vec<u8>> {
    let mut buffer = vec![0; 128 << 10];
    let deadline = Instant::now() + LIMIT;
    loop {
        match circuit.recv(&mut buffer) {
            Ok(got) => return got.map(|len| buffer[..len].to_vec()),
            Err(error) if error.kind() == WouldBlock => {}
            Err(error) => panic!("recv: {error}"),
        }
        assert!(Instant::now() < deadline, "nothing arrives");
    }
}

/// Receives one message; panics at the end of the stream.
pub fn recv_one(circuit: &mut dyn Circuit) -> Vec<u8> {
    recv(circuit).expect("a message, not the end")
}

/// Receives `len` bytes of a stream.
pub fn recv_bytes(circuit: &mut dyn Circuit, len: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < len {
        bytes.extend(recv_one(circuit));
    }
    bytes
}
