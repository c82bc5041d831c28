//! The STREAMS pipe behind two descriptors, and what its users wait for.

use crate::sys;
use std::os::fd::RawFd;
use streams::{HeadOptions, Hysteresis, Runtime, StreamId};

/// Octets of a direction at most: what the kernel's pipe takes at once when the stream is left to it.
pub(super) const HIGH: usize = 65_536;

/// A full direction takes octets again below this: the marks of a stream head.
const LOW: usize = 8192;

/// A write of as many octets goes in whole or not at all (PIPE_BUF of Linux).
const ATOMIC_MAX: usize = 4096;

/// Short writes are collected in messages of as many octets (SO_STRHOLD).
const COLLECTED: usize = 65_536;

/// Messages that the queues and the pool are made for beforehand: more than a direction holds, as a message is begun when
/// all before it were read, or has a quarter of what is collected. Writes then allocate nothing, in signal handlers too.
const MESSAGES: usize = 16;

/// Service procedures of one run at most.
const BUDGET: usize = 64;

/// What the two descriptors are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PipeKind {
    /// pipe(2): the first is read, the second written.
    Pipe,
    /// socketpair(2) of byte streams: both are read and written.
    SocketPair,
}

/// Who waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Reader = 0,
    Writer = 1,
}

/// What waits and flows in a direction, which is named by the end that is read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Direction {
    /// Octets that were written and not read.
    held: usize,
    /// Full until below the low mark.
    is_full: bool,
    /// Threads that wait, by role.
    pub(super) waiting: [u32; 2],
}

/// The two heads, joined crosswise.
struct Heads {
    runtime: Runtime,
    streams: [StreamId; 2],
    /// Where octets lie between the stream and the kernel.
    scratch: Box<[u8]>,
}

impl Heads {
    fn new() -> Heads {
        let mut runtime = Runtime::new(Hysteresis::Full);
        let (first, second) = runtime.pipe();
        let collecting = HeadOptions {
            hold: Some(COLLECTED),
            ..HeadOptions::default()
        };
        for stream in [first, second] {
            // The stream was opened just now.
            let _ = runtime.set_options(stream, collecting);
        }
        let mut heads = Heads {
            runtime,
            streams: [first, second],
            scratch: vec![0; HIGH].into_boxed_slice(),
        };
        heads.warm_up();
        heads
    }

    fn warm_up(&mut self) {
        for end in [0, 1] {
            for _ in 0..MESSAGES {
                self.write(end, &[0]);
                self.runtime.run(BUDGET);
            }
            self.read(1 - end, &mut [0; MESSAGES]);
        }
    }

    /// Writes to the head of an end; returns how many octets it took.
    #[inline]
    fn write(&mut self, end: usize, octets: &[u8]) -> usize {
        self.runtime.write(self.streams[end], octets).unwrap_or(0)
    }

    /// Reads from the head of an end, and what was collected for it when there is no more.
    #[inline]
    fn read(&mut self, end: usize, buffer: &mut [u8]) -> usize {
        let stream = self.streams[end];
        let len = self.runtime.read(stream, buffer).unwrap_or(0);
        if len == buffer.len() {
            return len;
        }
        self.runtime.run(BUDGET);
        len + self.runtime.read(stream, &mut buffer[len..]).unwrap_or(0)
    }
}

/// The changing part of a pipe.
pub(super) struct State {
    /// Counts the uses of the pipe: who waited in an earlier one has no part in this.
    pub(super) generation: u64,
    kind: PipeKind,
    /// The descriptors; -1 while the pipe is free.
    pub(super) ends: [RawFd; 2],
    pub(super) directions: [Direction; 2],
    heads: Option<Box<Heads>>,
}

impl State {
    pub(super) fn new() -> State {
        State {
            generation: 0,
            kind: PipeKind::Pipe,
            ends: [-1; 2],
            directions: [Direction::default(); 2],
            heads: None,
        }
    }

    /// The pipe is that of `ends` from now on.
    pub(super) fn begin(&mut self, kind: PipeKind, ends: [RawFd; 2]) {
        self.heads.get_or_insert_with(|| Box::new(Heads::new()));
        self.generation += 1;
        self.directions = [Direction::default(); 2];
        (self.kind, self.ends) = (kind, ends);
    }

    /// The end that a descriptor is, if it may do what the role does there.
    #[inline]
    pub(super) fn end_of(&self, fd: RawFd, role: Role) -> Option<usize> {
        let end = self.ends.iter().position(|&end| end == fd)?;
        (self.kind == PipeKind::SocketPair || end == role as usize).then_some(end)
    }

    pub(super) fn is_socket_pair(&self) -> bool {
        self.kind == PipeKind::SocketPair
    }

    /// Reads what is there into `parts`; returns how many octets, and whether writers have room again.
    #[inline]
    pub(super) fn read(&mut self, end: usize, parts: &mut [&mut [u8]]) -> (usize, bool) {
        let (direction, Some(heads)) = (&mut self.directions[end], &mut self.heads) else {
            return (0, false);
        };
        let mut done = 0;
        for part in parts {
            let len = match direction.held {
                0 => 0,
                _ => heads.read(end, part),
            };
            direction.held -= len;
            done += len;
            if len < part.len() {
                break;
            }
        }
        let has_room = direction.is_full && direction.held < LOW;
        direction.is_full &= !has_room;
        (
            done,
            has_room && direction.waiting[Role::Writer as usize] > 0,
        )
    }

    /// Whether octets wait for an end whose readers wait too: one of them took part of what woke it.
    pub(super) fn wakes_reader(&self, end: usize) -> bool {
        let direction = &self.directions[end];
        direction.held > 0 && direction.waiting[Role::Reader as usize] > 0
    }

    /// Writes what has room of `parts`, without the first `skip` octets; returns how many.
    #[inline]
    pub(super) fn write(&mut self, end: usize, parts: &[&[u8]], skip: usize) -> usize {
        let (direction, Some(heads)) = (&mut self.directions[1 - end], &mut self.heads) else {
            return 0;
        };
        let left = parts.iter().map(|part| part.len()).sum::<usize>() - skip;
        let room = match direction.is_full {
            true => 0,
            false => HIGH - direction.held,
        };
        let is_whole = self.kind == PipeKind::Pipe && left <= ATOMIC_MAX;
        if room == 0 || is_whole && left > room {
            direction.is_full = true;
            return 0;
        }
        let (mut skip, mut done) = (skip, 0);
        for part in parts {
            let from = skip.min(part.len());
            skip -= from;
            let part = &part[from..];
            let part = &part[..part.len().min(room - done)];
            let len = heads.write(end, part);
            done += len;
            if len < part.len() {
                break;
            }
        }
        direction.held += done;
        direction.is_full |= direction.held >= HIGH;
        done
    }

    /// Gives the kernel what was written and not read. Its pipe is empty, and takes all of it.
    pub(super) fn flush_to_kernel(&mut self) {
        let Some(heads) = &mut self.heads else {
            return;
        };
        for end in [0, 1] {
            let mut scratch = std::mem::take(&mut heads.scratch);
            while self.directions[end].held > 0 {
                let len = heads.read(end, &mut scratch);
                sys::write_all(self.ends[1 - end], &scratch[..len]);
                self.directions[end].held -= len.max(1).min(self.directions[end].held);
            }
            heads.scratch = scratch;
        }
    }

    /// Gives the blocks back to the system.
    pub(super) fn drop_blocks(&mut self) {
        self.heads = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> State {
        let mut state = State::new();
        state.begin(PipeKind::Pipe, [3, 4]);
        state
    }

    #[test]
    fn ends_of_a_pipe_do_what_they_may() {
        let mut state = pair();
        assert_eq!(state.end_of(3, Role::Reader), Some(0));
        assert_eq!(state.end_of(4, Role::Writer), Some(1));
        assert_eq!(state.end_of(3, Role::Writer), None);
        assert_eq!(state.end_of(5, Role::Reader), None);
        state.begin(PipeKind::SocketPair, [3, 4]);
        assert_eq!(state.end_of(3, Role::Writer), Some(0));
        assert_eq!(state.end_of(4, Role::Reader), Some(1));
    }

    #[test]
    fn octets_keep_their_order_in_any_pieces() {
        let mut state = pair();
        let (mut written, mut read, mut seed) = (0u8, 0u8, 7u32);
        let mut buffer = vec![0; 40_000];
        let mut moved = 0;
        while moved < 3_000_000 {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let len = match seed >> 29 {
                0 => (seed >> 8) as usize % 40_000,
                _ => (seed >> 8) as usize % 300,
            };
            if seed & 64 == 0 {
                let octets: Vec<u8> = (0..len).map(|at| written.wrapping_add(at as u8)).collect();
                let (first, second) = octets.split_at(len / 3);
                written = written.wrapping_add(state.write(1, &[first, second], 0) as u8);
            } else {
                let (len, _) = state.read(0, &mut [&mut buffer[..len]]);
                for octet in &buffer[..len] {
                    assert_eq!(*octet, read);
                    read = read.wrapping_add(1);
                }
                moved += len;
            }
        }
    }

    #[test]
    fn full_pipe_takes_octets_again_below_its_low_mark_and_short_writes_whole() {
        let mut state = pair();
        assert_eq!(state.write(1, &[&[1; 60_000]], 0), 60_000);
        assert_eq!(state.write(1, &[&[1; 4000]], 0), 4000);
        assert_eq!(state.write(1, &[&[1; 4000]], 0), 0, "not in part");
        let mut buffer = vec![0; 65_536];
        assert_eq!(state.read(0, &mut [&mut buffer[..50_000]]).0, 50_000);
        assert_eq!(state.write(1, &[&[1; 9]], 0), 0, "above the low mark");
        assert_eq!(state.read(0, &mut [&mut buffer[..6000]]).0, 6000);
        assert_eq!(state.write(1, &[&[1; 90_000]], 0), HIGH - 8000);
        assert_eq!(state.read(0, &mut [&mut buffer]).0, HIGH);
        assert_eq!(state.read(0, &mut [&mut buffer]).0, 0);
    }
}
