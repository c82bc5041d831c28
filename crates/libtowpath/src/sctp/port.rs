//! The thread of an endpoint: it gives sockets what their associations receive and tell.

use super::member::{Member, Served};
use super::settings::{EndpointSettings, Medium};
use super::socket::{Accepted, Inner, SctpSocket, Style};
use crate::socket_pair::ConnState;
use library::sctp::{Association, Endpoint, EndpointWatch, Port as SctpPort};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// How often all associations are looked at even without an event.
const SCAN_INTERVAL: Duration = Duration::from_millis(100);

/// How long the thread stays after the last socket was closed, for associations that end.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(60);

/// How long exit(3) waits for associations that end.
const EXIT_DRAIN_TIMEOUT: Duration = Duration::from_secs(3);

/// The first number of an association: smaller ones stand for several (SCTP_FUTURE_ASSOC and others).
const ASSOC_FIRST: i32 = 3;

/// Octets of a message that are taken at a time.
const PART_LEN: usize = 64 << 10;

/// Failures that wait for connect(2), at most; most programs learn of them by notifications.
const FAILURES_MAX: usize = 1024;

/// An endpoint, shared by its sockets and its thread.
pub(crate) struct Port {
    pub(crate) endpoint: Endpoint,
    pub(crate) medium: Medium,
    state: Mutex<PortState>,
    /// The state of an association has changed.
    changed: Condvar,
    wakeup: OwnedFd,
}

/// The associations of an endpoint.
pub(crate) struct PortState {
    /// By the number that the program knows.
    pub(crate) members: BTreeMap<i32, Member>,
    /// Those numbers, by that of the endpoint.
    by_id: BTreeMap<u32, i32>,
    next: i32,
    /// Whom associations that peers open belong to.
    acceptor: Weak<SctpSocket>,
    /// Why associations did not open, until connect(2) takes it.
    failures: BTreeMap<i32, i32>,
    /// For messages on their way.
    buffer: Vec<u8>,
    /// Since when the endpoint has no socket and no association.
    unused_since: Option<Instant>,
}

/// All endpoints, for exit(3).
static PORTS: Mutex<Vec<Weak<Port>>> = Mutex::new(Vec::new());

/// Ends all associations and waits until their peers have agreed.
pub(crate) fn drain_all() {
    let ports = std::mem::take(&mut *PORTS.lock().unwrap_or_else(PoisonError::into_inner));
    let end = Instant::now() + EXIT_DRAIN_TIMEOUT;
    let ports: Vec<Arc<Port>> = ports.iter().filter_map(Weak::upgrade).collect();
    for port in &ports {
        for member in port.lock().members.values_mut() {
            // An association whose sockets fail has nobody to tell.
            let _ = member.association.begin_shutdown();
        }
    }
    for port in &ports {
        while port.endpoint.associations_len() > 0 && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Port {
    /// Starts an endpoint of `socket` at the addresses `local`.
    pub(crate) fn start(
        local: &[IpAddr],
        local_port: u16,
        settings: &EndpointSettings,
        socket: &Arc<SctpSocket>,
        listens: bool,
    ) -> io::Result<Arc<Port>> {
        let mut config = settings.config.clone();
        config.config.port = SctpPort(local_port);
        config.config.local_port = Some(SctpPort(local_port));
        let udp_port = match settings.medium {
            Medium::Udp { own_port, .. } if listens => own_port,
            Medium::UdpSamePort if listens => local_port,
            _ => 0,
        };
        let at = |ip: &IpAddr| SocketAddr::new(*ip, udp_port);
        let endpoint = match settings.medium {
            Medium::RawIp => Endpoint::bind_ip(local, &config)?,
            // Other sockets of the process may have the same one.
            Medium::Udp { .. } if udp_port != 0 => {
                Endpoint::bind_shared(&local.iter().map(at).collect::<Vec<_>>(), &config)?
            }
            _ => Endpoint::bind(&local.iter().map(at).collect::<Vec<_>>(), &config)?,
        };
        let watch = endpoint.watch()?;
        let flags = EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC;
        let port = Arc::new(Port {
            endpoint,
            medium: settings.medium,
            state: Mutex::new(PortState {
                members: BTreeMap::new(),
                by_id: BTreeMap::new(),
                next: ASSOC_FIRST,
                acceptor: Arc::downgrade(socket),
                failures: BTreeMap::new(),
                buffer: vec![0; PART_LEN],
                unused_since: None,
            }),
            changed: Condvar::new(),
            wakeup: eventfd(0, flags)?,
        });
        let kept = Arc::clone(&port);
        let thread = std::thread::Builder::new().name("towpath-sctp".into());
        thread.spawn(move || kept.run(watch))?;
        let mut ports = PORTS.lock().unwrap_or_else(PoisonError::into_inner);
        ports.retain(|port| port.strong_count() > 0);
        ports.push(Arc::downgrade(&port));
        drop(ports);
        crate::sys::register_exit_hook(&mut crate::socket_table::lock());
        Ok(port)
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, PortState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the endpoint is that of `socket` itself, which others may share.
    pub(crate) fn is_owner(&self, socket: &Arc<SctpSocket>) -> bool {
        std::ptr::eq(self.lock().acceptor.as_ptr(), Arc::as_ptr(socket))
    }

    /// Makes the thread look at all associations.
    pub(crate) fn wake(&self) {
        // It fails only when the thread was woken 2^64 times.
        let _ = rustix::io::write(&self.wakeup, &1_u64.to_ne_bytes());
    }

    /// Waits until an association changes, up to `limit`.
    pub(crate) fn wait<'a>(
        &self,
        state: MutexGuard<'a, PortState>,
        limit: Duration,
    ) -> MutexGuard<'a, PortState> {
        let woken = self.changed.wait_timeout(state, limit);
        woken.unwrap_or_else(PoisonError::into_inner).0
    }

    /// The address of a peer as programs know it: with SCTP's port.
    pub(crate) fn peer_of(association: &Association) -> SocketAddr {
        SocketAddr::new(association.peer().ip(), association.ports().1)
    }

    fn run(&self, mut watch: EndpointWatch) {
        let mut ready = Vec::new();
        let mut scanned_at = Instant::now();
        loop {
            let Ok(was_woken) = self.sleep(&mut watch) else {
                return self.fail();
            };
            let Ok(accepts) = watch.poll_ready(&mut ready) else {
                return self.fail();
            };
            let mut state = self.lock();
            let mut numbers: Vec<i32> = Vec::new();
            if was_woken || scanned_at.elapsed() >= SCAN_INTERVAL {
                scanned_at = Instant::now();
                ready.clear();
                numbers.extend(state.members.keys());
            } else {
                let known = ready.iter().filter_map(|id| state.by_id.get(&id.0));
                numbers.extend(known);
                ready.clear();
            }
            if accepts {
                self.accept(&mut state);
            }
            for number in numbers {
                state.serve(number);
            }
            self.changed.notify_all();
            if state.is_over(&self.endpoint) {
                return;
            }
        }
    }

    /// Sleeps until something may have happened; whether the thread was woken.
    fn sleep(&self, watch: &mut EndpointWatch) -> io::Result<bool> {
        let limit = watch.prepare_wait()?;
        let limit = limit.map_or(SCAN_INTERVAL, |limit| limit.min(SCAN_INTERVAL));
        let limit = Timespec {
            tv_sec: 0,
            tv_nsec: i64::from(limit.subsec_nanos()),
        };
        let mut descriptors = [
            PollFd::from_borrowed_fd(watch.descriptor(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.wakeup.as_fd(), PollFlags::IN),
        ];
        match poll(&mut descriptors, Some(&limit)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let was_woken = !descriptors[1].revents().is_empty();
        if was_woken {
            rustix::io::read(&self.wakeup, &mut [0; 8])?;
        }
        Ok(was_woken)
    }

    /// The endpoint's sockets fail: every association has ended.
    fn fail(&self) {
        let members = std::mem::take(&mut self.lock().members);
        for member in members.into_values() {
            member.fail();
        }
        self.changed.notify_all();
    }

    fn accept(&self, state: &mut PortState) {
        while let Ok(association) = self.endpoint.try_accept() {
            let Some(association) = state.restart(association) else {
                continue;
            };
            match state.acceptor.upgrade() {
                Some(socket) if socket.style == Style::OneToMany => {
                    let number = state.add(association, &socket);
                    state.serve(number);
                }
                Some(socket) => state.enqueue(association, &socket),
                // Dropped, it ends.
                None => {}
            }
        }
    }
}

impl PortState {
    /// Whom associations that peers open belong to from now on.
    pub(crate) fn set_acceptor(&mut self, socket: &Arc<SctpSocket>) {
        self.acceptor = Arc::downgrade(socket);
    }

    /// Adds an association of `socket`; its number.
    pub(crate) fn add(&mut self, association: Association, socket: &Arc<SctpSocket>) -> i32 {
        let number = self.next;
        // Two thousand million associations are none that a process has.
        self.next = self.next.checked_add(1).unwrap_or(ASSOC_FIRST);
        self.by_id.insert(association.id(), number);
        let member = Member::new(association, number, socket);
        self.members.insert(number, member);
        number
    }

    /// The association of `socket` with the number `number`. EINVAL if it has none.
    pub(crate) fn member_of(
        &mut self,
        socket: &Arc<SctpSocket>,
        number: i32,
    ) -> io::Result<&mut Member> {
        let member = self.members.get_mut(&number);
        member
            .filter(|member| member.is_of(socket))
            .ok_or_else(|| Errno::INVAL.into())
    }

    /// The association of `socket` to the peer `peer`.
    pub(crate) fn number_to(&self, socket: &Arc<SctpSocket>, peer: SocketAddr) -> Option<i32> {
        let mut members = self.members.iter();
        let found = members.find(|(_, member)| member.is_of(socket) && member.is_peer(peer));
        found.map(|(number, _)| *number)
    }

    /// The numbers of all associations of `socket`.
    pub(crate) fn numbers_of(&self, socket: &Arc<SctpSocket>) -> Vec<i32> {
        let of = self.members.iter();
        let of = of.filter(|(_, member)| member.is_of(socket));
        of.map(|(number, _)| *number).collect()
    }

    /// Serves an association, and removes it if it is over.
    pub(crate) fn serve(&mut self, number: i32) {
        let Some(member) = self.members.get_mut(&number) else {
            return;
        };
        if let Served::Over(error) = member.serve(&mut self.buffer) {
            if !member.is_up && self.failures.len() < FAILURES_MAX {
                self.failures.insert(number, error);
            }
            self.by_id.remove(&member.association.id());
            self.members.remove(&number);
        }
    }

    /// Why an association did not open, if it did not.
    pub(crate) fn take_failure(&mut self, number: i32) -> Option<i32> {
        self.failures.remove(&number)
    }

    /// Puts an association in the place of the one that it restarts; returns one that restarts none.
    fn restart(&mut self, association: Association) -> Option<Association> {
        let peer = Port::peer_of(&association);
        let new = association.id();
        let mut known = self.members.values_mut();
        let member = known.find_map(|member| {
            let is_it = member.is_peer(peer) && member.restarts_as() == Some(new);
            is_it.then_some(member)
        });
        match member {
            None => Some(association),
            Some(member) => {
                self.by_id.remove(&member.association.id());
                self.by_id.insert(association.id(), member.number());
                member.restart(association);
                None
            }
        }
    }

    /// Lets an association wait for accept(2) on `listener`; beyond the backlog it is aborted.
    fn enqueue(&mut self, mut association: Association, listener: &Arc<SctpSocket>) {
        let peer = Port::peer_of(&association);
        let mut waiting = listener.lock();
        if waiting.accepted.len() >= waiting.backlog {
            let _ = association.begin_abort();
            return;
        }
        let mut inner = Inner::new(waiting.settings.clone(), waiting.endpoint.clone());
        inner.local.clone_from(&waiting.local);
        inner.local_port = waiting.local_port;
        inner.port.clone_from(&waiting.port);
        inner.peer = Some(peer);
        inner.association = Some(self.next);
        let (style, family) = (Style::OneToOne, listener.family);
        let made = SctpSocket::pair(style, family, ConnState::Established, inner);
        let Ok((program, socket)) = made else {
            // No descriptors are left.
            let _ = association.begin_abort();
            return;
        };
        let number = self.add(association, &socket);
        waiting.accepted.push_back(Accepted {
            program,
            socket: Arc::clone(&socket),
            peer,
        });
        waiting.set_readable(&listener.link);
        drop(waiting);
        self.serve(number);
    }

    /// Whether the thread may end: nobody uses the endpoint, and what it sent is settled.
    fn is_over(&mut self, endpoint: &Endpoint) -> bool {
        if !self.members.is_empty() || self.acceptor.strong_count() > 0 {
            self.unused_since = None;
            return false;
        }
        let since = *self.unused_since.get_or_insert_with(Instant::now);
        endpoint.listen(false);
        endpoint.associations_len() == 0 || since.elapsed() > CLOSE_TIMEOUT
    }
}
