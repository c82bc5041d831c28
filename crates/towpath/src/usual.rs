//! What most transports and circuits answer, by name, for those who write one.
//!
//! [`Transport`](crate::Transport) and [`Circuit`] have no default bodies, so that one around another forgets nothing. An
//! implementation writes what is its own and names the rest in [`usual_transport!`](crate::usual_transport) and
//! [`usual_circuit!`](crate::usual_circuit), as `examples/add_transport.rs` does.

use crate::contract::{BLOCKING_TIMEOUT, Circuit, CircuitResult, Interest, ReceiveCounts};
use crate::runs;
use std::io;
use std::time::Instant;

/// Methods of a [`Circuit`], by their names: calls that block, of those that do not; runs, of single
/// calls; shared memory that is copied; nothing that is coalesced, no descriptor, no timers and no counters.
#[macro_export]
macro_rules! usual_circuit {
    ($($method:ident)*) => { $($crate::usual_circuit! { @$method })* };
    (@send) => {
        fn send(&mut self, message: &[u8]) -> std::io::Result<()> {
            $crate::usual::send(self, message)
        }
    };
    (@recv) => {
        fn recv(&mut self, buffer: &mut [u8]) -> std::io::Result<Option<usize>> {
            $crate::usual::recv(self, buffer)
        }
    };
    (@send_run) => {
        fn send_run(&mut self, message: &[u8], count: usize) -> std::io::Result<usize> {
            $crate::usual::send_run(self, message, count)
        }
    };
    (@send_shared_run) => {
        fn send_shared_run(&mut self, message: &std::sync::Arc<[u8]>, count: usize) -> std::io::Result<usize> {
            self.send_run(message, count)
        }
    };
    (@recv_run) => {
        fn recv_run(&mut self, buffer: &mut [u8], calls: usize) -> std::io::Result<Option<$crate::ReceiveCounts>> {
            $crate::usual::recv_run(self, buffer, calls)
        }
    };
    (@flush) => {
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    };
    (@descriptor) => {
        fn descriptor(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
            None
        }
    };
    (@next_deadline) => {
        fn next_deadline(&self) -> Option<std::time::Instant> {
            None
        }
    };
    (@counts) => {
        fn counts(&self) -> std::collections::BTreeMap<String, u64> {
            std::collections::BTreeMap::new()
        }
    };
}

/// Methods of a [`Transport`](crate::Transport), by their names: one class whatever the options, a circuit to each listener, messages
/// both ways at any time and of any length, empty ones where there are messages, no options, and circuits that are opened
/// one by one.
#[macro_export]
macro_rules! usual_transport {
    ($($method:ident)*) => { $($crate::usual_transport! { @$method })* };
    (@class_with) => {
        fn class_with(&self, _own: &std::collections::BTreeMap<String, String>) -> $crate::Class {
            self.class()
        }
    };
    (@is_one_to_many) => {
        fn is_one_to_many(&self) -> bool {
            false
        }
    };
    (@only_answers) => {
        fn only_answers(&self) -> bool {
            false
        }
    };
    (@is_one_way) => {
        fn is_one_way(&self, _own: &std::collections::BTreeMap<String, String>) -> bool {
            false
        }
    };
    (@sends_unanswered) => {
        fn sends_unanswered(&self, _own: &std::collections::BTreeMap<String, String>) -> bool {
            false
        }
    };
    (@carries_empty) => {
        fn carries_empty(&self, own: &std::collections::BTreeMap<String, String>) -> bool {
            !self.class_with(own).stream
        }
    };
    (@option_to_many) => {
        fn option_to_many(
            &self,
            _own: &std::collections::BTreeMap<String, String>,
            _sharing: $crate::contract::Sharing,
        ) -> Option<(&'static str, &'static str)> {
            None
        }
    };
    (@message_max) => {
        fn message_max(&self) -> Option<u64> {
            None
        }
    };
    (@options) => {
        fn options(&self) -> &[$crate::contract::OptionHelp] {
            &[]
        }
    };
    (@check_options) => {
        fn check_options(&self, own: &std::collections::BTreeMap<String, String>) -> Result<(), String> {
            $crate::contract::check_names(self.name(), self.options(), own)
        }
    };
    (@connect_all) => {
        fn connect_all(
            &self,
            rendezvous: &$crate::Rendezvous,
            options: &$crate::Options,
        ) -> $crate::contract::CircuitsResult {
            (0..options.circuits)
                .map(|index| self.connect(rendezvous, index, options))
                .collect()
        }
    };
    (@connect_to_many) => {
        fn connect_to_many(
            &self,
            _rendezvous: &[$crate::Rendezvous],
            _options: &$crate::Options,
        ) -> $crate::contract::CircuitResult {
            $crate::usual::connect_to_many(self.name())
        }
    };
}

/// [`Circuit::send`] of a circuit that tries and waits.
/// Errors are those of [`Circuit::send`].
pub fn send<C: Circuit + ?Sized>(circuit: &mut C, message: &[u8]) -> io::Result<()> {
    let deadline = Instant::now() + BLOCKING_TIMEOUT;
    loop {
        match circuit.try_send(message) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                circuit.wait(Interest::Write, deadline)?;
            }
            other => return other,
        }
        if Instant::now() >= deadline {
            return Err(io::ErrorKind::WouldBlock.into());
        }
    }
}

/// [`Circuit::recv`] of a circuit that tries and waits.
/// Errors are those of [`Circuit::recv`].
pub fn recv<C: Circuit + ?Sized>(circuit: &mut C, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    let mut deadline = None;
    loop {
        match circuit.try_recv(buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let deadline = *deadline.get_or_insert_with(|| Instant::now() + BLOCKING_TIMEOUT);
                if Instant::now() >= deadline {
                    return Err(error);
                }
                circuit.wait(Interest::Read, deadline)?;
            }
            other => return other,
        }
    }
}

/// [`Circuit::send_run`] of single sends, which are dispatched statically.
/// Errors are those of [`Circuit::send_run`].
#[inline]
pub fn send_run<C: Circuit + ?Sized>(
    circuit: &mut C,
    message: &[u8],
    count: usize,
) -> io::Result<usize> {
    runs::send_each(count, || circuit.send(message))
}

/// [`Circuit::recv_run`] of single receives, which are dispatched statically.
/// Errors are those of [`Circuit::recv_run`].
#[inline]
pub fn recv_run<C: Circuit + ?Sized>(
    circuit: &mut C,
    buffer: &mut [u8],
    calls: usize,
) -> io::Result<Option<ReceiveCounts>> {
    runs::receive_run(calls, || circuit.recv(buffer))
}

/// [`Transport::connect_to_many`](crate::Transport::connect_to_many) of a transport without such circuits.
///
/// # Errors
///
/// `Unsupported`, always.
pub fn connect_to_many(name: &str) -> CircuitResult {
    let text = format!("{name} has a circuit for each listener");
    Err(io::Error::new(io::ErrorKind::Unsupported, text))
}
