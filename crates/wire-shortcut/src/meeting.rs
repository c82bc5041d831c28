//! Where two processes that know an offer meet: a Unix socket whose name follows from its nonce.
//!
//! No call here waits.

use crate::boot::BootId;
use crate::offer::{Nonce, socket_number};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with,
    bind, connect, listen, recv, send, socket_with,
};
use std::io;
use std::net::{IpAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// Connections that wait to be accepted. An offer is for one peer; more of them are strangers.
const BACKLOG: i32 = 4;

/// Where sockets have their names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MeetingPlace {
    /// Names without a file (abstract, unix(7)): for processes of one network namespace. A killed process
    /// leaves nothing.
    Namespace,
    /// Files in a directory that both processes see, across network namespaces. A process that is killed
    /// between an offer and its answer leaves a file.
    Directory(PathBuf),
}

impl MeetingPlace {
    fn address(&self, number: u64) -> io::Result<SocketAddrUnix> {
        let address = match self {
            MeetingPlace::Namespace => SocketAddrUnix::new_abstract_name(
                format!("towpath-shortcut-{number:016x}").as_bytes(),
            ),
            MeetingPlace::Directory(directory) => SocketAddrUnix::new(file(directory, number)),
        };
        Ok(address?)
    }
}

fn file(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("towpath-{number:016x}"))
}

/// The socket at which the maker of an offer waits. Its file, if it has one, goes with it.
#[derive(Debug)]
pub(crate) struct Waiting {
    socket: OwnedFd,
    file: Option<PathBuf>,
}

impl Waiting {
    /// Waits for a process that knows `nonce`. Errors: what the system refuses, such as a path that is too long.
    pub(crate) fn new(place: &MeetingPlace, boot: &BootId, nonce: &Nonce) -> io::Result<Waiting> {
        let number = socket_number(boot, nonce);
        let socket = unix_socket()?;
        bind(&socket, &place.address(number)?)?;
        let file = match place {
            MeetingPlace::Namespace => None,
            MeetingPlace::Directory(directory) => Some(file(directory, number)),
        };
        // From here on a failure removes the file.
        let waiting = Waiting { socket, file };
        listen(&waiting.socket, BACKLOG)?;
        Ok(waiting)
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// A process that connected, if it is of this user.
    pub(crate) fn accept(&self) -> Option<UnixStream> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let peer = accept_with(&self.socket, flags).ok()?;
        is_of_this_user(&peer).then(|| peer.into())
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            // Another process may have removed it.
            let _ = std::fs::remove_file(file);
        }
    }
}

/// Connects to the maker of the offer with `nonce`, and proves to it that the offer arrived. None when
/// nobody waits there, or another user does.
pub(crate) fn join(place: &MeetingPlace, boot: &BootId, nonce: &Nonce) -> Option<UnixStream> {
    let address = place.address(socket_number(boot, nonce)).ok()?;
    let socket = unix_socket().ok()?;
    connect(&socket, &address).ok()?;
    if !is_of_this_user(&socket) {
        return None;
    }
    let sent = send(&socket, nonce, SendFlags::NOSIGNAL | SendFlags::DONTWAIT).ok()?;
    (sent == nonce.len()).then(|| socket.into())
}

/// What the peer of an accepted connection has said of itself.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Hello {
    /// It knows the nonce.
    Right,
    /// Nothing yet.
    Awaited,
    /// It does not, or it is gone.
    Wrong,
}

/// Reads what the peer at `socket` says.
pub(crate) fn hello(socket: &UnixStream, nonce: &Nonce) -> Hello {
    let mut said = Nonce::default();
    match recv(socket, &mut said, RecvFlags::DONTWAIT) {
        Ok((len, _)) if len == nonce.len() && said == *nonce => Hello::Right,
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Hello::Awaited,
        _ => Hello::Wrong,
    }
}

/// Whether `host` is an address of this network namespace: a socket can be bound to it.
pub(crate) fn is_local(host: IpAddr) -> bool {
    UdpSocket::bind((host, 0)).is_ok()
}

fn unix_socket() -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
}

/// Whether the process at the other end, or the one that listens there, is of this user.
fn is_of_this_user(socket: &impl AsFd) -> bool {
    let peer = rustix::net::sockopt::socket_peercred(socket);
    peer.is_ok_and(|peer| peer.uid == rustix::process::geteuid())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offer::NONCE_LEN;

    const HERE: BootId = BootId::new([7; 16]);

    fn nonce() -> Nonce {
        crate::random_nonce().expect("random numbers")
    }

    #[test]
    fn who_knows_the_nonce_is_let_in_and_nobody_waits_for_another() {
        let nonce = nonce();
        let waiting = Waiting::new(&MeetingPlace::Namespace, &HERE, &nonce).expect("a name");
        assert!(join(&MeetingPlace::Namespace, &HERE, &[0; NONCE_LEN]).is_none());
        let _far = join(&MeetingPlace::Namespace, &HERE, &nonce).expect("its maker waits");
        let near = waiting.accept().expect("it has connected");
        assert_eq!(hello(&near, &nonce), Hello::Right);
        assert_eq!(hello(&near, &nonce), Hello::Awaited);
    }

    #[test]
    fn who_found_the_socket_without_its_nonce_is_refused() {
        let nonce = nonce();
        let waiting = Waiting::new(&MeetingPlace::Namespace, &HERE, &nonce).expect("a name");
        let address = MeetingPlace::Namespace.address(socket_number(&HERE, &nonce));
        for said in [b"0123456789abcdef".as_slice(), &nonce[..3], b""] {
            let far = unix_socket().expect("a socket");
            connect(&far, address.as_ref().expect("an address")).expect("its maker waits");
            let near = waiting.accept().expect("it has connected");
            send(&far, said, SendFlags::NOSIGNAL).expect("room");
            drop(far);
            assert_eq!(hello(&near, &nonce), Hello::Wrong);
        }
    }

    #[test]
    fn addresses_of_this_host_are_local_and_others_are_not() {
        assert!(is_local([127, 0, 0, 1].into()));
        // For documentation only (RFC 5737): no host has it.
        assert!(!is_local([192, 0, 2, 1].into()));
    }

    #[test]
    fn file_in_a_directory_goes_with_its_socket() {
        let directory =
            std::env::temp_dir().join(format!("towpath-meeting-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory");
        let place = MeetingPlace::Directory(directory.clone());
        let nonce = nonce();
        let waiting = Waiting::new(&place, &HERE, &nonce).expect("a file");
        assert_eq!(
            std::fs::read_dir(&directory).expect("it is there").count(),
            1
        );
        assert!(join(&place, &HERE, &nonce).is_some());
        drop(waiting);
        std::fs::remove_dir(&directory).expect("it is empty");
    }

    /// A thread has a user of its own, which the kernel notes of the socket it listens with.
    #[test]
    fn maker_of_another_user_is_refused() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("SKIPPED: only root can listen as another user");
            return;
        }
        let nonce = nonce();
        let made = std::thread::spawn(move || {
            let nobody = rustix::process::Uid::from_raw(65_534);
            rustix::thread::set_thread_res_uid(nobody, nobody, nobody).expect("root may");
            Waiting::new(&MeetingPlace::Namespace, &HERE, &nonce).expect("a name")
        });
        let _waiting = made.join().expect("it does not panic");
        assert!(join(&MeetingPlace::Namespace, &HERE, &nonce).is_none());
    }
}
