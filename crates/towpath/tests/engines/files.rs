//! File transfer to one host and to many.

use crate::hostile_datagrams::bombard;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use towpath::files::{
    FileReceiver, ReceiveLimits, ReceivedFile, SentFile, TransferProgress, send, send_to_group,
};
use towpath::push::ModuleStack;
use towpath::xtp::group::{self, GroupEndpointConfig, GroupWords, example_group};
use towpath::xtp::{Endpoint, EndpointConfig};

const LIMIT: Duration = Duration::from_secs(30);

/// A directory that is removed when it goes out of scope.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new() -> Scratch {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("files-{}-{number}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&path).expect("a folder to work in");
        Scratch(path)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, bytes).expect("room for a file");
        path
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).expect("the folder is there");
        let name = |entry: fs::DirEntry| entry.file_name().into_string().expect("UTF-8");
        let mut names: Vec<String> = entries.flatten().map(name).collect();
        names.sort();
        names
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn endpoint() -> Endpoint {
    let local = "127.0.0.1:0".parse().expect("a literal address");
    Endpoint::bind(local, &EndpointConfig::default()).expect("a free port")
}

/// A running file receiver. It stops when it goes out of scope.
pub(crate) struct Host {
    pub(crate) folder: Scratch,
    pub(crate) address: SocketAddr,
    received_files: Receiver<ReceivedFile>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Host {
    fn new(overwrite: bool) -> Host {
        let groups = vec!["239.0.0.0/8".parse().expect("a range")];
        Host::with_limits(
            overwrite,
            ReceiveLimits {
                groups,
                ..ReceiveLimits::default()
            },
        )
    }

    fn with_limits(overwrite: bool, limits: ReceiveLimits) -> Host {
        Host::with_modules(overwrite, limits, None)
    }

    pub(crate) fn with_modules(
        overwrite: bool,
        limits: ReceiveLimits,
        modules: Option<ModuleStack>,
    ) -> Host {
        Host::start(overwrite, limits, modules, None)
    }

    /// One that also gives the files of a folder.
    pub(crate) fn start(
        overwrite: bool,
        limits: ReceiveLimits,
        modules: Option<ModuleStack>,
        served: Option<PathBuf>,
    ) -> Host {
        let folder = Scratch::new();
        let inbox = FileReceiver {
            endpoint: endpoint(),
            folder: Some(folder.0.clone()),
            served,
            overwrite,
            limits,
            modules,
        };
        let address = inbox.endpoint.local_addr();
        // A sender may connect before the thread starts.
        inbox.endpoint.listen(true);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let (say, received_files) = channel();
        let say = Mutex::new(say);
        let thread = std::thread::spawn(move || {
            let tell = |received| {
                let say = say.lock().expect("no panic");
                let _ = say.send(received);
            };
            inbox.run(&stopped, &tell).expect("the endpoint lives");
        });
        Host {
            folder,
            address,
            received_files,
            stop,
            thread: Some(thread),
        }
    }

    pub(crate) fn received(&self) -> ReceivedFile {
        self.received_files
            .recv_timeout(LIMIT)
            .expect("something came")
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

pub(crate) fn bytes(len: usize, salt: u64) -> Vec<u8> {
    let mut random = engine::SplitMix64::new(salt);
    (0..len).map(|_| random.next_u64() as u8).collect()
}

#[test]
fn files_of_every_size_arrive_under_plain_names() {
    let (host, here) = (Host::new(false), Scratch::new());
    for (name, len) in [
        ("empty", 0),
        ("one", 1),
        (".hidden", 70_000),
        ("large.bin", 3_000_001),
    ] {
        let content = bytes(len, 5);
        let path = here.file(name, &content);
        let mut reported = Vec::new();
        let sent = send(&endpoint(), host.address, &path, None, &mut |progress| {
            reported.push(progress)
        });
        let size = len as u64;
        assert_eq!(
            sent.expect("it arrives"),
            SentFile {
                size,
                resumed_from: 0,
                module_counts: BTreeMap::new(),
            }
        );
        let last = TransferProgress {
            resumed_from: 0,
            done: size,
            size,
        };
        assert_eq!(reported.last(), Some(&last));
        let received = host.received();
        let name = name.trim_start_matches('.');
        assert_eq!((&*received.name, received.progress), (name, last));
        assert_eq!(
            received.result.expect("it is whole"),
            host.folder.path(name)
        );
        assert!(fs::read(host.folder.path(name)).expect("it is there") == content);
    }
    assert_eq!(host.folder.names(), ["empty", "hidden", "large.bin", "one"]);
}

#[test]
fn transfer_resumes_from_matching_partial_file() {
    let (host, here) = (Host::new(false), Scratch::new());
    let content = bytes(2 << 20, 6);
    let path = here.file("data", &content);
    // A partial file of an earlier transfer.
    host.folder.file(".data.part", &content[..1_500_000]);
    let sent = send(&endpoint(), host.address, &path, None, &mut |_| ()).expect("it arrives");
    assert_eq!(sent.resumed_from, 1_500_000);
    assert!(fs::read(host.folder.path("data")).expect("it is there") == content);
    // A partial file of other content, or a longer one, is discarded.
    for (name, left) in [("b", bytes(1000, 7)), ("c", bytes(3 << 20, 6))] {
        let path = here.file(name, &content);
        host.folder.file(&format!(".{name}.part"), &left);
        let sent = send(&endpoint(), host.address, &path, None, &mut |_| ()).expect("it arrives");
        assert_eq!(sent.resumed_from, 0);
        assert!(fs::read(host.folder.path(name)).expect("it is there") == content);
    }
    assert_eq!(host.folder.names(), ["b", "c", "data"]);
}

#[test]
fn aborted_transfer_leaves_only_partial_file() {
    let (host, here) = (Host::new(false), Scratch::new());
    let content = bytes(8 << 20, 8);
    let path = here.file("data", &content);
    let shortened = path.clone();
    let broken = send(&endpoint(), host.address, &path, None, &mut |progress| {
        if progress.done >= 4 << 20 {
            let file = fs::File::options().write(true).open(&shortened);
            file.expect("it is there")
                .set_len(1 << 20)
                .expect("an own file");
        }
    });
    let error = broken.expect_err("the file got shorter");
    assert!(error.to_string().contains("shorter"), "{error}");
    let received = host.received();
    assert!(received.result.is_err() && received.progress.done >= 1 << 20);
    assert_eq!(host.folder.names(), [".data.part"]);
    fs::write(&path, &content).expect("space to send");
    let sent = send(&endpoint(), host.address, &path, None, &mut |_| ()).expect("it arrives");
    assert_eq!(sent.resumed_from, received.progress.done);
    assert!(fs::read(host.folder.path("data")).expect("it is there") == content);
}

#[test]
fn existing_file_is_overwritten_only_when_allowed() {
    let here = Scratch::new();
    let path = here.file("data", b"new");
    let careful = Host::new(false);
    careful.folder.file("data", b"old");
    let error =
        send(&endpoint(), careful.address, &path, None, &mut |_| ()).expect_err("it is there");
    assert!(error.to_string().contains("--overwrite"), "{error}");
    assert_eq!(
        fs::read(careful.folder.path("data")).expect("a file"),
        b"old"
    );
    let free = Host::new(true);
    free.folder.file("data", b"old");
    send(&endpoint(), free.address, &path, None, &mut |_| ()).expect("it arrives");
    assert_eq!(fs::read(free.folder.path("data")).expect("a file"), b"new");
    // A directory is refused, and an endpoint that does not listen gives ConnectionRefused.
    let error = send(&endpoint(), free.address, &here.0, None, &mut |_| ()).expect_err("a folder");
    assert!(error.to_string().contains("archive"), "{error}");
    let nobody = endpoint();
    let error = send(&endpoint(), nobody.local_addr(), &path, None, &mut |_| ());
    assert_eq!(
        error.expect_err("nobody").kind(),
        ErrorKind::ConnectionRefused
    );
}

/// The octets of an offer in the file protocol.
fn offer_octets(name: &str, size: u64) -> Vec<u8> {
    let mut octets = b"towcp\0\0\x02".to_vec();
    octets.extend([7; 16]);
    octets.extend(size.to_be_bytes());
    octets.extend([0; 18]);
    octets.extend((name.len() as u16).to_be_bytes());
    octets.extend(name.as_bytes());
    octets
}

#[test]
fn dead_transfer_gives_its_place_to_another_of_its_host() {
    let (host, here) = (Host::new(false), Scratch::new());
    let content = bytes(300_000, 14);
    let path = here.file("data", &content);
    // A sender that was killed says nothing more, and its circuit stays.
    let mut dead = endpoint().connect(host.address, LIMIT).expect("it listens");
    let begun = [
        &offer_octets("data", 300_000)[..],
        &[0; 8],
        &content[..100_000],
    ]
    .concat();
    dead.send(&begun, LIMIT).expect("room");
    dead.flush().expect("sent");
    while !host.folder.names().contains(&".data.part".to_owned()) {
        std::thread::sleep(Duration::from_millis(5));
    }
    let sent = send(&endpoint(), host.address, &path, None, &mut |_| ());
    assert_eq!(sent.expect("it takes the place").size, 300_000);
    let displaced = host.received().result.expect_err("it is over");
    assert_eq!(displaced.kind(), ErrorKind::Interrupted, "{displaced}");
    assert!(fs::read(host.folder.path("data")).expect("it is there") == content);
}

#[test]
fn unknown_protocol_is_refused() {
    let host = Host::new(false);
    let mut circuit = endpoint().connect(host.address, LIMIT).expect("it listens");
    circuit.send(&[b'x'; 200], LIMIT).expect("space to send");
    circuit.flush().expect("sent");
    assert!(host.received().result.is_err());
    assert!(host.folder.names().is_empty());
}

#[test]
fn offer_beyond_limits_is_refused_with_the_option() {
    let here = Scratch::new();
    let path = here.file("data", &bytes(5000, 11));
    let small = ReceiveLimits {
        size_max: 4999,
        ..ReceiveLimits::default()
    };
    let full = ReceiveLimits {
        keep_free_bytes: u64::MAX,
        ..ReceiveLimits::default()
    };
    for (limits, option) in [(small, "--max-size"), (full, "--keep-free")] {
        let host = Host::with_limits(false, limits);
        let refused = send(&endpoint(), host.address, &path, None, &mut |_| ());
        let why = refused.expect_err("it is too much").to_string();
        assert!(why.contains(option), "{why}");
        assert!(host.folder.names().is_empty());
    }
}

#[test]
fn group_outside_the_ranges_is_not_joined() {
    let here = Scratch::new();
    let path = here.file("data", &bytes(5000, 12));
    let host = Host::with_limits(false, ReceiveLimits::default());
    let sent = send_to_group(
        &endpoint(),
        &[host.address],
        (example_group(), &GroupWords::default()),
        &path,
        &mut |_| (),
    );
    let sent = sent.expect("nothing is sent to the group").remove(0);
    let why = sent.expect_err("it is refused").to_string();
    assert!(why.contains("--groups"), "{why}");
    assert!(host.folder.names().is_empty());
}

#[test]
fn sender_with_its_share_of_the_transfers_is_refused() {
    let limits = ReceiveLimits {
        per_peer_max: 1,
        ..ReceiveLimits::default()
    };
    let host = Host::with_limits(false, limits);
    // A transfer that says nothing yet; the receiver accepts in order.
    let silent = endpoint().connect(host.address, LIMIT).expect("it listens");
    let here = Scratch::new();
    let path = here.file("data", b"content");
    let error =
        send(&endpoint(), host.address, &path, None, &mut |_| ()).expect_err("no share is left");
    assert!(error.to_string().contains("--per-peer"), "{error}");
    let refused = host.received().result.expect_err("nothing came");
    assert_eq!(refused.kind(), ErrorKind::QuotaExceeded);
    // The share is free again once the first one has ended.
    silent.abort().expect("it leaves");
    assert!(host.received().result.is_err());
    let sent = (0..1000).find_map(|_| {
        std::thread::sleep(Duration::from_millis(10));
        send(&endpoint(), host.address, &path, None, &mut |_| ()).ok()
    });
    assert!(sent.is_some());
}

#[test]
fn offer_that_trickles_is_refused() {
    let host = Host::new(false);
    let mut circuit = endpoint().connect(host.address, LIMIT).expect("it listens");
    // An octet each half second would take 40 s for its 80; the offer is given up before.
    let offer = [b"towcp\0\0\x02".to_vec(), vec![7; 72]].concat();
    let refused = offer.iter().find_map(|octet| {
        let _ = circuit
            .send(&[*octet], LIMIT)
            .and_then(|()| circuit.flush());
        host.received_files
            .recv_timeout(Duration::from_millis(500))
            .ok()
    });
    let refused = refused.expect("it is given up");
    let error = refused.result.expect_err("no offer came");
    assert_eq!(error.kind(), ErrorKind::TimedOut);
}

/// Sends a file to hosts by a group: what became of it at each; None, with a SKIPPED line, where there are no groups.
fn sent_to_group(
    hosts: &[SocketAddr],
    group: SocketAddr,
    path: &Path,
) -> Option<Vec<io::Result<SentFile>>> {
    let words = GroupWords::default();
    match send_to_group(&endpoint(), hosts, (group, &words), path, &mut |_| ()) {
        Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {
            eprintln!("SKIPPED: the loopback of this machine carries no groups: {error}");
            None
        }
        sent => Some(sent.expect("the group is there")),
    }
}

#[test]
fn stranger_on_an_asked_host_is_no_member() {
    let here = Scratch::new();
    let path = here.file("data", &bytes(300_000, 10));
    let (host, address) = (Host::new(false), example_group());
    let settings = GroupEndpointConfig::default();
    let stranger = group::Receiver::join(address, host.address.ip(), &settings).expect("it joins");
    let Some(mut sent) = sent_to_group(&[host.address], address, &path) else {
        return;
    };
    assert_eq!(sent.remove(0).expect("it arrives").size, 300_000);
    let heard = stranger.accept(Duration::from_millis(300));
    assert!(heard.is_err(), "a stranger received the file");
}

#[test]
fn file_is_sent_to_many_hosts_at_once() {
    let here = Scratch::new();
    let content = bytes(3_000_000, 9);
    let path = here.file("data", &content);
    let hosts: Vec<Host> = (0..3).map(|_| Host::new(false)).collect();
    // One host has a partial file, and one refuses because the file exists.
    hosts[0].folder.file(".data.part", &content[..2_000_000]);
    hosts[2].folder.file("data", b"other");
    let addresses: Vec<SocketAddr> = hosts.iter().map(|host| host.address).collect();
    let Some(sent) = sent_to_group(&addresses, example_group(), &path) else {
        return;
    };
    for (host, sent) in hosts.iter().zip(sent).take(2) {
        let whole = SentFile {
            size: 3_000_000,
            resumed_from: 0,
            module_counts: BTreeMap::new(),
        };
        assert_eq!(sent.expect("it arrives"), whole);
        assert!(fs::read(host.folder.path("data")).expect("it is there") == content);
    }
    assert_eq!(
        fs::read(hosts[2].folder.path("data")).expect("a file"),
        b"other"
    );
}

#[test]
fn receiver_serves_after_hostile_datagrams() {
    let (host, here) = (Host::new(false), Scratch::new());
    // A host of their own, which may have few transfers at once: none of the honest one's.
    bombard(Ipv4Addr::new(127, 0, 0, 2), &[host.address], 3);
    let path = here.file("honest", &bytes(100_000, 1));
    let sent = send(&endpoint(), host.address, &path, None, &mut |_| ());
    assert_eq!(sent.expect("it arrives").size, 100_000);
    // Offers of strangers are over after five seconds, and each is reported as failed.
    while host.received().result.is_err() {}
    assert_eq!(host.folder.names(), ["honest"]);
}
