//! Several buffers a call: what they hold is one message, and one message fills them in order.

use crate::kit::{LIMIT, loopback, pair};
use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;
use xti::endpoint::BUFFERS_MAX;
use xti::{Flags, StreamOptions, TliError, XtiEndpoint, inet};

#[test]
fn stream_goes_from_buffers_into_buffers() {
    let (client, server) = pair(StreamOptions::default());
    let parts = [&b"one"[..], b"", b"twotwo"].map(IoSlice::new);
    let sent = client.send_vectored(&parts, Flags::default(), LIMIT);
    assert_eq!(sent, Ok(9));
    client.flush(LIMIT).unwrap();
    let (mut a, mut b, mut c) = ([0; 2], [0; 4], [0; 9]);
    let mut buffers = [&mut a[..], &mut [], &mut b, &mut c].map(IoSliceMut::new);
    assert_eq!(server.receive_vectored(&mut buffers).unwrap().len, 9);
    assert_eq!((&a, &b, &c[..3]), (b"on", b"etwo", &b"two"[..]));
    assert_eq!(server.receive_vectored(&mut []).unwrap().len, 0, "at once");
}

#[test]
fn release_behind_the_data_does_not_take_them() {
    let (client, server) = pair(StreamOptions::default());
    client.send(b"last", Flags::default(), LIMIT).unwrap();
    client.send_release().unwrap();
    let (mut a, mut b) = ([0; 4], [0; 4]);
    let mut buffers = [&mut a[..], &mut b].map(IoSliceMut::new);
    assert_eq!(server.receive_vectored(&mut buffers).unwrap().len, 4);
    let end = server.receive_vectored(&mut buffers).unwrap_err();
    assert_eq!(end.tli, TliError::Look);
}

#[test]
fn datagram_fills_buffers_and_its_rest_is_said() {
    let setup: inet::Setup = Arc::new(|_| Ok(()));
    let end = XtiEndpoint::open_udp(setup, StreamOptions::default()).unwrap();
    let here = end.bind(&loopback(), 0).unwrap().address;
    let parts = [&b"data"[..], b"gram"].map(IoSlice::new);
    for len in [0, 1, 4, 5] {
        end.send_datagram_vectored(&here, &parts, LIMIT).unwrap();
        let (mut a, mut b, mut source) = ([0; 3], vec![0; len], Vec::new());
        let mut buffers = [&mut a[..], &mut b].map(IoSliceMut::new);
        let got = end.receive_datagram_vectored(&mut buffers, &mut source, LIMIT);
        let got = got.unwrap();
        assert_eq!((got.len, got.more), (3 + len, len < 5));
        assert_eq!([&a[..], &b].concat(), b"datagram"[..3 + len]);
        assert_eq!(source, here);
        if got.more {
            let rest = end.try_receive_datagram(&mut [0; 9], &mut source);
            assert_eq!(rest.unwrap().len, 5 - len);
        }
    }
}

#[test]
fn buffers_beyond_the_most_are_refused() {
    let (client, server) = pair(StreamOptions::default());
    let many = vec![IoSlice::new(b"x"); BUFFERS_MAX + 1];
    let sent = client.send_vectored(&many, Flags::default(), LIMIT);
    assert_eq!(sent.unwrap_err().tli, TliError::BadData);
    let most = client.send_vectored(&many[1..], Flags::default(), LIMIT);
    assert_eq!(most, Ok(BUFFERS_MAX));
    let mut room = [0; BUFFERS_MAX + 1];
    let mut buffers: Vec<_> = room.chunks_mut(1).map(IoSliceMut::new).collect();
    let received = server.receive_vectored(&mut buffers);
    assert_eq!(received.unwrap_err().tli, TliError::BadData);
}
