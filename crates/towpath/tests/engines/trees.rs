//! Trees to a host and from one, and peers that mean harm.

use crate::files::{Host, Scratch, bytes, endpoint};
use std::fs;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};
use towpath::files::tree::{
    CopiedTree, PullTarget, TreeCall, TreeOptions, TreeProgress, pull, push,
};
use towpath::files::{ReceiveLimits, TransferKind};
use towpath::xtp::{Circuit, Endpoint};

const LIMIT: Duration = Duration::from_secs(30);

const ALL: TreeOptions = TreeOptions {
    recursive: true,
    preserve: true,
    totals: true,
};

/// A call with a stop flag of its own.
fn with_call<R>(options: TreeOptions, run: impl FnOnce(&TreeCall<'_>, &AtomicBool) -> R) -> R {
    let (endpoint, stop): (Endpoint, _) = (endpoint(), AtomicBool::new(false));
    let call = TreeCall {
        endpoint: &endpoint,
        modules: None,
        options,
        stop: &stop,
    };
    run(&call, &stop)
}

fn pushed(to: SocketAddr, path: &Path, options: TreeOptions) -> std::io::Result<CopiedTree> {
    with_call(options, |call, _| push(call, to, path, &mut |_| ()))
}

fn pulled(from: SocketAddr, path: &str, folder: &Path) -> std::io::Result<CopiedTree> {
    let target = PullTarget {
        folder,
        name: Some("copy"),
        overwrite: false,
    };
    with_call(ALL, |call, _| pull(call, from, path, &target, &mut |_| ()))
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("an own file");
}

fn set_time(path: &Path, s: u64, ns: u32) {
    let time = SystemTime::UNIX_EPOCH + Duration::new(s, ns);
    fs::File::open(path)
        .expect("it is there")
        .set_modified(time)
        .expect("an own file");
}

/// Files of every kind of size, folders, a link; bytes of the files.
fn make_tree(scratch: &Scratch) -> (PathBuf, u64) {
    let top = scratch.path("tree");
    fs::create_dir_all(top.join("sub/deep")).expect("room");
    fs::create_dir(top.join("empty")).expect("room");
    let sizes = [
        ("none", 0),
        ("one", 1),
        ("sub/small", 65_536),
        ("sub/large", 65_537),
        ("sub/deep/larger", 300_000),
        (".hidden", 10),
    ];
    for (name, len) in sizes {
        fs::write(top.join(name), bytes(len, len as u64)).expect("room");
        set_time(&top.join(name), 1_000_000_000 + len as u64, 123_456_789);
    }
    for number in 0..700 {
        fs::write(top.join(format!("sub/n{number}")), [number as u8; 3]).expect("room");
    }
    set_mode(&top.join("one"), 0o755);
    set_mode(&top.join("none"), 0o444);
    symlink("../one", top.join("sub/link")).expect("room");
    set_mode(&top.join("sub/deep"), 0o555);
    set_time(&top.join("sub/deep"), 1_100_000_000, 5);
    set_time(&top.join("sub"), 1_200_000_000, 7);
    let size: usize = sizes.iter().map(|(_, len)| len).sum();
    (top, size as u64 + 700 * 3)
}

/// Each path below a folder with its kind, mode, time and content.
fn listing(top: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    let mut folders = vec![top.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder").flatten() {
            let path = entry.path();
            let about = path.symlink_metadata().expect("it is there");
            let name = path.strip_prefix(top).expect("below").display().to_string();
            let time = (about.mtime(), about.mtime_nsec());
            lines.push(if about.is_symlink() {
                format!(
                    "{name} -> {}",
                    fs::read_link(&path).expect("a link").display()
                )
            } else if about.is_dir() {
                folders.push(path);
                format!("{name}/ {:o} {time:?}", about.mode())
            } else {
                let content = fs::read(&path).expect("it is readable");
                let sum = content
                    .iter()
                    .fold(0u64, |sum, &octet| sum.wrapping_mul(31) + u64::from(octet));
                format!("{name} {:o} {time:?} {} {sum}", about.mode(), content.len())
            });
        }
    }
    lines.sort();
    lines
}

#[test]
fn tree_arrives_with_modes_times_and_links_and_is_recognised_again() {
    let (host, here) = (
        Host::with_modules(false, ReceiveLimits::default(), None),
        Scratch::new(),
    );
    let (top, size) = make_tree(&here);
    let mut last = TreeProgress::default();
    let copied = with_call(ALL, |call, _| {
        push(call, host.address, &top, &mut |progress| last = progress)
    });
    let copied = copied.expect("it arrives");
    assert_eq!(
        (copied.files, copied.failed, copied.size, copied.bytes),
        (706, 0, size, size)
    );
    assert_eq!(listing(&top), listing(&host.folder.path("tree")));
    assert_eq!(
        (last.files_total, last.bytes_total),
        (Some(706), Some(size))
    );
    let received = host.received();
    assert_eq!(received.result.expect("it came"), host.folder.path("tree"));
    match received.kind {
        TransferKind::Tree(at_host) => assert_eq!((at_host.files, at_host.size), (706, size)),
        other => panic!("{other:?}"),
    }
    // Nothing is sent twice, and nothing that is not the same is replaced.
    fs::write(top.join("one"), b"2").expect("room");
    let again = pushed(host.address, &top, ALL).expect("it is looked at");
    assert_eq!(
        (again.files, again.files_present, again.bytes),
        (705, 705, 0)
    );
    assert_eq!(again.failures.len(), 1, "{:?}", again.failures);
    assert!(again.failures[0].0 == "one" && again.failures[0].1.contains("--overwrite"));
    assert_eq!(host.folder.names(), ["tree"]);
}

#[test]
fn tree_without_preserve_is_its_owners_alone() {
    let (host, here) = (
        Host::with_modules(true, ReceiveLimits::default(), None),
        Scratch::new(),
    );
    let (top, _) = make_tree(&here);
    let options = TreeOptions {
        preserve: false,
        ..ALL
    };
    assert_eq!(
        pushed(host.address, &top, options)
            .expect("it arrives")
            .failed,
        0
    );
    for (name, mode) in [
        ("one", 0o700),
        ("none", 0o400),
        ("sub/large", 0o600),
        ("sub/deep", 0o700),
    ] {
        let about = fs::metadata(host.folder.path("tree").join(name)).expect("it came");
        assert_eq!(about.mode() & 0o7777, mode, "{name}");
        assert!(about.mtime() > 1_300_000_000, "{name}");
    }
    // With --overwrite at the receiver, a file that has changed is replaced.
    fs::write(top.join("one"), b"2").expect("room");
    let again = pushed(host.address, &top, options).expect("it arrives");
    assert_eq!((again.failed, again.files, again.bytes), (0, 706, 1));
    assert_eq!(
        fs::read(host.folder.path("tree/one")).expect("it came"),
        b"2"
    );
}

#[test]
fn tree_is_fetched_from_a_host_that_serves_it() {
    let (there, here) = (Scratch::new(), Scratch::new());
    let (top, size) = make_tree(&there);
    let host = Host::start(false, ReceiveLimits::default(), None, Some(there.0.clone()));
    let copied = pulled(host.address, "tree", &here.0).expect("it arrives");
    assert_eq!((copied.files, copied.failed, copied.size), (706, 0, size));
    assert_eq!(listing(&top), listing(&here.path("copy")));
    assert!(matches!(host.received().kind, TransferKind::Given(given) if given.files == 706));
    // One file, and the whole of it that is served.
    fs::remove_dir_all(here.path("copy"))
        .or_else(|_| {
            set_mode(&here.path("copy/sub/deep"), 0o755);
            fs::remove_dir_all(here.path("copy"))
        })
        .expect("it goes");
    assert_eq!(
        pulled(host.address, "tree/sub/large", &here.0)
            .expect("it arrives")
            .bytes,
        65_537
    );
    let target = PullTarget {
        folder: &here.0,
        name: None,
        overwrite: false,
    };
    let all = with_call(ALL, |call, _| {
        pull(call, host.address, "", &target, &mut |_| ())
    });
    assert_eq!(all.expect("it arrives").files, 706);
    assert_eq!(here.names(), ["copy", "tree"]);
}

#[test]
fn stopped_transfer_goes_on_in_a_long_file() {
    let (host, here) = (
        Host::with_modules(false, ReceiveLimits::default(), None),
        Scratch::new(),
    );
    let top = here.path("tree");
    fs::create_dir(&top).expect("room");
    let content = bytes(16 << 20, 3);
    fs::write(top.join("long"), &content).expect("room");
    fs::write(top.join("a"), b"first").expect("room");
    let broken = with_call(ALL, |call, stop| {
        push(call, host.address, &top, &mut |progress| {
            stop.fetch_or(progress.bytes >= 8 << 20, Ordering::Relaxed);
        })
    });
    assert_eq!(
        broken.expect_err("it was stopped").kind(),
        ErrorKind::Interrupted
    );
    assert!(host.received().result.is_err());
    assert!(!host.folder.path("tree/long").exists());
    let again = pushed(host.address, &top, ALL).expect("it goes on");
    assert_eq!((again.files, again.files_present, again.failed), (2, 1, 0));
    assert!(again.bytes < 16 << 20 && again.bytes > 0, "{}", again.bytes);
    assert!(fs::read(host.folder.path("tree/long")).expect("it is there") == content);
    assert_eq!(host.folder.names(), ["tree"]);
}

#[test]
fn what_is_no_part_of_a_tree_is_left_out_and_said() {
    let (host, here) = (
        Host::with_modules(false, ReceiveLimits::default(), None),
        Scratch::new(),
    );
    let top = here.path("tree");
    fs::create_dir(&top).expect("room");
    fs::write(top.join("file"), b"content").expect("room");
    symlink("/etc/passwd", top.join("absolute")).expect("room");
    symlink("../outside", top.join("above")).expect("room");
    let fifo = (
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
    );
    rustix::fs::mknodat(rustix::fs::CWD, top.join("pipe"), fifo.0, fifo.1, 0).expect("room");
    let copied = pushed(host.address, &top, ALL).expect("it arrives");
    let names: Vec<&str> = copied.failures.iter().map(|(name, _)| &**name).collect();
    assert_eq!(
        (copied.files, names),
        (1, vec!["above", "absolute", "pipe"])
    );
    assert_eq!(listing(&host.folder.path("tree")).len(), 1);
    // A folder needs -r; a pipe is nothing to send.
    let one = TreeOptions {
        recursive: false,
        ..ALL
    };
    let error = pushed(host.address, &top, one).expect_err("it is a folder");
    assert!(error.to_string().contains("-r"), "{error}");
    let error = pushed(host.address, &top.join("pipe"), one).expect_err("it is a pipe");
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

#[test]
fn host_gives_nothing_outside_the_served_folder() {
    let (there, here) = (Scratch::new(), Scratch::new());
    there.file("secret", b"secret");
    let served = there.path("served");
    fs::create_dir(&served).expect("room");
    symlink("../secret", served.join("link")).expect("room");
    symlink("..", served.join("above")).expect("room");
    let host = Host::start(false, ReceiveLimits::default(), None, Some(served));
    for path in [
        "../secret",
        "/etc/passwd",
        "link",
        "above/secret",
        "above",
        "a/../../secret",
        "nosuch",
    ] {
        let refused = pulled(host.address, path, &here.0);
        assert!(refused.is_err(), "{path}: {refused:?}");
    }
    // The folder itself has two links that lead out of it.
    let all = pulled(host.address, "", &here.0).expect("the rest of it is none");
    assert_eq!((all.files, all.failed), (0, 2));
    let silent = Host::with_modules(false, ReceiveLimits::default(), None);
    let error = pulled(silent.address, "a", &here.0).expect_err("it gives nothing");
    assert!(error.to_string().contains("--serve"), "{error}");
}

/// A circuit on which a tree is pushed by hand.
fn hostile_sender(host: &Host, top: &str) -> Circuit {
    let mut circuit = endpoint().connect(host.address, LIMIT).expect("it listens");
    let len = (top.len() as u16).to_be_bytes();
    let request = [b"towcp\0\0\x03\x01\x03", &len[..], top.as_bytes()].concat();
    circuit.send(&request, LIMIT).expect("room");
    circuit.flush().expect("sent");
    let mut granted = [9];
    assert_eq!(
        circuit.recv(&mut granted, LIMIT).expect("an answer"),
        Some(1)
    );
    assert_eq!(granted, [0], "it is granted");
    circuit
}

/// A frame that begins with a path.
fn with_path(kind: u8, path: &str, rest: &[u8]) -> Vec<u8> {
    let len = (path.len() as u16).to_be_bytes();
    [&[kind][..], &len, path.as_bytes(), rest].concat()
}

fn file_frame(path: &str, size: u64) -> Vec<u8> {
    let attributes = [&0o644u16.to_be_bytes()[..], &[0; 12]].concat();
    with_path(
        2,
        path,
        &[&attributes[..], &size.to_be_bytes(), &[0]].concat(),
    )
}

#[test]
fn hostile_sender_writes_nothing_outside_the_folder() {
    let host = Host::with_modules(true, ReceiveLimits::default(), None);
    for (name, frames) in [
        ("dots", file_frame("../../evil", 1)),
        ("absolute", file_frame("/tmp/evil", 1)),
        ("inside dots", file_frame("a/../../evil", 1)),
        (
            "link out",
            with_path(4, "a", &[&[0, 2][..], b".."].concat()),
        ),
        (
            "absolute link",
            with_path(4, "a", &[&[0, 4][..], b"/tmp"].concat()),
        ),
        ("unknown kind", vec![77]),
        ("content nobody asked for", [&[6][..], &[0; 8]].concat()),
        ("data of no file", vec![7, 0, 0, 0, 1, 1]),
        ("end of no file", [&[8][..], &[0; 32]].concat()),
        (
            "mode with set-user-ID",
            with_path(5, "a", &[&[0x09, 0xed][..], &[0; 12]].concat()),
        ),
    ] {
        let mut circuit = hostile_sender(&host, "top");
        circuit.send(&frames, LIMIT).expect("room");
        // It may have been refused by now.
        let _ = circuit.send_last(&[11], LIMIT);
        let received = host.received();
        let refused = match received.kind {
            TransferKind::Tree(copied) => received.result.is_err() || copied.failed == 1,
            _ => false,
        };
        assert!(refused, "{name}");
        assert!(
            host.folder.names().is_empty(),
            "{name}: {:?}",
            host.folder.names()
        );
    }
    assert!(!host.folder.path("../../evil").exists());
}

#[test]
fn links_in_the_folder_are_not_followed() {
    let outside = Scratch::new();
    let host = Host::with_modules(true, ReceiveLimits::default(), None);
    symlink(&outside.0, host.folder.path("top")).expect("room");
    fs::create_dir(host.folder.path("real")).expect("room");
    symlink(&outside.0, host.folder.path("real/way")).expect("room");
    for (top, path) in [("top", "evil"), ("real", "way/evil")] {
        let mut circuit = hostile_sender(&host, top);
        circuit.send(&file_frame(path, 0), LIMIT).expect("room");
        circuit.send_last(&[11], LIMIT).expect("room");
        match host.received().kind {
            TransferKind::Tree(copied) => {
                assert_eq!((copied.files, copied.failed), (0, 1), "{path}")
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(outside.names().is_empty());
    // A name that leads up is no name.
    let mut circuit = endpoint().connect(host.address, LIMIT).expect("it listens");
    circuit
        .send(b"towcp\0\0\x03\x01\x03\0\x02..", LIMIT)
        .expect("room");
    circuit.flush().expect("sent");
    assert!(host.received().result.is_err());
}

#[test]
fn more_entries_than_the_window_and_more_bytes_than_offered_end_the_transfer() {
    let host = Host::with_modules(false, ReceiveLimits::default(), None);
    let many: Vec<u8> = (0..600)
        .flat_map(|number| file_frame(&format!("f{number}"), 1))
        .collect();
    let long = [
        &file_frame("a", 1)[..],
        &[6, 0, 0, 0, 0, 0, 0, 0, 0],
        &[7, 0, 0, 0, 2, 1, 1],
    ]
    .concat();
    let corrupt = [
        &file_frame("a", 1)[..],
        &[6, 0, 0, 0, 0, 0, 0, 0, 0],
        &[7, 0, 0, 0, 1, 1, 8],
        &[0; 32],
        &[11],
    ]
    .concat();
    for (octets, ends) in [(many, true), (long, true), (corrupt, false)] {
        let mut circuit = hostile_sender(&host, "top");
        circuit.send(&octets, LIMIT).expect("room");
        circuit.flush().expect("sent");
        let received = host.received();
        assert_eq!(received.result.is_err(), ends);
        match received.kind {
            TransferKind::Tree(copied) => {
                assert_eq!((copied.files, copied.failed), (0, u64::from(!ends)))
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(host.folder.names().is_empty());
}

#[test]
fn host_that_answers_out_of_order_ends_the_push() {
    let here = Scratch::new();
    let path = here.file("a", b"content");
    for answer in [
        &[6][..],
        &[4],
        &[3, 3],
        &[2, 0, 0, 0, 0, 0, 0, 0, 99],
        &[200],
        &[8, 0, 0],
    ] {
        let server = endpoint();
        server.listen(true);
        let to = server.local_addr();
        let path = path.clone();
        let client = std::thread::spawn(move || pushed(to, &path, ALL));
        let mut circuit = server.accept(LIMIT).expect("it connects");
        let padding = [0; 64];
        circuit
            .send(&[&[0][..], answer, &padding].concat(), LIMIT)
            .expect("room");
        circuit.flush().expect("sent");
        let error = client
            .join()
            .expect("no panic")
            .expect_err("it is no receiver");
        let known = [ErrorKind::InvalidData, ErrorKind::Other];
        assert!(known.contains(&error.kind()), "{answer:?}: {error}");
    }
}
