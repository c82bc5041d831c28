//! Associations of XTP whose packets go through shared memory, and which outlive it.

use super::testbed_hosts::{at, hosts, start};
use std::io::{self, BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use testbed::{FrameMode, LinkPlan};
use towpath::xtp::contexts::query;
use towpath::xtp::{Circuit, Endpoint, EndpointConfig, Shortcut};

const LIMIT: Duration = Duration::from_secs(20);

/// Bytes that a client sends, and the server returns.
const BYTES: usize = 8 << 20;

fn endpoint(shortcut: Shortcut) -> Endpoint {
    let config = EndpointConfig {
        shortcut,
        ..EndpointConfig::default()
    };
    let local: SocketAddr = "127.0.0.1:0".parse().expect("a literal address");
    Endpoint::bind(local, &config).expect("the loopback has a free port")
}

fn echo(server: &Endpoint) -> io::Result<()> {
    let mut circuit = server.accept(LIMIT)?;
    let mut buffer = vec![0; 64 << 10];
    while let Some(len) = circuit.recv(&mut buffer, LIMIT)? {
        circuit.send(&buffer[..len], LIMIT)?;
    }
    circuit.close(LIMIT)
}

/// Sends `BYTES` in pieces and receives them; calls `at_half` in between.
fn exchange(circuit: &mut Circuit, at_half: impl FnOnce()) {
    let piece: Vec<u8> = (0..48 << 10).map(|at| (at * 7) as u8).collect();
    let mut at_half = Some(at_half);
    let mut received = vec![0; piece.len()];
    for round in 0..BYTES / piece.len() {
        circuit.send(&piece, LIMIT).expect("it is sent");
        let mut got = 0;
        while got < received.len() {
            let part = circuit.recv(&mut received[got..], LIMIT);
            got += part.expect("it arrives").expect("before the end");
        }
        assert_eq!(received, piece, "round {round}");
        if round == BYTES / piece.len() / 2
            && let Some(at_half) = at_half.take()
        {
            at_half();
        }
    }
}

/// Echoes between endpoints with these shortcuts; what went through rings, in octets sent by the client.
fn echoed([of_client, of_server]: [Shortcut; 2], at_half: impl FnOnce(&Endpoint)) -> Option<u64> {
    let server = endpoint(of_server);
    server.listen(true);
    let to = server.local_addr();
    let serving = thread::spawn(move || echo(&server));
    let client = endpoint(of_client);
    let mut circuit = client.connect(to, LIMIT).expect("the server accepts");
    exchange(&mut circuit, || at_half(&client));
    let rings = client.rings();
    circuit.close(LIMIT).expect("the peer closes too");
    serving
        .join()
        .expect("it does not panic")
        .expect("it ends well");
    rings.first().map(|one| {
        assert_eq!(one.peer, to);
        one.octets_sent
    })
}

#[test]
fn association_between_processes_of_a_host_uses_rings() {
    let octets = echoed([Shortcut::On, Shortcut::On], |_| ());
    assert!(
        octets.is_some_and(|octets| octets as usize > BYTES * 9 / 10),
        "{octets:?}"
    );
}

#[test]
fn association_outlives_its_rings() {
    let octets = echoed([Shortcut::On, Shortcut::On], Endpoint::end_rings);
    assert_eq!(octets, None);
}

#[test]
fn association_with_an_end_that_has_no_shortcut_goes_by_udp() {
    assert_eq!(echoed([Shortcut::On, Shortcut::Off], |_| ()), None);
    assert_eq!(echoed([Shortcut::Off, Shortcut::On], |_| ()), None);
}

#[test]
fn ends_with_different_meeting_places_go_by_udp() {
    let directory = std::env::temp_dir();
    assert_eq!(
        echoed([Shortcut::Directory(directory), Shortcut::On], |_| ()),
        None
    );
}

#[test]
fn association_meets_by_a_directory() {
    let directory = std::env::temp_dir().join(format!("towpath-shortcut-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    let place = Shortcut::Directory(directory.clone());
    let octets = echoed([place.clone(), place], |_| ());
    assert!(
        octets.is_some_and(|octets| octets as usize > BYTES * 9 / 10),
        "{octets:?}"
    );
    std::fs::remove_dir(&directory).expect("no file is left");
}

#[test]
fn directory_that_is_none_is_refused_with_its_name() {
    let config = EndpointConfig {
        shortcut: Shortcut::Directory(PathBuf::from("/no/such/place")),
        ..EndpointConfig::default()
    };
    let local: SocketAddr = "127.0.0.1:0".parse().expect("a literal address");
    let refused = Endpoint::bind(local, &config).err().expect("there is none");
    assert!(refused.to_string().contains("/no/such/place"), "{refused}");
}

#[test]
fn many_circuits_of_two_endpoints_share_one_pair_of_rings() {
    const CIRCUITS: usize = 8;
    let server = endpoint(Shortcut::On);
    server.listen(true);
    let to = server.local_addr();
    let serving: Vec<_> = (0..CIRCUITS)
        .map(|_| {
            let server = server.clone();
            thread::spawn(move || echo(&server))
        })
        .collect();
    let client = endpoint(Shortcut::On);
    let clients: Vec<_> = (0..CIRCUITS)
        .map(|number| {
            let client = client.clone();
            thread::spawn(move || -> io::Result<()> {
                let mut circuit = client.connect(to, LIMIT)?;
                let mut buffer = [0; 256];
                for round in 0..100 {
                    let message = [(number + round) as u8; 200];
                    circuit.send(&message, LIMIT)?;
                    let mut got = 0;
                    while got < message.len() {
                        got += circuit
                            .recv(&mut buffer[got..message.len()], LIMIT)?
                            .unwrap_or(0);
                    }
                    assert_eq!(buffer[..got], message);
                }
                circuit.close(LIMIT)
            })
        })
        .collect();
    for one in clients.into_iter().chain(serving) {
        one.join()
            .expect("it does not panic")
            .expect("it ends well");
    }
    assert_eq!(client.rings().len(), 1);
}

#[test]
fn report_on_contexts_names_the_rings() {
    let server = endpoint(Shortcut::On);
    server.listen(true);
    let to = server.local_addr();
    let serving = thread::spawn(move || echo(&server));
    let client = endpoint(Shortcut::On);
    let path = client.serve_contexts().expect("a private directory");
    let mut circuit = client.connect(to, LIMIT).expect("the server accepts");
    exchange(&mut circuit, || ());
    let report = query(&path).expect("it answers");
    let rings = report.shortcut.expect("it is on");
    assert_eq!(rings.len(), 1);
    assert_eq!(rings[0].peer, to.to_string());
    assert!(rings[0].octets_received as usize > BYTES * 9 / 10);
    circuit.close(LIMIT).expect("the peer closes too");
    serving
        .join()
        .expect("it does not panic")
        .expect("it ends well");
    let off = endpoint(Shortcut::Off);
    let path = off.serve_contexts().expect("a private directory");
    assert_eq!(query(&path).expect("it answers").shortcut, None);
}

/// Set in the processes that a test starts and kills: they echo.
const ROLE: &str = "TOWPATH_TEST_SHORTCUT";

/// The child process. Does nothing in an ordinary run.
#[test]
fn shortcut_process() {
    if std::env::var_os(ROLE).is_none() {
        return;
    }
    let server = endpoint(Shortcut::On);
    server.listen(true);
    println!("\naddress {}", server.local_addr());
    io::stdout().flush().expect("stdout is a pipe");
    // It is killed in the middle of it.
    let _ = echo(&server);
}

/// A process that echoes, and its address.
fn process() -> (Child, SocketAddr) {
    let mut child = Command::new(std::env::current_exe().expect("a test binary"))
        .args(["--exact", "shortcut::shortcut_process", "--nocapture"])
        .env(ROLE, "1")
        .stdout(Stdio::piped())
        .spawn()
        .expect("the test binary runs");
    let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let address = lines
        .map_while(Result::ok)
        .find_map(|line| line.strip_prefix("address ")?.parse().ok());
    (child, address.expect("the child names its address"))
}

#[test]
fn peer_that_is_killed_takes_its_rings_along_and_nothing_else() {
    let client = endpoint(Shortcut::On);
    for _ in 0..3 {
        let (mut child, to) = process();
        let mut circuit = client.connect(to, LIMIT).expect("the child accepts");
        exchange(&mut circuit, || ());
        assert_eq!(client.rings().len(), 1);
        circuit.send(&[1; 100_000], LIMIT).expect("it is sent");
        child.kill().expect("it runs");
        child.wait().expect("it was killed");
        let end = Instant::now() + LIMIT;
        let mut buffer = [0; 4096];
        while !client.rings().is_empty() {
            // What was sent before the end arrives; then nothing does.
            let _ = circuit.recv(&mut buffer, Duration::from_millis(20));
            assert!(
                Instant::now() < end,
                "the end of the process was not noticed"
            );
        }
    }
}

#[test]
fn hosts_in_different_namespaces_meet_by_a_directory_that_both_see() {
    let link = LinkPlan::Emulated(Default::default(), FrameMode::Auto);
    let Some(testbed) = hosts(&["a", "b"], link) else {
        return;
    };
    let [a, b] = ["a", "b"].map(|name| testbed.host(name).expect("it is up"));
    let [from, to] = [at(a), at(b)];
    let directory = std::env::temp_dir().join(format!("towpath-namespaces-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    let config = EndpointConfig {
        shortcut: Shortcut::Directory(directory.clone()),
        ..EndpointConfig::default()
    };
    let of_server = config.clone();
    let bound = b.run(move || Endpoint::bind(to, &of_server));
    let server = bound.expect("the host is there").expect("a port");
    server.listen(true);
    let serving = start(b, move || echo(&server));
    let octets = start(a, move || {
        let client = Endpoint::bind(from, &config).expect("a port");
        let mut circuit = client.connect(to, LIMIT).expect("the server accepts");
        exchange(&mut circuit, || ());
        let rings = client.rings();
        circuit.close(LIMIT).expect("the peer closes too");
        // The server ends after it: the endpoint stays for its last acknowledgement.
        (client, rings.first().map_or(0, |one| one.octets_sent))
    });
    let (_client, octets) = octets.recv_timeout(2 * LIMIT).expect("it ends");
    assert!(octets as usize > BYTES * 9 / 10, "{octets}");
    let served = serving.recv_timeout(LIMIT).expect("it ends");
    served.expect("it ends well");
    std::fs::remove_dir(&directory).expect("no file is left");
}
