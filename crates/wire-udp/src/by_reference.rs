//! First transmissions by reference: pages of the sender's memory become the datagrams' own, and the receiver
//! makes the only copy in the kernel. Retransmissions are not sent so: see [`wire::Wire::send_by_reference`].
//!
//! Only to addresses of this host. There nothing reorders or duplicates datagrams, so that what the peer has
//! acknowledged is in no queue, and nobody verifies a checksum that was made before the octets changed. A capture of the
//! interface may show later octets.
//!
//! One call sends one datagram, or several by UDP_SEGMENT, in 16 pages at most: the kernel hands a socket so
//! many at once. A header that is copied goes before in a call of its own (MSG_MORE): only the wire sends by a connected
//! socket, so that nothing comes between.

use crate::sys::{self, Pipe};
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Pages of a call (`splice_to_socket` of Linux).
const PAGES_MAX: usize = 16;

/// Fewer octets are copied: two calls for the pages take as long.
const REFERENCE_MIN: usize = 16 << 10;

/// UDP_SEGMENT for a datagram that is made by two calls: no datagram is that long, so that none is cut, and the kernel
/// leaves its checksum to the device, as that of one made by one call.
const UNCUT: usize = 0xffff;

/// Wires of a process that have a pipe at a time: it is two descriptors, and the other wires copy.
const PIPES_MAX: usize = 32;

/// Failed calls in a row after which a wire tries no more.
const FAILURES_MAX: u32 = 8;

static PIPES: AtomicUsize = AtomicUsize::new(0);

/// Octets that lie in 16 pages wherever they begin.
pub(crate) fn octets_max() -> usize {
    (PAGES_MAX - 1) * rustix::param::page_size() + 1
}

/// How a wire sends by reference.
#[derive(Debug, Default)]
pub(crate) struct ByReference {
    is_on: bool,
    /// Made by the first call.
    pipe: Option<CountedPipe>,
    /// UDP_SEGMENT of the socket; 0 for none.
    segment_size: usize,
    failures: u32,
}

/// One of the process's pipes.
#[derive(Debug)]
struct CountedPipe(Pipe);

impl CountedPipe {
    fn open() -> Option<CountedPipe> {
        let is_spare = PIPES.fetch_add(1, Ordering::Relaxed) < PIPES_MAX;
        let octets = PAGES_MAX * rustix::param::page_size();
        let pipe = is_spare.then(|| Pipe::open(octets).ok()).flatten();
        if pipe.is_none() {
            PIPES.fetch_sub(1, Ordering::Relaxed);
        }
        pipe.map(CountedPipe)
    }
}

impl Drop for CountedPipe {
    fn drop(&mut self) {
        PIPES.fetch_sub(1, Ordering::Relaxed);
    }
}

impl ByReference {
    pub(crate) fn turn_on(&mut self) {
        self.is_on = true;
    }

    pub(crate) fn is_on(&self) -> bool {
        self.is_on
    }

    /// Sends by reference on a connected socket; false when nothing was sent, and the octets are to be copied.
    pub(crate) fn send(
        &mut self,
        socket: BorrowedFd<'_>,
        slices: &[IoSlice<'_>],
        segment_size: usize,
    ) -> bool {
        let total: usize = slices.iter().map(|slice| slice.len()).sum();
        let (header, slices, wanted) = match slices {
            _ if total > segment_size => (None, slices, segment_size),
            [header, rest @ ..] if !rest.is_empty() => (Some(header), rest, UNCUT),
            _ => (None, slices, 0),
        };
        let fits = total >= REFERENCE_MIN && pages(slices) <= PAGES_MAX;
        if !self.is_on || !fits || self.failures >= FAILURES_MAX {
            return false;
        }
        if self.set_segment_size(socket, wanted).is_err() {
            return false;
        }
        if self.pipe.is_none() {
            self.pipe = CountedPipe::open();
        }
        let Some(CountedPipe(pipe)) = &self.pipe else {
            return false;
        };
        let sent = match header {
            None => pipe.send(socket, slices, total).is_ok(),
            Some(header) => pipe.send_behind(socket, header, slices).is_ok(),
        };
        if sent {
            self.failures = 0;
        } else {
            // What is left in it was not sent. The copied packets meet the same error, if it is the path's.
            self.pipe = None;
            self.failures += 1;
        }
        sent
    }

    /// Before a single datagram of `len` octets is sent by a plain call, which the kernel would cut.
    #[inline]
    pub(crate) fn prepare_plain(&mut self, socket: BorrowedFd<'_>, len: usize) {
        if self.segment_size != 0 && len > self.segment_size {
            // A kernel that knows the option takes 0.
            let _ = self.set_segment_size(socket, 0);
        }
    }

    fn set_segment_size(&mut self, socket: BorrowedFd<'_>, size: usize) -> io::Result<()> {
        if size != self.segment_size {
            sys::set_option(socket, libc::SOL_UDP, libc::UDP_SEGMENT, size as i32)?;
            self.segment_size = size;
        }
        Ok(())
    }
}

/// Pages that `slices` lie in; one that two share counts twice, as in the pipe.
fn pages(slices: &[IoSlice<'_>]) -> usize {
    let page = rustix::param::page_size();
    let of = |slice: &IoSlice<'_>| (slice.as_ptr() as usize % page + slice.len()).div_ceil(page);
    slices.iter().map(of).sum()
}
