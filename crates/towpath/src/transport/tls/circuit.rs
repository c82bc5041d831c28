//! A TLS session on a connected TCP socket.

use super::session::{PlainText, Queue, RECORD_MAX, Seal, Session, Step};
use crate::contract::{Circuit, ConnectionInfo, Interest, NoConnectionInfo};
use crate::listener_keys;
use crate::options::Options;
use crate::parts;
use crate::stream::StreamCircuit;
use crate::sys;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

/// A circuit whose messages are TLS records, sealed and opened in the user's thread.
pub(super) struct TlsCircuit {
    inner: StreamCircuit,
    session: Session,
    /// Records received and not yet opened.
    arrived: Queue,
    /// Plain text that did not fit into the user's buffer.
    rest: Queue,
    /// Records not yet sent: at most those of one message, and of the handshake.
    out: Queue,
    own_end: End,
    peer_end: End,
    records_sent: u64,
    read_len: usize,
}

/// The state of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Open,
    Closed,
}

impl TlsCircuit {
    pub(super) fn new(inner: StreamCircuit, session: Session, options: &Options) -> TlsCircuit {
        TlsCircuit {
            inner,
            session,
            arrived: Queue::default(),
            rest: Queue::default(),
            out: Queue::default(),
            own_end: End::Open,
            peer_end: End::Open,
            records_sent: 0,
            read_len: options.read_len,
        }
    }

    /// Completes the handshake; false at `deadline`, and it can be called again.
    pub(super) fn establish(&mut self, deadline: Instant) -> io::Result<bool> {
        while self.session.is_handshaking() || !self.out.is_empty() {
            let step = self.open_next(&mut [], &mut 0);
            // An alert that says what was wrong leaves before the error is returned.
            self.write_out(false).or_else(unless_blocked)?;
            match step? {
                Step::Again => continue,
                Step::PeerClosed => return Err(io::ErrorKind::UnexpectedEof.into()),
                Step::Handshaking | Step::Ready => {}
            }
            if !self.session.is_handshaking() && self.out.is_empty() {
                break;
            }
            if !self.await_handshake(deadline)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Reads what arrived, or waits until the handshake can go on; false at `deadline`, before which it
    /// looks once.
    fn await_handshake(&mut self, deadline: Instant) -> io::Result<bool> {
        let interest = match self.out.is_empty() {
            true => Interest::Read,
            false => Interest::Write,
        };
        if interest == Interest::Read {
            match self.read_records(false) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return other.map(|()| true),
            }
        }
        if Instant::now() >= deadline {
            return Ok(false);
        }
        self.inner.wait(interest, deadline).map(|()| true)
    }

    /// One step with the records that arrived; plain text goes into `buffer` behind `filled`.
    fn open_next(&mut self, buffer: &mut [u8], filled: &mut usize) -> io::Result<Step> {
        let mut plain = PlainText {
            buffer,
            filled: *filled,
            rest: &mut self.rest,
        };
        let nothing = Seal::Nothing;
        let step = self
            .session
            .step(&mut self.arrived, &mut plain, nothing, &mut self.out);
        *filled = plain.filled;
        if matches!(step, Ok(Step::PeerClosed)) {
            self.peer_end = End::Closed;
        }
        step
    }

    /// Opens records until `buffer` is full, or none is left.
    fn open(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() && self.peer_end == End::Open && !self.arrived.is_empty() {
            if self.open_next(buffer, &mut filled)? != Step::Again {
                break;
            }
        }
        Ok(filled)
    }

    /// Reads what has arrived, at least one octet.
    fn read_records(&mut self, block: bool) -> io::Result<()> {
        let room = self.arrived.room(self.read_len.max(RECORD_MAX));
        let got = if block {
            self.inner.recv(room)
        } else {
            self.inner.try_recv(room)
        };
        match got? {
            Some(len) => {
                self.arrived.fill(len);
                Ok(())
            }
            None => self.end_without_notice(),
        }
    }

    /// The stream ended: the user has shut down the socket to end a wait, or the peer's FIN came without
    /// a close_notify, so that data may have been cut off (RFC 8446 s. 6.1).
    #[cold]
    fn end_without_notice(&mut self) -> io::Result<()> {
        if sys::tcp_info(self.inner.socket.as_fd())?.peer_ended {
            let text = "the peer's stream ended without a TLS close_notify";
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
        }
        self.peer_end = End::Closed;
        Ok(())
    }

    fn read(&mut self, buffer: &mut [u8], block: bool) -> io::Result<Option<usize>> {
        if !self.out.is_empty() {
            self.write_out(false).or_else(unless_blocked)?;
        }
        let len = self.rest.len().min(buffer.len());
        if len > 0 {
            buffer[..len].copy_from_slice(&self.rest.held()[..len]);
            self.rest.discard(len);
            return Ok(Some(len));
        }
        let len = buffer.len().min(self.read_len);
        let buffer = &mut buffer[..len];
        loop {
            let filled = self.open(buffer)?;
            if filled > 0 || buffer.is_empty() {
                return Ok(Some(filled));
            }
            if self.peer_end == End::Closed {
                return Ok(None);
            }
            self.read_records(block)?;
        }
    }

    /// Seals `message` and sends its records, after those of the previous one.
    #[inline]
    fn write(&mut self, message: &[u8], block: bool) -> io::Result<()> {
        if self.own_end == End::Closed {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        if !self.out.is_empty() {
            self.write_out(block)?;
        }
        self.session.seal(Seal::Message(message), &mut self.out)?;
        self.records_sent += message.len().div_ceil(1 << 14) as u64;
        // The message counts as sent; the next call sends what is left.
        self.write_out(block).or_else(unless_blocked)
    }

    fn write_out(&mut self, block: bool) -> io::Result<()> {
        while !self.out.is_empty() {
            let sent = self.inner.write(self.out.held(), block)?;
            self.out.discard(sent);
        }
        Ok(())
    }
}

/// Nothing, where a send only found no room.
fn unless_blocked(error: io::Error) -> io::Result<()> {
    match error.kind() {
        io::ErrorKind::WouldBlock => Ok(()),
        _ => Err(error),
    }
}

impl Circuit for TlsCircuit {
    parts::blocks_by_flag! { write, read }

    parts::copies_stream! {}

    fn flush(&mut self) -> io::Result<()> {
        self.write_out(true)
    }

    fn finish(&mut self) -> io::Result<()> {
        if self.own_end == End::Open {
            self.session.seal(Seal::Close, &mut self.out)?;
            self.own_end = End::Closed;
        }
        self.write_out(true)?;
        self.inner.finish()
    }

    fn wait(&mut self, interest: Interest, deadline: Instant) -> io::Result<()> {
        if !self.out.is_empty() {
            self.write_out(false).or_else(unless_blocked)?;
        }
        // Records received whole before the user's buffer was full are no longer in the socket.
        let readable = !self.rest.is_empty() || !self.arrived.is_empty();
        if interest == Interest::Read && readable {
            let mut nothing = 0;
            let step = self.open_next(&mut [], &mut nothing)?;
            if matches!(step, Step::Again | Step::PeerClosed) {
                return Ok(());
            }
        }
        self.inner.wait(interest, deadline)
    }

    engine::forward! { self.inner;
        fn descriptor(&self) -> Option<BorrowedFd<'_>>;
        fn connection_info(&self) -> Result<ConnectionInfo, NoConnectionInfo>;
    }

    fn effective(&self) -> BTreeMap<String, String> {
        let mut effective = self.inner.effective();
        effective.insert("cipher".into(), listener_keys::CIPHER.into());
        effective
    }

    fn counts(&self) -> BTreeMap<String, u64> {
        let mut counts = self.inner.counts();
        counts.insert("records_sent".into(), self.records_sent);
        counts
    }

    crate::usual_circuit! { send_run send_shared_run recv_run next_deadline }
}

impl Drop for TlsCircuit {
    /// Ends this direction, so that the peer can tell it from a stream that was cut off.
    fn drop(&mut self) {
        if self.own_end == End::Open && self.session.seal(Seal::Close, &mut self.out).is_ok() {
            // The peer may be gone already.
            let _ = self.write_out(false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::Transport;
    use crate::transport::tls::Tls;
    use std::time::Duration;

    fn pair() -> (Box<dyn Circuit>, Box<dyn Circuit>) {
        let options = Options::default();
        let mut listener = Tls.listen(&options).expect("a socket");
        let rendezvous = listener.rendezvous().expect("an address");
        std::thread::scope(|scope| {
            let connecting = scope.spawn(|| Tls.connect(&rendezvous, 0, &options));
            let server = listener.accept(Instant::now() + Duration::from_secs(10));
            let client = connecting.join().expect("the thread ends");
            (client.expect("a client"), server.expect("a server"))
        })
    }

    /// The first result of a receive that is no timeout.
    fn receive(circuit: &mut dyn Circuit) -> io::Result<Option<usize>> {
        loop {
            match circuit.recv(&mut [0; 64]) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
        }
    }

    #[test]
    fn stream_cut_off_by_a_fin_is_an_error_and_a_closed_one_ends() {
        let (client, mut server) = pair();
        let socket = client.descriptor().expect("a socket");
        rustix::net::shutdown(socket, rustix::net::Shutdown::Write).expect("a connection");
        let error = receive(&mut *server).expect_err("cut off");
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);

        let (client, mut server) = pair();
        drop(client);
        assert_eq!(receive(&mut *server).expect("an orderly end"), None);
    }

    #[test]
    fn peer_that_breaks_the_handshake_does_not_keep_the_next_one_out() {
        use std::io::Write;
        let options = Options::default();
        let mut listener = Tls.listen(&options).expect("a socket");
        let rendezvous = listener.rendezvous().expect("an address");
        let address = String::from_utf8(rendezvous.bytes.clone()).expect("text");
        let address = address.lines().nth(1).expect("an address");
        let mut stranger = std::net::TcpStream::connect(address).expect("a connection");
        stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("room");
        std::thread::scope(|scope| {
            let connecting = scope.spawn(|| Tls.connect(&rendezvous, 0, &options));
            let server = listener.accept(Instant::now() + Duration::from_secs(10));
            server.expect("the second peer");
            drop(connecting.join().expect("the thread ends"));
        });
    }

    #[test]
    fn shutdown_of_the_own_socket_ends_the_stream() {
        let (_client, mut server) = pair();
        let socket = server.descriptor().expect("a socket");
        rustix::net::shutdown(socket, rustix::net::Shutdown::Read).expect("a connection");
        assert_eq!(receive(&mut *server).expect("no error"), None);
    }
}
