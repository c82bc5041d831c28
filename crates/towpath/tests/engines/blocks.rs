//! The storage server: files got and put, what is refused, and restarts.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use towpath::blocks::{self, BlockClient, FileKind};
use towpath::vmtp::{Endpoint, EndpointConfig};

const LIMIT: Duration = Duration::from_secs(20);

/// A folder that is removed on drop.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let name = format!("blocks-{name}-{}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join("served")).expect("a folder");
        Scratch(path)
    }

    fn served(&self) -> PathBuf {
        self.0.join("served")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Serves the folder at `at` while `act` runs with a client.
fn serving<T>(scratch: &Scratch, at: &str, act: impl FnOnce(&BlockClient, SocketAddr) -> T) -> T {
    let config = EndpointConfig::default();
    let endpoint = Endpoint::bind(at.parse().expect("an address"), &config).expect("a port");
    let over = AtomicBool::new(false);
    let local = endpoint.local_addr();
    std::thread::scope(|scope| {
        let served = scope.spawn(|| {
            let is_over = || over.load(Ordering::Relaxed);
            blocks::serve(&endpoint, &scratch.served(), 2, is_over)
        });
        let client = BlockClient::new(local, LIMIT).expect("a client");
        // The endpoint refuses calls until its server holds the name.
        let is_refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
        while client.stat("absent").is_err_and(is_refused) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| act(&client, local)));
        over.store(true, Ordering::Relaxed);
        served.join().expect("no panic").expect("it serves");
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn octets(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + (at >> 9)) as u8).collect()
}

#[test]
fn files_are_put_listed_and_got_again() {
    let scratch = Scratch::new("transfer");
    fs::create_dir(scratch.served().join("sub")).expect("a folder");
    serving(&scratch, "127.0.0.1:0", |client, _| {
        for (name, len) in [("empty", 0), ("one", 1), ("sub/large", 1_000_003)] {
            let source = scratch.0.join("source");
            fs::write(&source, octets(len)).expect("room");
            let progress = client.put(&source, name).expect("it is put");
            assert_eq!(
                (progress.total, progress.resumed_at),
                (len as u64, 0),
                "{name}"
            );
            assert!(fs::read(scratch.served().join(name)).expect("it is there") == octets(len));
            let copy = scratch.0.join("copy");
            client.get(name, &copy).expect("it is got");
            assert!(
                fs::read(&copy).expect("it is here") == octets(len),
                "{name}"
            );
        }
        let listed = client.list("").expect("a list");
        let names: Vec<&str> = listed.iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!(names, ["empty", "one", "sub"]);
        assert_eq!(listed[2].status.kind, FileKind::Folder);
        let status = client.stat("sub/large").expect("it is there");
        assert_eq!((status.kind, status.len), (FileKind::File, 1_000_003));
        let left = fs::read_dir(scratch.served()).expect("a folder").count();
        assert_eq!(left, 3, "no hidden file is left");
    });
}

#[test]
fn long_folders_are_listed_in_parts() {
    let scratch = Scratch::new("list");
    for number in 0..200 {
        fs::write(scratch.served().join(format!("{number:03}")), b"x").expect("room");
    }
    serving(&scratch, "127.0.0.1:0", |client, _| {
        let listed = client.list("").expect("a list");
        let names: Vec<String> = listed.into_iter().map(|entry| entry.name).collect();
        let wanted: Vec<String> = (0..200).map(|number| format!("{number:03}")).collect();
        assert_eq!(names, wanted);
    });
}

#[test]
fn paths_out_of_the_folder_and_hidden_ones_are_refused() {
    let scratch = Scratch::new("paths");
    fs::write(scratch.0.join("secret"), b"secret").expect("room");
    fs::write(scratch.served().join(".hidden"), b"hidden").expect("room");
    let link = |to: &str, name: &str| {
        std::os::unix::fs::symlink(to, scratch.served().join(name)).expect("a link");
    };
    link("../secret", "link");
    link("/etc", "etc");
    serving(&scratch, "127.0.0.1:0", |client, _| {
        let copy = scratch.0.join("copy");
        for path in [
            "../secret",
            "/etc/passwd",
            ".hidden",
            "link",
            "etc/passwd",
            "a/../../secret",
        ] {
            let error = client.get(path, &copy).expect_err(path);
            assert_eq!(
                error.kind(),
                io::ErrorKind::PermissionDenied,
                "{path}: {error}"
            );
            let source = scratch.0.join("secret");
            assert!(
                client.put(&source, path).is_err() || path == "link",
                "{path}"
            );
        }
        let error = client.get("missing", &copy).expect_err("it is not there");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(client.list("../").is_err());
    });
    assert_eq!(
        fs::read(scratch.0.join("secret")).expect("there"),
        b"secret"
    );
    assert_eq!(fs::read_dir(&scratch.0).expect("a folder").count(), 2);
}

#[test]
fn client_goes_on_with_a_server_that_was_restarted() {
    let scratch = Scratch::new("restart");
    let source = scratch.0.join("source");
    fs::write(&source, octets(100_000)).expect("room");
    let at = serving(&scratch, "127.0.0.1:0", |_, at| at);
    let client = BlockClient::new(at, LIMIT).expect("a client");
    for round in 0..3 {
        serving(&scratch, &at.to_string(), |_, _| {
            client.put(&source, "file").expect("it is put");
            let copy = scratch.0.join(format!("copy-{round}"));
            client.get("file", &copy).expect("it is got");
            assert!(fs::read(&copy).expect("here") == octets(100_000));
        });
    }
}

#[test]
fn nobody_at_the_address_is_named_with_the_remedy() {
    let config = EndpointConfig::default();
    let any = "127.0.0.1:0".parse().expect("an address");
    let endpoint = Endpoint::bind(any, &config).expect("a port");
    let client = BlockClient::new(endpoint.local_addr(), LIMIT).expect("a client");
    let error = client.stat("x").expect_err("there is no server");
    assert!(
        error.to_string().contains("towpath blocks serve"),
        "{error}"
    );
}
