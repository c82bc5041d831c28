//! A network namespace with a veth pair, for tests that must not use the host's interfaces.

use super::{LIMIT, Subject};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use towpath::{Options, Transport};

/// A namespace that is removed when it goes out of scope.
struct Namespace {
    name: String,
}

impl Namespace {
    /// Creates one with a veth pair, `near` and `far`.
    fn new() -> Result<Namespace, String> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("towpath-test-{}-{count}", std::process::id());
        ip(&["netns", "add", &name])?;
        let namespace = Namespace { name };
        let link = "link add near type veth peer name far";
        for command in [link, "link set near up", "link set far up"] {
            let words: Vec<&str> = command.split(' ').collect();
            namespace.ip(&words)?;
        }
        namespace.await_running("near")?;
        namespace.await_running("far")?;
        Ok(namespace)
    }

    /// Waits until `interface` is in operation. Before that the kernel drops what is sent there, and reports no error: a worker
    /// of its own installs the queue some time after both ends are up, on a busy machine much later.
    fn await_running(&self, interface: &str) -> Result<(), String> {
        let deadline = Instant::now() + LIMIT;
        while !self
            .ip(&["-o", "link", "show", interface])?
            .contains("state UP")
        {
            if Instant::now() > deadline {
                return Err(format!("{interface} does not get into operation"));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// What `ip` prints for the namespace.
    fn ip(&self, arguments: &[&str]) -> Result<String, String> {
        ip(&[&["-n", &self.name], arguments].concat())
    }

    /// Moves the calling thread into it.
    fn enter(&self) -> Result<(), String> {
        let file = File::open(format!("/run/netns/{}", self.name));
        let file = file.map_err(|error| error.to_string())?;
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(|error| error.to_string())
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        if let Err(error) = ip(&["netns", "delete", &self.name]) {
            eprintln!("the namespace {} stays behind: {error}", self.name);
        }
    }
}

fn ip(arguments: &[&str]) -> Result<String, String> {
    let output = Command::new("ip").args(arguments).output();
    let output = output.map_err(|error| format!("cannot run 'ip': {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let text = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(format!("ip {}: {text}", arguments.join(" ")))
}

/// Runs `test` for a link-layer transport over a veth pair; false if skipped.
pub fn with_veth(
    transport: &'static dyn Transport,
    options: &Options,
    test: &(impl Fn(&Subject) + Sync),
) -> bool {
    let namespace = match Namespace::new() {
        Ok(namespace) => namespace,
        Err(why) => {
            eprintln!("SKIPPED: {}: {why}", transport.name());
            return false;
        }
    };
    let on = |interface: &str| Options {
        interface: Some(interface.to_owned()),
        ..options.clone()
    };
    let subject = Subject {
        transport,
        listening: on("far"),
        connecting: on("near"),
    };
    // Only this thread enters the namespace.
    std::thread::scope(|scope| {
        let inside = scope.spawn(|| {
            namespace.enter().expect("root may enter its namespace");
            match subject.transport.available(&subject.listening) {
                Ok(()) => test(&subject),
                Err(why) => panic!("{} on a veth pair: {}", subject.name(), why.reason),
            }
        });
        if let Err(panic) = inside.join() {
            std::panic::resume_unwind(panic);
        }
    });
    true
}
