//! A network namespace for tests, apart from the host's.

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// A namespace that is removed when it goes out of scope.
struct Namespace(String);

impl Drop for Namespace {
    fn drop(&mut self) {
        if let Err(error) = ip(&format!("netns delete {}", self.0)) {
            eprintln!("the namespace {} stays behind: {error}", self.0);
        }
    }
}

/// Runs `test` inside a new namespace set up by `commands` of `ip`, or skips it loudly.
pub fn inside(commands: &[&str], test: impl FnOnce() + Send) {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("towpath-capture-{}-{count}", std::process::id());
    if let Err(why) = ip(&format!("netns add {name}")) {
        eprintln!("SKIPPED: capturing needs a namespace of its own: {why}");
        return;
    }
    let namespace = Namespace(name);
    for command in commands {
        let done = ip(&format!("-n {} {command}", namespace.0));
        done.unwrap_or_else(|why| panic!("{why}"));
    }
    await_running(&namespace);
    // Only this thread enters the namespace.
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let file = File::open(format!("/run/netns/{}", namespace.0)).expect("it is there");
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
                .expect("its owner may enter it");
            test();
        });
        if let Err(panic) = thread.join() {
            std::panic::resume_unwind(panic);
        }
    });
}

/// Waits until all interfaces that are up are in operation: before that the kernel drops what is sent there, and reports no error.
fn await_running(namespace: &Namespace) {
    let deadline = Instant::now() + Duration::from_secs(60);
    let show = format!("-n {} -o link show up", namespace.0);
    // A veth pair is DOWN until a worker of the kernel has installed its queue, the loopback UNKNOWN.
    while ip(&show).expect("they are shown").contains("state DOWN") {
        assert!(Instant::now() < deadline, "an interface stays down");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn ip(words: &str) -> Result<String, String> {
    let output = Command::new("ip").args(words.split(' ')).output();
    let output = output.map_err(|error| format!("cannot run 'ip': {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let text = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(format!("ip {words}: {text}"))
}
