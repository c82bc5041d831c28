//! Channels carried on by proxies over a real circuit.

use std::os::unix::net::UnixStream;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use towpath::channel::{ChannelError, ChannelReceiver, ChannelSender, Geometry, Signal};
use towpath::channel_proxy::{carry_in, carry_out};
use towpath::{Circuit, Options, find};

fn channel(slots: u32) -> (ChannelSender, ChannelReceiver) {
    let (near, far) = UnixStream::pair().unwrap();
    let geometry = Geometry::new(64, slots).unwrap();
    let sender = ChannelSender::open(near, geometry, Signal::Futex).unwrap();
    (sender, ChannelReceiver::accept(far, Signal::Futex).unwrap())
}

fn circuits(transport: &str) -> (Box<dyn Circuit>, Box<dyn Circuit>) {
    let transport = find(transport).unwrap();
    let options = Options::default();
    let mut listener = transport.listen(&options).unwrap();
    let rendezvous = listener.rendezvous().unwrap();
    let connecting = thread::spawn(move || transport.connect(&rendezvous, 0, &options).unwrap());
    let accepted = listener.accept(Instant::now() + Duration::from_secs(30));
    (connecting.join().unwrap(), accepted.unwrap())
}

/// A program's sender, the far program's receiver, and the proxies between them.
struct Carried {
    sender: ChannelSender,
    receiver: ChannelReceiver,
    out: JoinHandle<std::io::Result<u64>>,
    into: JoinHandle<std::io::Result<u64>>,
}

fn carried(transport: &str, far_slots: u32) -> Carried {
    let (mut near, mut far) = circuits(transport);
    let (sender, mut from_program) = channel(64);
    let (to_program, receiver) = channel(far_slots);
    let out = thread::spawn(move || carry_out(&mut from_program, &mut *near));
    let into = thread::spawn(move || carry_in(&mut *far, to_program, |_| {}));
    Carried {
        sender,
        receiver,
        out,
        into,
    }
}

#[test]
fn channel_carried_to_another_gives_all_messages_and_the_close() {
    for transport in ["xtp-message", "unix-seqpacket"] {
        let Carried {
            mut sender,
            mut receiver,
            out,
            into,
        } = carried(transport, 64);
        let messages: Vec<Vec<u8>> = (0..300).map(|n| vec![n as u8; n * 7 % 500]).collect();
        let sent = messages.clone();
        let sending = thread::spawn(move || {
            for message in sent {
                sender.send(&message).unwrap();
            }
        });
        for message in &messages {
            assert_eq!(&receiver.receive().unwrap().unwrap().to_vec(), message);
        }
        assert!(receiver.receive().unwrap().is_none(), "{transport}");
        sending.join().unwrap();
        assert_eq!(out.join().unwrap().unwrap(), 300);
        assert_eq!(into.join().unwrap().unwrap(), 300);
    }
}

#[test]
fn program_that_is_gone_breaks_the_far_channel_instead_of_closing_it() {
    let Carried {
        mut sender,
        mut receiver,
        out,
        into,
    } = carried("xtp-message", 64);
    sender.send(b"before").unwrap();
    sender.abort();
    assert_eq!(receiver.receive().unwrap().unwrap().to_vec(), b"before");
    assert!(matches!(receiver.receive(), Err(ChannelError::PeerGone)));
    assert!(out.join().unwrap().is_err() && into.join().unwrap().is_err());
}

#[test]
fn message_longer_than_the_far_ring_breaks_the_far_channel() {
    let Carried {
        mut sender,
        mut receiver,
        out: _,
        into,
    } = carried("xtp-message", 2);
    sender.send(&[1; 128]).unwrap();
    assert_eq!(receiver.receive().unwrap().unwrap().len(), 128);
    sender.send(&[2; 129]).unwrap();
    assert!(matches!(receiver.receive(), Err(ChannelError::PeerGone)));
    let error = into.join().unwrap().expect_err("no room");
    assert!(error.to_string().contains("129"), "{error}");
}
