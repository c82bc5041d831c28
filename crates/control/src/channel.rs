//! Frames over a stream socket.

use crate::frame::{self, FrameError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// Most octets of a frame: a report of 64 circuits with a histogram of 64 KiB each.
pub const FRAME_MAX: usize = 8 << 20;

/// Most descriptors of a frame: two pipes of two for each of 32 circuits.
pub const DESCRIPTORS_MAX: usize = 128;

/// One end of a control channel.
#[derive(Debug)]
pub struct Channel {
    socket: OwnedFd,
}

/// A frame that could not be sent or received.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// The peer has exited or closed the channel.
    #[error("the other process has exited")]
    Closed,
    /// Nothing arrived in time.
    #[error("the other process did not answer within {0:?}")]
    TimedOut(Duration),
    /// A frame that is longer than [`FRAME_MAX`], or no message.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// More descriptors than a frame has.
    #[error("{0} descriptors exceed the limit of {DESCRIPTORS_MAX}")]
    Descriptors(usize),
    /// The system refused.
    #[error("the control channel: {0}")]
    Io(#[from] io::Error),
}

impl From<rustix::io::Errno> for ChannelError {
    fn from(error: rustix::io::Errno) -> Self {
        ChannelError::Io(error.into())
    }
}

impl Channel {
    /// A channel over a connected stream socket.
    pub fn new(socket: OwnedFd) -> Channel {
        Channel { socket }
    }

    /// The socket, to wait on together with others.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Sends a message, and descriptors with it.
    ///
    /// # Errors
    ///
    /// [`ChannelError::Closed`], [`ChannelError::Frame`], [`ChannelError::Descriptors`] or a system error.
    pub fn send(
        &mut self,
        message: &impl Serialize,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), ChannelError> {
        let frame = frame::encode(message, FRAME_MAX)?;
        if descriptors.len() > DESCRIPTORS_MAX {
            return Err(ChannelError::Descriptors(descriptors.len()));
        }
        let mut sent = self.send_some(&frame, descriptors, SendFlags::empty())?;
        while sent < frame.len() {
            sent += self.send_some(&frame[sent..], &[], SendFlags::empty())?;
        }
        Ok(())
    }

    /// Sends a message, and descriptors with it, to a process that may have stopped reading.
    /// Errors are those of [`send`](Channel::send), and [`ChannelError::TimedOut`] when the message was not sent
    /// whole within `limit`; the channel is unusable after that.
    pub fn send_within(
        &mut self,
        message: &impl Serialize,
        descriptors: &[BorrowedFd<'_>],
        limit: Duration,
    ) -> Result<(), ChannelError> {
        let frame = frame::encode(message, FRAME_MAX)?;
        let end = Instant::now() + limit;
        let mut sent = 0;
        while sent < frame.len() {
            // Descriptors go with the first octet.
            let with = if sent == 0 { descriptors } else { &[] };
            match self.send_some(&frame[sent..], with, SendFlags::DONTWAIT) {
                Ok(len) => sent += len,
                Err(ChannelError::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.wait(PollFlags::OUT, end, limit)?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Receives a message and the descriptors that came with it.
    ///
    /// # Errors
    ///
    /// Any [`ChannelError`]; after all but `TimedOut` the channel is unusable.
    pub fn receive<T: DeserializeOwned>(
        &mut self,
        limit: Duration,
    ) -> Result<(T, Vec<OwnedFd>), ChannelError> {
        let end = Instant::now() + limit;
        let mut descriptors = Vec::new();
        let mut head = [0u8; frame::HEADER_LEN];
        self.fill(&mut head, &mut descriptors, end, limit)?;
        let len = frame::body_len(head, FRAME_MAX)?;
        let mut body = Vec::new();
        while body.len() < len {
            // Memory grows with the octets received, not with the announced length.
            let start = body.len();
            body.resize(len.min(start + (64 << 10)), 0);
            self.fill(&mut body[start..], &mut descriptors, end, limit)?;
        }
        Ok((frame::decode_body(&body)?, descriptors))
    }

    fn send_some(
        &mut self,
        bytes: &[u8],
        descriptors: &[BorrowedFd<'_>],
        flags: SendFlags,
    ) -> Result<usize, ChannelError> {
        let mut space =
            vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(descriptors));
        }
        match sendmsg(
            &self.socket,
            &[IoSlice::new(bytes)],
            &mut control,
            SendFlags::NOSIGNAL | flags,
        ) {
            Ok(sent) => Ok(sent),
            Err(rustix::io::Errno::PIPE | rustix::io::Errno::CONNRESET) => {
                Err(ChannelError::Closed)
            }
            Err(rustix::io::Errno::INTR) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    fn fill(
        &mut self,
        bytes: &mut [u8],
        descriptors: &mut Vec<OwnedFd>,
        end: Instant,
        limit: Duration,
    ) -> Result<(), ChannelError> {
        let mut filled = 0;
        while filled < bytes.len() {
            self.wait(PollFlags::IN, end, limit)?;
            let mut space =
                vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let mut slice = [IoSliceMut::new(&mut bytes[filled..])];
            let got = recvmsg(
                &self.socket,
                &mut slice,
                &mut control,
                RecvFlags::CMSG_CLOEXEC,
            );
            match got {
                Ok(got) if got.bytes == 0 => return Err(ChannelError::Closed),
                Ok(got) => filled += got.bytes,
                Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
                Err(rustix::io::Errno::CONNRESET) => return Err(ChannelError::Closed),
                Err(error) => return Err(error.into()),
            }
            for message in control.drain() {
                if let RecvAncillaryMessage::ScmRights(received) = message {
                    descriptors.extend(received.take(DESCRIPTORS_MAX));
                }
            }
        }
        Ok(())
    }

    fn wait(&self, what: PollFlags, end: Instant, limit: Duration) -> Result<(), ChannelError> {
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let span = Timespec::try_from(left).ok();
            match poll(&mut [PollFd::new(&self.socket, what)], span.as_ref()) {
                Ok(0) => return Err(ChannelError::TimedOut(limit)),
                Ok(_) => return Ok(()),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    const LIMIT: Duration = Duration::from_secs(5);

    fn pair() -> (Channel, UnixStream) {
        let (left, right) = UnixStream::pair().expect("a socket pair");
        (Channel::new(left.into()), right)
    }

    #[test]
    fn channel_transfers_message_and_descriptors() {
        let (mut left, right) = pair();
        let mut right = Channel::new(right.into());
        let (file, _other) = UnixStream::pair().expect("a socket pair");
        left.send(&("hello".to_owned(), 7u32), &[file.as_fd()])
            .expect("it is sent");
        let (message, descriptors) = right.receive::<(String, u32)>(LIMIT).expect("it comes");
        assert_eq!(message, ("hello".to_owned(), 7));
        assert_eq!(descriptors.len(), 1);
    }

    #[test]
    fn oversized_length_is_rejected() {
        let (mut left, mut right) = pair();
        right
            .write_all(&u32::MAX.to_le_bytes())
            .expect("it is sent");
        let result = left.receive::<String>(LIMIT);
        assert!(
            matches!(result, Err(ChannelError::Frame(FrameError::TooLong { .. }))),
            "{result:?}"
        );
    }

    #[test]
    fn octets_behind_message_are_rejected() {
        let (mut left, mut right) = pair();
        right
            .write_all(&[3, 0, 0, 0, 1, b'a', b'b'])
            .expect("it is sent");
        let result = left.receive::<String>(LIMIT);
        let malformed = matches!(result, Err(ChannelError::Frame(FrameError::Malformed)));
        assert!(malformed, "{result:?}");
    }

    #[test]
    fn peer_exit_within_frame_closes_channel() {
        let (mut left, mut right) = pair();
        right.write_all(&[100, 0, 0, 0, 1, 2]).expect("it is sent");
        drop(right);
        let result = left.receive::<String>(LIMIT);
        assert!(matches!(result, Err(ChannelError::Closed)));
    }

    #[test]
    fn random_frames_parse_or_fail() {
        let mut state = 1u64;
        for _ in 0..2000 {
            let (mut left, mut right) = pair();
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(99);
            let len = (state >> 40) as usize % 200;
            let body: Vec<u8> = (0..len).map(|at| (state >> (at % 57)) as u8).collect();
            right
                .write_all(&(len as u32).to_le_bytes())
                .expect("it is sent");
            right.write_all(&body).expect("it is sent");
            drop(right);
            let _ = left.receive::<crate::ToWorker>(LIMIT);
        }
    }

    #[test]
    fn send_to_stalled_reader_times_out() {
        let (mut left, right) = pair();
        let message = vec![7u8; 10_000];
        let limit = Duration::from_millis(1);
        let full = (0..10_000).find_map(|_| left.send_within(&message, &[], limit).err());
        assert!(matches!(full, Some(ChannelError::TimedOut(_))), "{full:?}");
        drop(right);
        let (mut left, right) = pair();
        left.send_within(&message, &[], limit)
            .expect("there is room");
        let mut right = Channel::new(right.into());
        let (came, _) = right.receive::<Vec<u8>>(LIMIT).expect("it comes");
        assert_eq!(came, message);
        drop(right);
        let gone = left.send_within(&message, &[], limit);
        assert!(matches!(gone, Err(ChannelError::Closed)), "{gone:?}");
    }

    #[test]
    fn receive_times_out_without_frame() {
        let (mut left, _right) = pair();
        let result = left.receive::<String>(Duration::from_millis(1));
        assert!(matches!(result, Err(ChannelError::TimedOut(_))));
    }
}
