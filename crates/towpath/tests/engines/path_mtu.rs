//! Paths narrower than an Ethernet's, of both families: in a network namespace whose loopback has the
//! MTU of the path, so that the kernel segments and fragments as it does on an interface.

use rustix::net::{AddressFamily, Protocol, SendFlags, SocketType, sendto, socket};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::{self, File};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroU32;
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use towpath::files::{FileReceiver, ReceiveLimits};
use towpath::tunnel::Tunnel;
use towpath::xtp::{Endpoint, EndpointConfig};

const LIMIT: Duration = Duration::from_secs(30);

const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

/// Ethernet, PPPoE, a tunnel, and the least of IPv6.
const MTUS: [u32; 4] = [1500, 1492, 1400, 1280];

/// A network namespace; removed when it goes out of scope.
struct Network(String);

impl Network {
    /// None, with SKIPPED printed, where none can be made.
    fn new(mtu: u32) -> Option<Network> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let network = Network(format!("towpath-mtu-{}-{count}", std::process::id()));
        if !ip(&["netns", "add", &network.0]) {
            eprintln!("SKIPPED: path MTU: no network namespace can be made here");
            std::mem::forget(network);
            return None;
        }
        network.set_mtu(mtu);
        Some(network)
    }

    fn set_mtu(&self, mtu: u32) {
        let mtu = mtu.to_string();
        let words = ["-n", &self.0, "link", "set", "lo", "up", "mtu", &mtu];
        assert!(ip(&words), "the loopback takes an MTU of {mtu}");
    }

    /// Runs `test` in a thread in it, whose threads are in it too.
    fn run<R: Send>(&self, test: impl FnOnce() -> R + Send) -> R {
        std::thread::scope(|scope| {
            let inside = scope.spawn(|| {
                let file = File::open(format!("/run/netns/{}", self.0)).expect("it was made");
                let net = Some(LinkNameSpaceType::Network);
                move_into_link_name_space(file.as_fd(), net).expect("its maker may enter");
                test()
            });
            match inside.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        if !ip(&["netns", "delete", &self.0]) {
            eprintln!("the namespace {} stays behind", self.0);
        }
    }
}

fn ip(words: &[&str]) -> bool {
    let output = Command::new("ip").args(words).output();
    output.is_ok_and(|output| output.status.success())
}

/// Fragments that hosts of the calling thread's network have made.
fn fragments() -> u64 {
    let v4 = fs::read_to_string("/proc/thread-self/net/snmp").expect("procfs");
    let mut lines = v4.lines().filter(|line| line.starts_with("Ip: "));
    let names = lines.next().expect("names").split(' ');
    let values = lines.next().expect("values").split(' ');
    let v4 = names.zip(values).find(|(name, _)| *name == "FragCreates");
    let v6 = fs::read_to_string("/proc/thread-self/net/snmp6").expect("procfs");
    let v6 = v6.lines().find(|line| line.starts_with("Ip6FragCreates"));
    let v6 = v6.and_then(|line| line.split_whitespace().last());
    let counts = [v4.map(|(_, value)| value), v6];
    let counts = counts.map(|count| count.expect("the kernel counts").parse::<u64>());
    counts.map(|count| count.expect("a number")).iter().sum()
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| ((at * 31) >> 3) as u8).collect()
}

fn bind(host: IpAddr) -> Endpoint {
    let endpoint = Endpoint::bind(SocketAddr::new(host, 0), &EndpointConfig::default());
    endpoint.expect("a free port")
}

/// Sends `len` bytes and gets them back; `at` is called with the bytes sent so far. Returns the
/// packets that the sender built.
fn echo(host: IpAddr, len: usize, mut at: impl FnMut(usize, &Endpoint, SocketAddr)) -> u64 {
    let server = bind(host);
    server.listen(true);
    let peer = server.local_addr();
    let serving = std::thread::spawn(move || -> io::Result<()> {
        let mut circuit = server.accept(LIMIT)?;
        let mut buffer = vec![0; 65_536];
        while let Some(len) = circuit.recv(&mut buffer, LIMIT)? {
            circuit.send(&buffer[..len], LIMIT)?;
        }
        circuit.close(LIMIT)
    });
    let client = bind(host);
    let mut circuit = client.connect(peer, LIMIT).expect("it listens");
    let bytes = pattern(len);
    let mut back = Vec::new();
    let mut buffer = vec![0; 65_536];
    for part in bytes.chunks(20_000) {
        at(back.len(), &client, peer);
        circuit.send(part, LIMIT).expect("it reads");
        let end = back.len() + part.len();
        while back.len() < end {
            let got = circuit.recv(&mut buffer, LIMIT).expect("it answers");
            back.extend_from_slice(&buffer[..got.expect("not the end")]);
        }
    }
    assert!(back == bytes, "over {host}");
    circuit.close(LIMIT).expect("it ends");
    let packets = client.counters().packets_built;
    serving.join().expect("no panic").expect("it serves");
    packets
}

#[test]
fn streams_fit_routes_of_every_mtu_and_family() {
    for mtu in MTUS {
        let Some(network) = Network::new(mtu) else {
            return;
        };
        network.run(|| {
            for host in [V4, V6] {
                echo(host, 400_000, |_, _, _| {});
                assert_eq!(fragments(), 0, "over {host} with an MTU of {mtu}");
            }
        });
    }
}

#[test]
fn transfer_goes_on_when_its_route_shrinks_and_grows() {
    let Some(network) = Network::new(1500) else {
        return;
    };
    network.run(|| {
        for host in [V4, V6] {
            let before = fragments();
            echo(host, 2_000_000, |done, _, _| match done {
                500_000..520_000 => network.set_mtu(1280),
                1_000_000..1_020_000 => network.set_mtu(1500),
                1_500_000..1_520_000 => network.set_mtu(1400),
                _ => {}
            });
            network.set_mtu(1500);
            // What was cut for the wide route: at most a batch of each side, once.
            let fragments = fragments() - before;
            assert!((1..400).contains(&fragments), "{fragments} over {host}");
        }
    });
}

/// An ICMP message that claims that `peer` takes datagrams of `mtu` octets from `own` at most.
fn too_big(own: SocketAddr, peer: SocketAddr, mtu: u16) -> Vec<u8> {
    let udp = [own.port().to_be_bytes(), peer.port().to_be_bytes()].concat();
    let udp = [&udp[..], &1400u16.to_be_bytes(), &[0, 0]].concat();
    let mut packet = match (own.ip(), peer.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let mut header = vec![0x45, 0, 0x05, 0x8c, 0, 1, 0x40, 0, 64, 17, 0, 0];
            header.extend(from.octets().into_iter().chain(to.octets()));
            let [high, low] = mtu.to_be_bytes();
            [&[3, 4, 0, 0, 0, 0, high, low], &header[..], &udp].concat()
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let mut header = vec![0x60, 0, 0, 0, 0x05, 0x78, 17, 64];
            header.extend(from.octets().into_iter().chain(to.octets()));
            let [high, low] = mtu.to_be_bytes();
            [&[2, 0, 0, 0, 0, 0, high, low], &header[..], &udp].concat()
        }
        _ => panic!("both are of one family"),
    };
    if own.is_ipv4() {
        let check = engine::checksum::checksum(&packet);
        packet[2..4].copy_from_slice(&check.to_be_bytes());
    }
    packet
}

/// Sends forged reports that the path from `client` to `peer` carries next to nothing.
fn forge(client: &Endpoint, peer: SocketAddr, mtu: u16) {
    let own = client.local_addr();
    let (family, protocol) = match own {
        SocketAddr::V4(_) => (AddressFamily::INET, 1),
        SocketAddr::V6(_) => (AddressFamily::INET6, 58),
    };
    let protocol = Protocol::from_raw(NonZeroU32::new(protocol).expect("not 0"));
    let raw = socket(family, SocketType::RAW, Some(protocol)).expect("root may");
    let to = SocketAddr::new(own.ip(), 0);
    let packet = too_big(own, peer, mtu);
    sendto(&raw, &packet, SendFlags::empty(), &to).expect("the loopback is up");
}

#[test]
fn forged_icmp_ends_nothing_and_shortens_packets_to_the_least() {
    let Some(network) = Network::new(1500) else {
        return;
    };
    network.run(|| {
        for (host, least) in [(V4, 548), (V6, 1232)] {
            let len = 1_000_000;
            let packets = echo(host, len, |_, client, peer| {
                for mtu in [0, 68, 576, 1000] {
                    forge(client, peer, mtu);
                }
            });
            // Headers take 32 octets; control packets and part-filled ones come on top.
            let most = len.div_ceil(least - 32) + len / 20_000 * 8;
            assert!(packets < most as u64, "{packets} packets over {host}");
        }
    });
}

#[test]
fn files_and_tunnels_cross_narrow_routes_of_both_families() {
    for mtu in [1500, 1280] {
        let Some(network) = Network::new(mtu) else {
            return;
        };
        network.run(|| {
            for host in [V4, V6] {
                copy_file(host);
                tunnel(host);
            }
        });
    }
}

/// Copies a file between two endpoints of `host`.
fn copy_file(host: IpAddr) {
    let number = std::process::id();
    let folder = format!("path-mtu-{number}-{}", u8::from(host.is_ipv6()));
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(folder);
    fs::create_dir_all(folder.join("in")).expect("a folder to work in");
    let file = folder.join("file");
    let content = pattern(1_500_000);
    fs::write(&file, &content).expect("room");
    let inbox = FileReceiver {
        endpoint: bind(host),
        folder: Some(folder.join("in")),
        served: None,
        overwrite: false,
        limits: ReceiveLimits::default(),
        modules: None,
    };
    inbox.endpoint.listen(true);
    let to = inbox.endpoint.local_addr();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let receiving = scope.spawn(|| inbox.run(&stop, &|_| ()));
        let sent = towpath::files::send(&bind(host), to, &file, None, &mut |_| ());
        stop.store(true, Ordering::Relaxed);
        assert_eq!(sent.expect("it arrives").size, content.len() as u64);
        receiving.join().expect("no panic").expect("it serves");
    });
    let copied = fs::read(folder.join("in/file")).expect("it is there");
    assert!(copied == content);
    fs::remove_dir_all(folder).expect("it was made");
}

/// Carries a TCP connection between two ends of a tunnel on `host`.
fn tunnel(host: IpAddr) {
    use std::io::{Read, Write};
    use std::net::{Shutdown, TcpListener, TcpStream};
    let local = SocketAddr::new(host, 0);
    let listener = TcpListener::bind(local).expect("a free port");
    let target = listener.local_addr().expect("bound");
    let config = EndpointConfig::default();
    let mut far = Tunnel::from_xtp(local, target, &config).expect("a free port");
    let peer = far.local_addr().expect("bound");
    let mut near = Tunnel::to_xtp(local, peer, &config).expect("a free port");
    let entry = near.local_addr().expect("bound");
    let stop = AtomicBool::new(false);
    let bytes = pattern(1_500_000);
    std::thread::scope(|scope| {
        let ends = [&mut near, &mut far].map(|end| scope.spawn(|| end.run(&stop)));
        let serving = scope.spawn(|| {
            let (mut tcp, _) = listener.accept().expect("a peer");
            tcp.set_read_timeout(Some(LIMIT)).expect("a limit");
            let mut request = Vec::new();
            tcp.read_to_end(&mut request).expect("a whole request");
            tcp.write_all(&request).expect("it reads");
        });
        let mut tcp = TcpStream::connect(entry).expect("it listens");
        tcp.set_read_timeout(Some(LIMIT)).expect("a limit");
        tcp.write_all(&bytes).expect("it reads");
        tcp.shutdown(Shutdown::Write).expect("an end");
        let mut back = Vec::new();
        tcp.read_to_end(&mut back).expect("a whole answer");
        assert!(back == bytes);
        serving.join().expect("no panic");
        stop.store(true, Ordering::Relaxed);
        for end in ends {
            end.join().expect("no panic").expect("the endpoint lives");
        }
    });
}

/// SCTP asks the path itself; nothing but its probes tells it of a route that is wide again.
#[test]
fn sctp_finds_what_a_route_carries_and_nothing_of_it_is_fragmented() {
    for (mtu, host, headers) in [(1500, V4, 28), (1400, V4, 28), (1280, V6, 48)] {
        let Some(network) = Network::new(mtu) else {
            return;
        };
        network.run(|| {
            let config = towpath::sctp::EndpointConfig::default();
            let address = [SocketAddr::new(host, 0)];
            let bind = || towpath::sctp::Endpoint::bind(&address, &config).expect("a free port");
            let (server, client) = (bind(), bind());
            server.listen(true);
            let to = server.local_addrs();
            let opening = std::thread::spawn(move || client.connect(&to, LIMIT));
            let _accepted = server.accept(LIMIT).expect("an association");
            let mut opened = opening.join().expect("no panic").expect("it opens");
            // Only who fills packets asks what the path carries.
            let info = towpath::sctp::MessageInfo::default();
            let sent = opened.send(&[7; 3000], &info, LIMIT);
            sent.expect("the store has room");
            let carried = (mtu as usize - headers).min(1472);
            let end = std::time::Instant::now() + LIMIT;
            loop {
                let found = opened.status().paths[0].path_mtu;
                assert!(found <= carried, "{found} of {carried} over {host}");
                if found + 20 > carried {
                    break;
                }
                assert!(
                    std::time::Instant::now() < end,
                    "{found} of {carried} over {host}"
                );
                std::thread::sleep(Duration::from_millis(5));
            }
            assert_eq!(fragments(), 0, "over {host} with an MTU of {mtu}");
        });
    }
}
