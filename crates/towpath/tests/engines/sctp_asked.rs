//! usrsctp, the stack of FreeBSD, asks for changes of its own addresses (RFC 5061).

use super::testbed_hosts::hosts_over;
use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use testbed::Host;
use towpath::sctp::{AddressChange, Association, Endpoint, EndpointConfig, Notice, PathStatus};

const LIMIT: Duration = Duration::from_secs(20);

/// The program, built in `folder`; None, with a SKIPPED line, without a compiler or usrsctp.
fn build(folder: &Path) -> Option<PathBuf> {
    let source = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../xtask/peers/usrsctp/usrsctp_asks.c"
    );
    let program = folder.join("usrsctp_asks");
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-Wall", "-o"]).arg(&program).arg(source);
    let built = cc.args(["-lusrsctp", "-lpthread"]).output();
    if built.is_ok_and(|output| output.status.success()) {
        return Some(program);
    }
    eprintln!("SKIPPED: apt-get install gcc libusrsctp-dev");
    None
}

/// usrsctp in a host of its own.
struct Asking {
    child: Child,
    steps: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Asking {
    fn start(host: &Host, program: PathBuf, peer: SocketAddr) -> Asking {
        let [own, more] = [0, 1].map(|link| host.address_on(link).to_string());
        let started = host.run(move || {
            let mut program = Command::new(program);
            program.args([own, more, peer.ip().to_string(), peer.port().to_string()]);
            let piped = program.stdin(Stdio::piped()).stdout(Stdio::piped());
            piped.spawn()
        });
        let mut child = started.expect("the host is there").expect("it runs");
        Asking {
            steps: child.stdin.take().expect("piped"),
            answers: BufReader::new(child.stdout.take().expect("piped")),
            child,
        }
    }

    fn step(&mut self, what: &str) {
        writeln!(self.steps, "{what}").expect("it reads");
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("it answers");
        assert_eq!(line.trim_end(), what);
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        // Both fail only for a process that has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Our end, and what its user was told so far.
struct Answering {
    association: Association,
    notices: Vec<Notice>,
}

impl Answering {
    /// Waits until the user was told something.
    fn await_notice(&mut self, what: &str, is_it: impl Fn(&Notice) -> bool) {
        let end = Instant::now() + LIMIT;
        let of = &mut self.association;
        while !self.notices.iter().any(&is_it) {
            assert!(Instant::now() < end, "{what}: {:?}", self.notices);
            // Arrivals are handled in a receive.
            let _ = of.receive(&mut [0; 10], Duration::from_millis(5));
            self.notices.extend(std::iter::from_fn(|| of.next_notice()));
        }
    }
}

fn is_change(notice: &Notice, of: IpAddr, to: AddressChange) -> bool {
    matches!(notice, Notice::PeerAddress { address, change } if *address == of && *change == to)
}

#[test]
fn usrsctp_adds_an_address_has_it_preferred_and_deletes_it() {
    let folder = own_folder();
    let (Some(program), Some(testbed)) = (build(&folder), hosts_over(&["a", "b"], "kernel+kernel"))
    else {
        return;
    };
    let [a, b] = ["a", "b"].map(|name| testbed.host(name).expect("it is up"));
    let at = [0, 1].map(|link| SocketAddr::new(b.address_on(link), 0));
    let words = [("auth", "on"), ("addresses", "dynamic")];
    let words = words.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let config = EndpointConfig::parse(&words.into()).expect("options");
    let endpoint = b.run(move || Endpoint::bind(&at, &config));
    let endpoint = endpoint.expect("the host is there").expect("sockets");
    endpoint.listen(true);
    let mut asking = Asking::start(a, program, endpoint.local_addrs()[0]);
    let mut answering = Answering {
        association: endpoint.accept(LIMIT).expect("an association"),
        notices: Vec::new(),
    };
    let more = a.address_on(1);
    asking.step("add");
    answering.await_notice("added", |notice| {
        is_change(notice, more, AddressChange::Added)
    });
    answering.await_notice("confirmed", |notice| {
        let is_it = |remote: &SocketAddr| remote.ip() == more;
        matches!(notice, Notice::Path { remote, status: PathStatus::Active, .. } if is_it(remote))
    });
    asking.step("prefer");
    answering.await_notice("preferred", |notice| {
        is_change(notice, more, AddressChange::Preferred)
    });
    asking.step("delete");
    answering.await_notice("deleted", |notice| {
        is_change(notice, more, AddressChange::Deleted)
    });
    asking.step("say");
    let mut buffer = [0; 10];
    let association = &mut answering.association;
    let got = association.receive(&mut buffer, LIMIT).expect("a message");
    assert_eq!(&buffer[..got.expect("no end").len], b"say");
    asking.step("end");
    assert_eq!(
        association.receive(&mut buffer, LIMIT).expect("an end"),
        None
    );
    // A folder left among the temporary ones does no harm.
    let _ = std::fs::remove_dir_all(folder);
}

/// A folder of this test.
fn own_folder() -> PathBuf {
    let folder = std::env::temp_dir().join(format!("towpath-asked-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}
