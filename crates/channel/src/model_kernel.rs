//! What the kernel does for waits, in a model. Sleeps have no limit, so that a wake which is missed leaves a thread
//! asleep for ever, which loom reports. Wakes go through a real socket, and under a lock: what a thread did before
//! it wrote comes before what another does after it has read.

use crate::error::ChannelError;
use crate::sync::{AtomicU32, Ordering};
use crate::wait::Waited;
use loom::sync::{Condvar, Mutex, MutexGuard};
use rustix::net::{RecvFlags, SendFlags};
use std::os::unix::net::UnixStream;
use std::time::Duration;

loom::lazy_static! {
    /// The lock under which the kernel compares a word and puts its thread to sleep. One for all words: a thread that is
    /// woken for another's looks again.
    static ref BUCKET: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());
}

/// The variable with a number of untimely switches of a thread, instead of a model's own.
const SWITCHES: &str = "TOWPATH_MODEL_SWITCHES";

/// Runs a model in all orders that have at most so many switches of a thread that could go on, or as many as [`SWITCHES`] says.
pub(crate) fn model(switches: usize, run: impl Fn() + Sync + Send + 'static) {
    let wanted = std::env::var(SWITCHES).ok().map(|word| {
        word.parse()
            .unwrap_or_else(|_| panic!("{SWITCHES} is a number, not '{word}'"))
    });
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(wanted.unwrap_or(switches));
    builder.check(run);
}

fn lock() -> MutexGuard<'static, ()> {
    BUCKET
        .0
        .lock()
        .expect("no thread of a model panics and goes on")
}

pub(crate) fn sleep_on(word: &AtomicU32, seen: u32, _: Duration) -> Result<bool, ChannelError> {
    let guard = lock();
    if word.load(Ordering::Relaxed) == seen {
        drop(BUCKET.1.wait(guard).expect("as in `lock`"));
    }
    Ok(true)
}

pub(crate) fn wake_one(_: &AtomicU32) -> Result<(), ChannelError> {
    let _guard = lock();
    BUCKET.1.notify_all();
    Ok(())
}

/// As [`wake_one`], which wakes all.
pub(crate) fn wake_all(word: &AtomicU32) -> Result<(), ChannelError> {
    wake_one(word)
}

pub(crate) fn send_wake(socket: &UnixStream) -> rustix::io::Result<usize> {
    let _guard = lock();
    rustix::net::send(socket, &[1], SendFlags::DONTWAIT | SendFlags::NOSIGNAL)
}

pub(crate) fn take_wakes(socket: &UnixStream) -> rustix::io::Result<usize> {
    let _guard = lock();
    let taken = rustix::net::recv(socket, &mut [0; 64], RecvFlags::DONTWAIT)?;
    Ok(taken.0)
}

/// Not modelled: no model receives from many.
pub(crate) fn sleep_on_any(_: &[Waited<'_>], _: Duration) -> Result<bool, ChannelError> {
    loom::thread::yield_now();
    Ok(true)
}
