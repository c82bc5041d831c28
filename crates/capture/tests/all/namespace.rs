//! A network namespace for tests, apart from the host's.

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

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

fn ip(words: &str) -> Result<(), String> {
    let output = Command::new("ip").args(words.split(' ')).output();
    let output = output.map_err(|error| format!("cannot run 'ip': {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(format!("ip {words}: {text}"))
}
