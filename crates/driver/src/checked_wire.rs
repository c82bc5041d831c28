//! A wire whose errors about one path are counted and reported, so that the other paths do not notice.

use engine::{
    Address, FewMap, Fragmentation, Instant, LocalAddress, Path, PathError, PathFault, Protocol,
};
use rustix::io::Errno;
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::time::Duration;
use wire::{Arrival, PathReport, Taken, Wire};

/// Reports kept for the engine. A batch has one path, so a flush makes few; those beyond are counted
/// and not told: they may be lost like the packets they are about.
const REPORTS_MAX: usize = 64;

/// Peers whose last failed send is kept for a user who is connecting.
const FAILED_PEERS_MAX: usize = 16;

/// Peers whose path MTU is remembered, and for how long. A transaction takes 20 us, and the question
/// two of them.
const MTUS_MAX: usize = 256;
const MTU_AGE: Duration = Duration::from_secs(1);

/// What paths said since an endpoint was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathErrors {
    /// How often, by error number of POSIX. What a network says counts as the error that a socket
    /// reports for it: ECONNREFUSED for unreachable, EMSGSIZE for too big.
    pub by_errno: BTreeMap<i32, u64>,
    /// Packets that were not sent because of it.
    pub packets_lost: u64,
}

pub(crate) struct CheckedWire<W> {
    wire: W,
    fragmentation: Fragmentation,
    errors: PathErrors,
    reports: VecDeque<PathReport>,
    /// The last failed sends, for [`CheckedWire::take_send_error`], oldest first.
    failed: VecDeque<(Address, io::Error)>,
    /// Path MTUs of the last peers, by local address and host, and when each was asked for.
    mtus: FewMap<(LocalAddress, IpAddr), (usize, Instant)>,
}

impl<W: Wire> CheckedWire<W> {
    pub(crate) fn new(wire: W) -> CheckedWire<W> {
        CheckedWire {
            wire,
            fragmentation: Fragmentation::Usual,
            errors: PathErrors::default(),
            reports: VecDeque::new(),
            failed: VecDeque::new(),
            mtus: FewMap::new(),
        }
    }

    pub(crate) fn wire(&self) -> &W {
        &self.wire
    }

    pub(crate) fn wire_mut(&mut self) -> &mut W {
        &mut self.wire
    }

    pub(crate) fn errors(&self) -> &PathErrors {
        &self.errors
    }

    /// Whether packets sent from now on may travel in fragments.
    #[inline]
    pub(crate) fn set_fragmentation(&mut self, fragmentation: Fragmentation) {
        if self.fragmentation != fragmentation {
            self.fragmentation = fragmentation;
            self.wire.set_fragmentation(fragmentation);
        }
    }

    /// Sends as [`Wire::send`] does; false when the path did not take the packets. They are lost
    /// then, as anywhere on a path. Fails with `WouldBlock`, and errors of the wire itself.
    #[inline]
    pub(crate) fn send(
        &mut self,
        path: Path,
        slices: &[IoSlice<'_>],
        packet_len: usize,
    ) -> io::Result<bool> {
        match self.wire.send(path, slices, packet_len) {
            Ok(()) => Ok(true),
            Err(error) => self.lose(path, slices, packet_len, error),
        }
    }

    /// Sends as [`Wire::send_by_reference`] does; None when the path did not take the packets.
    /// Fails with `WouldBlock`, and errors of the wire itself.
    #[inline]
    pub(crate) fn send_by_reference(
        &mut self,
        path: Path,
        slices: &[IoSlice<'_>],
        packet_len: usize,
    ) -> io::Result<Option<Taken>> {
        match self.wire.send_by_reference(path, slices, packet_len) {
            Ok(taken) => Ok(Some(taken)),
            Err(error) => self.lose(path, slices, packet_len, error).map(|_| None),
        }
    }

    /// Counts packets as lost if `error` is one of their path.
    #[cold]
    fn lose(
        &mut self,
        path: Path,
        slices: &[IoSlice<'_>],
        packet_len: usize,
        error: io::Error,
    ) -> io::Result<bool> {
        let Some(said) = wire::path_error(&error) else {
            return Err(error);
        };
        let octets: usize = slices.iter().map(|slice| slice.len()).sum();
        self.errors.packets_lost += octets.div_ceil(packet_len.max(1)) as u64;
        self.note_failed(path.remote, error);
        self.note(PathReport {
            path,
            error: said,
            quoted: Vec::new(),
        });
        Ok(false)
    }

    /// As [`Wire::path_mtu`], asked once a second and host.
    pub(crate) fn path_mtu(&mut self, now: Instant, path: Path) -> usize {
        let Address::Socket(peer) = path.remote else {
            return self.wire.path_mtu(path);
        };
        let host = (path.local, peer.ip());
        match self.mtus.get(&host) {
            Some((mtu, asked_at)) if now < *asked_at + MTU_AGE => return *mtu,
            None if self.mtus.len() >= MTUS_MAX => self.mtus.clear(),
            _ => {}
        }
        let mtu = self.wire.path_mtu(path);
        self.mtus.insert(host, (mtu, now));
        mtu
    }

    /// What a receive brought; None for nothing, and for an error of a path.
    /// Errors are those of the wire itself, except `WouldBlock` and `Interrupted`.
    #[inline]
    pub(crate) fn check(&mut self, received: io::Result<Arrival>) -> io::Result<Option<Arrival>> {
        match received {
            // An empty datagram, or a wire that was shut down: nothing for an engine.
            Ok(arrival) => Ok(Some(arrival).filter(|arrival| arrival.len > 0)),
            Err(error) => self.check_error(error).map(|()| None),
        }
    }

    /// Counts an error of a path.
    #[inline(never)]
    fn check_error(&mut self, error: io::Error) -> io::Result<()> {
        if matches!(
            error.kind(),
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
        ) {
            return Ok(());
        }
        // About a packet sent earlier. Which path it was, the wire's reports say, if it knows.
        let said = wire::path_error(&error).ok_or(error)?;
        let known = self.reports.len();
        self.take_reports();
        if self.reports.len() == known {
            self.count(said);
        }
        Ok(())
    }

    /// Tells `engine` what paths said; false when they said nothing.
    #[inline]
    pub(crate) fn report_to(&mut self, engine: &mut impl Protocol, now: Instant) -> bool {
        self.take_reports();
        let reported = !self.reports.is_empty();
        if reported {
            self.hand_reports_to(engine, now);
        }
        reported
    }

    #[cold]
    fn hand_reports_to(&mut self, engine: &mut impl Protocol, now: Instant) {
        for report in self.reports.drain(..) {
            let fault = PathFault {
                path: report.path,
                error: report.error,
                quoted: &report.quoted,
            };
            engine.handle_path_error(now, fault);
        }
    }

    /// Why the last send to `peer` failed, if it did since this was last asked.
    pub(crate) fn take_send_error(&mut self, peer: Address) -> Option<io::Error> {
        let at = self.failed.iter().position(|(known, _)| *known == peer)?;
        self.failed.remove(at).map(|(_, error)| error)
    }

    fn take_reports(&mut self) {
        while let Some(report) = self.wire.poll_path_error() {
            self.note(report);
        }
    }

    fn note(&mut self, report: PathReport) {
        self.count(report.error);
        if let (PathError::TooBig(_), Address::Socket(peer)) = (report.error, report.path.remote) {
            self.mtus.remove(&(report.path.local, peer.ip()));
        }
        // Of the only peer of a wire; an engine can judge others by what they quote.
        if report.error == PathError::Unreachable && report.quoted.is_empty() {
            let refused = io::ErrorKind::ConnectionRefused.into();
            self.keep_failed(report.path.remote, refused);
        }
        if self.reports.len() < REPORTS_MAX {
            self.reports.push_back(report);
        }
    }

    fn count(&mut self, said: PathError) {
        let errno = match said {
            PathError::TooBig(_) => Errno::MSGSIZE.raw_os_error(),
            PathError::Unreachable => Errno::CONNREFUSED.raw_os_error(),
            PathError::Local(errno) => errno,
        };
        *self.errors.by_errno.entry(errno).or_default() += 1;
    }

    /// Keeps an error that another try will meet again; a full queue is none.
    fn note_failed(&mut self, peer: Address, error: io::Error) {
        let passing = [
            Errno::NOBUFS,
            Errno::NOMEM,
            Errno::CONNREFUSED,
            Errno::MSGSIZE,
        ];
        let errno = error.raw_os_error().map(Errno::from_raw_os_error);
        if errno.is_some_and(|errno| passing.contains(&errno)) {
            return;
        }
        self.keep_failed(peer, error);
    }

    /// Keeps an error for who opens a circuit to `peer`.
    fn keep_failed(&mut self, peer: Address, error: io::Error) {
        self.take_send_error(peer);
        if self.failed.len() >= FAILED_PEERS_MAX {
            self.failed.pop_front();
        }
        self.failed.push_back((peer, error));
    }
}
