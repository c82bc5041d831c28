//! TCP connections through both ends of a tunnel on the loopback.

use crate::hostile_datagrams::bombard;
use engine::{Associations, Batch, Protocol};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::Duration;
use towpath::tunnel::{Tunnel, TunnelCounts};
use towpath::xtp::{Endpoint, EndpointConfig};

/// Timeout of all waits.
const LIMIT: Duration = Duration::from_secs(20);

pub(crate) fn local() -> SocketAddr {
    "127.0.0.1:0".parse().expect("a literal address")
}

/// Both ends of a path to `target`, each in a thread.
pub(crate) struct Path {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<TunnelCounts>>,
    entry: SocketAddr,
}

impl Path {
    fn to(target: SocketAddr, settings: &EndpointConfig, connections: usize) -> Path {
        Path::with(target, settings, connections, |_| ())
    }

    pub(crate) fn with(
        target: SocketAddr,
        settings: &EndpointConfig,
        connections: usize,
        configure: impl Fn(&mut Tunnel),
    ) -> Path {
        let far = Tunnel::from_xtp(local(), target, settings).expect("a free port");
        let peer = far.local_addr().expect("bound");
        let near = Tunnel::to_xtp(local(), peer, settings).expect("a free port");
        let entry = near.local_addr().expect("bound");
        let stop = Arc::new(AtomicBool::new(false));
        let threads = [near, far].map(|mut end| {
            end.set_connections_max(connections);
            configure(&mut end);
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                end.run(&stop).expect("the endpoint lives");
                end.counts()
            })
        });
        Path {
            stop,
            threads: threads.into(),
            entry,
        }
    }

    pub(crate) fn connect(&self) -> TcpStream {
        with_timeouts(TcpStream::connect(self.entry).expect("the forwarder listens"))
    }

    /// Stops both ends; returns their counters.
    pub(crate) fn stop(self) -> [TunnelCounts; 2] {
        self.stop.store(true, Ordering::Relaxed);
        let mut counts = self.threads.into_iter().map(|thread| {
            let counts = thread.join();
            counts.expect("a forwarder does not panic")
        });
        [(); 2].map(|()| counts.next().expect("two ends"))
    }
}

fn with_timeouts(tcp: TcpStream) -> TcpStream {
    tcp.set_read_timeout(Some(LIMIT)).expect("a limit");
    tcp.set_write_timeout(Some(LIMIT)).expect("a limit");
    tcp
}

/// Pseudo-random bytes, different for each salt.
pub(crate) fn bytes(len: usize, salt: u64) -> Vec<u8> {
    let mut random = engine::SplitMix64::new(salt);
    (0..len).map(|_| random.next_u64() as u8).collect()
}

/// A server that replies to each connection with `answer` of the whole request.
pub(crate) fn server(
    count: usize,
    answer: impl Fn(&[u8]) -> Vec<u8> + Send + Sync + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind(local()).expect("a free port");
    let address = listener.local_addr().expect("bound");
    let answer = Arc::new(answer);
    std::thread::spawn(move || {
        for _ in 0..count {
            let (tcp, _) = listener.accept().expect("a peer");
            let answer = Arc::clone(&answer);
            std::thread::spawn(move || {
                let (mut tcp, mut request) = (with_timeouts(tcp), Vec::new());
                tcp.read_to_end(&mut request).expect("a whole request");
                tcp.write_all(&answer(&request)).expect("space to send");
            });
        }
    });
    address
}

#[test]
fn tunnel_carries_both_directions_with_half_close() {
    for words in [&[][..], &[("queue", "32k"), ("packet", "600")]] {
        let own = words.iter().map(|(k, v)| (k.to_string(), v.to_string()));
        let settings = EndpointConfig::parse(&own.collect()).expect("valid options");
        // The reply starts only after the end of the request.
        let target = server(1, |request| {
            assert!(request == bytes(3 << 20, 1));
            bytes(5 << 20, 2)
        });
        let path = Path::to(target, &settings, 10);
        let mut tcp = path.connect();
        tcp.write_all(&bytes(3 << 20, 1)).expect("space to send");
        tcp.shutdown(Shutdown::Write).expect("an end");
        let mut answer = Vec::new();
        tcp.read_to_end(&mut answer).expect("a whole answer");
        assert!(answer == bytes(5 << 20, 2));
        let [near, far] = path.stop();
        assert_eq!((near.sent_bytes, near.received_bytes), (3 << 20, 5 << 20));
        assert_eq!((far.sent_bytes, far.received_bytes), (5 << 20, 3 << 20));
    }
}

#[test]
fn more_senders_than_permits_all_get_their_turn() {
    // 16 send stores are filled at a time. Those that pause hold none: their reads find nothing in a full store's room.
    const COUNT: usize = 40;
    const PART: usize = 300_000;
    let target = server(COUNT, |request| request.to_vec());
    let path = Path::to(target, &EndpointConfig::default(), COUNT);
    let send = &|salt: u64| {
        let mut tcp = path.connect();
        let request = bytes(2 * PART, salt);
        for part in request.chunks(PART) {
            tcp.write_all(part).expect("space to send");
            std::thread::sleep(Duration::from_millis(20));
        }
        tcp.shutdown(Shutdown::Write).expect("an end");
        let mut back = Vec::new();
        tcp.read_to_end(&mut back).expect("a whole answer");
        assert!(back == request, "connection {salt}");
    };
    std::thread::scope(|scope| {
        for salt in 0..COUNT as u64 {
            scope.spawn(move || send(salt));
        }
    });
    let counts = path.stop().map(|end| (end.sent_bytes, end.received_bytes));
    let all = (COUNT * 2 * PART) as u64;
    assert_eq!(counts, [(all, all); 2]);
}

#[test]
fn tunnel_does_not_delay_interactive_echo() {
    // Like a terminal session: a key, its echo, the next key.
    let listener = TcpListener::bind(local()).expect("a free port");
    let target = listener.local_addr().expect("bound");
    let echo = std::thread::spawn(move || {
        let mut tcp = with_timeouts(listener.accept().expect("a peer").0);
        let mut key = [0; 16];
        loop {
            match tcp.read(&mut key).expect("a key or the end") {
                0 => return,
                len => tcp.write_all(&key[..len]).expect("space to send"),
            }
        }
    });
    let path = Path::to(target, &EndpointConfig::default(), 10);
    let mut tcp = path.connect();
    for key in 0..200u8 {
        tcp.write_all(&[key]).expect("space to send");
        let mut echo = [0];
        tcp.read_exact(&mut echo).expect("its echo");
        assert_eq!(echo, [key]);
    }
    tcp.shutdown(Shutdown::Write).expect("an end");
    assert_eq!(tcp.read(&mut [0; 16]).expect("the other end"), 0);
    echo.join().expect("it saw the end of the stream");
    path.stop();
}

#[test]
fn connections_beyond_limit_wait_and_complete() {
    const COUNT: usize = 60;
    let target = server(COUNT, |request| [request, b"!"].concat());
    // The limit is below COUNT: further connections wait.
    let path = Path::to(target, &EndpointConfig::default(), 8);
    std::thread::scope(|scope| {
        for number in 0..COUNT {
            let path = &path;
            scope.spawn(move || {
                let mut tcp = path.connect();
                let request = bytes(20_000 + number, number as u64);
                tcp.write_all(&request).expect("space to send");
                tcp.shutdown(Shutdown::Write).expect("an end");
                let mut answer = Vec::new();
                tcp.read_to_end(&mut answer).expect("an answer");
                assert!(answer == [&request[..], b"!"].concat(), "{number}");
            });
        }
    });
    let [near, far] = path.stop();
    for counts in [near, far] {
        assert_eq!((counts.opened, counts.broken), (COUNT as u64, 0));
    }
}

#[test]
fn unreachable_target_resets_connection_and_is_logged_once_a_second() {
    // TCP has no connections to a broadcast address: the connect fails at once, without a packet.
    let target = "255.255.255.255:9".parse().expect("a literal address");
    let settings = EndpointConfig::default();
    let mut far = Tunnel::from_xtp(local(), target, &settings).expect("a free port");
    let peer = far.local_addr().expect("bound");
    let (say, said) = channel();
    far.set_log(move |line| say.send(line.to_owned()).expect("the test waits"));
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let running = std::thread::spawn(move || {
        far.run(&stopped).expect("the endpoint lives");
        far.counts()
    });
    let client = Endpoint::bind(local(), &settings).expect("a free port");
    for _ in 0..5 {
        let circuit = client.connect(peer, LIMIT);
        // The reset may come before or after the answer to the first packet.
        let ended = circuit.and_then(|mut circuit| circuit.recv(&mut [0; 16], LIMIT));
        let error = ended.expect_err("a clean end would be taken for a whole answer");
        assert_ne!(error.kind(), ErrorKind::TimedOut);
    }
    stop.store(true, Ordering::Relaxed);
    let counts = running.join().expect("no panic");
    assert_eq!((counts.opened, counts.broken, counts.ended), (5, 5, 0));
    let lines: Vec<String> = said.try_iter().collect();
    assert!(
        lines[0].starts_with("cannot connect to the target: "),
        "{lines:?}"
    );
}

#[test]
fn peer_beyond_its_share_is_reset() {
    let listener = TcpListener::bind(local()).expect("a free port");
    let target = listener.local_addr().expect("bound");
    let limited = |end: &mut Tunnel| end.set_per_peer_max(Some(2));
    let path = Path::with(target, &EndpointConfig::default(), 10, limited);
    let kept = [path.connect(), path.connect()];
    let servers = [(); 2].map(|()| listener.accept().expect("both come through").0);
    let mut third = path.connect();
    let error = third.read(&mut [0; 1]).expect_err("it is one too many");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    drop((kept, servers));
    // Their places are free again once both ends have noticed.
    let again = (0..1000).find_map(|_| {
        let mut tcp = path.connect();
        tcp.write_all(b"x").ok()?;
        listener.set_nonblocking(true).expect("a flag");
        std::thread::sleep(Duration::from_millis(20));
        listener.accept().ok()
    });
    assert!(again.is_some());
    path.stop();
}

/// A FIRST for the endpoint at `to`, as a client makes it.
fn opening(to: SocketAddr, config: &engine_xtp::Config) -> Vec<u8> {
    let (now, to) = (engine::Instant::ZERO, engine::Address::Socket(to));
    let mut client = engine_xtp::Xtp::new(config.clone());
    client.connect(now, &[to]).expect("room for one");
    let mut batch = Batch::new(1);
    client.poll_transmit(now, &mut batch);
    let mut packet = Vec::new();
    batch.write(&batch.packets()[0], &mut packet, |_, _, _| {});
    packet
}

#[test]
fn target_is_reached_by_peers_that_answer_alone() {
    let target = TcpListener::bind(local()).expect("a free port");
    let to = target.local_addr().expect("bound");
    for version in ["4.0", "3.6"] {
        let own = [("dialect".to_owned(), version.to_owned())].into();
        let settings = EndpointConfig::accepting_late().with_options(&own);
        let settings = settings.expect("valid options");
        let mut far = Tunnel::from_xtp(local(), to, &settings).expect("a free port");
        let far_address = far.local_addr().expect("bound");
        let near = Endpoint::bind(local(), &settings).expect("a free port");
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            far.run(&stopped).expect("the endpoint lives");
            far.counts()
        });
        // Who forges its source never hears the answer.
        let forger = std::net::UdpSocket::bind(local()).expect("a free port");
        for _ in 0..10 {
            let forged = opening(far_address, &settings.config);
            let sent = forger.send_to(&forged, far_address);
            sent.expect("the loopback takes it");
        }
        let mut circuit = near.connect(far_address, LIMIT).expect("it listens");
        circuit.send(b"hello", LIMIT).expect("space to send");
        circuit.flush().expect("it leaves");
        let mut server = with_timeouts(target.accept().expect("the honest one").0);
        server.read_exact(&mut [0; 5]).expect("a greeting");
        stop.store(true, Ordering::Relaxed);
        let counts = thread.join().expect("no panic");
        assert_eq!(counts.opened, 1, "{version}: forged ones opened nothing");
    }
}

#[test]
fn idle_connection_is_reset() {
    let listener = TcpListener::bind(local()).expect("a free port");
    let target = listener.local_addr().expect("bound");
    let idle = |end: &mut Tunnel| end.set_idle_timeout(Some(Duration::from_millis(300)));
    let path = Path::with(target, &EndpointConfig::default(), 10, idle);
    let mut tcp = path.connect();
    tcp.write_all(b"hello").expect("space to send");
    let mut server = with_timeouts(listener.accept().expect("a peer").0);
    server.read_exact(&mut [0; 5]).expect("a greeting");
    let error = server.read(&mut [0; 1]).expect_err("nothing more came");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    let error = tcp.read(&mut [0; 1]).expect_err("nothing came back");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    let [near, far] = path.stop();
    assert_eq!((near.broken, far.broken), (1, 1));
}

#[test]
fn refusing_target_resets_connection() {
    let nobody = {
        let listener = TcpListener::bind(local()).expect("a free port");
        listener.local_addr().expect("bound")
    };
    let path = Path::to(nobody, &EndpointConfig::default(), 10);
    let mut tcp = path.connect();
    let error = tcp.read(&mut [0; 16]).expect_err("no listener");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    let [near, far] = path.stop();
    assert_eq!((near.broken, far.broken), (1, 1));
}

/// A path, and both ends of a connection through it that have said hello.
fn greeted() -> (Path, TcpStream, TcpStream) {
    let listener = TcpListener::bind(local()).expect("a free port");
    let target = listener.local_addr().expect("bound");
    let path = Path::to(target, &EndpointConfig::default(), 10);
    let mut tcp = path.connect();
    tcp.write_all(b"hello").expect("space to send");
    let mut server = with_timeouts(listener.accept().expect("a peer").0);
    server.read_exact(&mut [0; 5]).expect("a greeting");
    (path, tcp, server)
}

#[test]
fn reset_on_one_side_resets_the_other() {
    let (path, tcp, mut server) = greeted();
    let socket = socket2::SockRef::from(&tcp);
    socket.set_linger(Some(Duration::ZERO)).expect("an option");
    drop(tcp);
    let error = server.read(&mut [0; 16]).expect_err("the client broke off");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    path.stop();
}

/// A read of TCP returns less than there is where an urgent octet is next (tcp(7)); what follows it comes too.
#[test]
fn what_follows_an_urgent_octet_is_carried() {
    let (path, mut tcp, mut server) = greeted();
    for _ in 0..20 {
        let (before, after) = (bytes(1000, 1), bytes(3000, 2));
        tcp.write_all(&before).expect("space to send");
        let urgent = socket2::SockRef::from(&tcp).send_out_of_band(b"!");
        urgent.expect("space to send");
        tcp.write_all(&after).expect("space to send");
        let mut received = vec![0; 4000];
        server
            .read_exact(&mut received)
            .expect("all but the urgent");
        assert!(received == [before, after].concat());
    }
    path.stop();
}

/// A reader that stops for a while leaves all on the way full: nothing is lost, and all comes in order.
#[test]
fn tunnel_waits_for_a_reader_that_stops() {
    let listener = TcpListener::bind(local()).expect("a free port");
    let target = listener.local_addr().expect("bound");
    let reader = std::thread::spawn(move || {
        let mut tcp = with_timeouts(listener.accept().expect("a peer").0);
        // Long enough for the tunnel and its sockets to fill; what is checked does not depend on it.
        std::thread::sleep(Duration::from_millis(100));
        let mut all = Vec::new();
        tcp.read_to_end(&mut all).map(|_| all)
    });
    let path = Path::to(target, &EndpointConfig::default(), 10);
    let (mut tcp, sent) = (path.connect(), bytes(12 << 20, 3));
    tcp.write_all(&sent).expect("space to send");
    tcp.shutdown(Shutdown::Write).expect("an end");
    let received = reader.join().expect("no panic");
    assert!(received.expect("a whole stream") == sent);
    path.stop();
}

/// Strangers at the XTP port of the far end cost nobody his connection.
#[test]
fn tunnel_serves_after_hostile_datagrams() {
    let target = TcpListener::bind(local()).expect("a free port");
    let to = target.local_addr().expect("bound");
    let far = Tunnel::from_xtp(local(), to, &EndpointConfig::default()).expect("a free port");
    let peer = far.local_addr().expect("bound");
    let near = Tunnel::to_xtp(local(), peer, &EndpointConfig::default()).expect("a free port");
    let entry = near.local_addr().expect("bound");
    let stop = Arc::new(AtomicBool::new(false));
    let threads = [near, far].map(|mut end| {
        let stop = Arc::clone(&stop);
        std::thread::spawn(move || end.run(&stop).expect("the endpoint lives"))
    });
    bombard(Ipv4Addr::LOCALHOST, &[peer], 2);
    let answering = std::thread::spawn(move || {
        // Connections that strangers opened come first, with whatever they said.
        for tcp in target.incoming() {
            let mut tcp = with_timeouts(tcp.expect("a connection"));
            let mut request = [0; 6];
            if tcp.read_exact(&mut request).is_ok() && request == *b"honest" {
                return tcp.write_all(b"served").expect("space to send");
            }
        }
    });
    let mut tcp = with_timeouts(TcpStream::connect(entry).expect("it listens"));
    tcp.write_all(b"honest").expect("space to send");
    let mut reply = [0; 6];
    tcp.read_exact(&mut reply).expect("a reply");
    assert_eq!(&reply, b"served");
    answering.join().expect("no panic");
    stop.store(true, Ordering::Relaxed);
    for thread in threads {
        thread.join().expect("a forwarder does not panic");
    }
}
