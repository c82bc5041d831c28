//! Layer `halves`, driven by a script of packets, frames and time steps; any octets are one.

use engine::{Address, Frames, Instant, Layer, Path, Received};
use layer_halves::{HALVES_MAX, HEADER_LEN, Halves};
use std::time::Duration;

const PACKET_MAX: usize = 50;

/// Runs the script; how many packets came out.
pub fn frames(octets: &[u8]) -> u64 {
    let (mut sender, mut receiver) = (Halves::new(PACKET_MAX, 0), Halves::new(PACKET_MAX, 0));
    let mut now = Instant::from_nanos(0);
    let mut kept: Vec<Vec<u8>> = Vec::new();
    let mut delivered = 0;
    let mut rest = octets;
    while let [code, len, more @ ..] = rest {
        let (head, tail) = more.split_at(usize::from(*len % 64).min(more.len()));
        rest = tail;
        match code % 6 {
            // Octets as a frame.
            0 => delivered += arrive(&mut receiver, now, 0, head),
            // A packet on its way: its frames are kept.
            1 | 2 => {
                sender.send(now, path(0), head);
                kept.extend(taken(&mut sender, now, usize::from(code / 6 % 4) + 1));
            }
            // One of the kept frames arrives, perhaps again, or by another path.
            3 | 4 if !kept.is_empty() => {
                let at = usize::from(*len) % kept.len();
                let frame = match code % 6 {
                    3 => kept.swap_remove(at),
                    _ => kept[at].clone(),
                };
                delivered += arrive(&mut receiver, now, u32::from(code / 128), &frame);
            }
            _ => {
                now = now + Duration::from_millis(u64::from(*len) * 8);
                receiver.handle_timeout(now);
                let next = receiver.poll_timeout();
                assert!(next.is_none_or(|at| at > now), "the timeout stays due");
            }
        }
        check_account(&receiver, delivered);
    }
    // With time, nothing waits any longer.
    receiver.handle_timeout(now + Duration::from_secs(3600));
    assert_eq!(receiver.poll_timeout(), None);
    let counters = receiver.counters();
    assert_eq!(
        counters.packets_parsed,
        2 * delivered + counters.packets_discarded
    );
    delivered
}

fn path(station: u32) -> Path {
    Path::to(Address::Station(station))
}

/// The frames that the layer has, of at most `frames_max` a call.
fn taken(layer: &mut Halves, now: Instant, frames_max: usize) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    loop {
        let mut frames = Frames::default();
        layer.poll_transmit(now, frames_max, &mut frames);
        if frames.is_empty() {
            return all;
        }
        let each = frames.octets().chunks(frames.frame_len());
        assert!(each.len() <= frames_max, "more frames than asked for");
        for frame in each {
            assert!((HEADER_LEN..=layer.frame_max()).contains(&frame.len()));
            all.push(frame.to_vec());
        }
    }
}

/// A frame arrives; how many packets are whole with it.
fn arrive(layer: &mut Halves, now: Instant, from: u32, frame: &[u8]) -> u64 {
    let mut packets = Vec::new();
    let received = Received::new(path(from), frame);
    layer.handle_frame(now, received, &mut packets);
    assert!(packets.len() <= 1, "a frame completes one packet at most");
    for (by, packet) in &packets {
        assert_eq!(*by, path(from));
        assert!(packet.len() <= PACKET_MAX);
    }
    packets.len() as u64
}

/// Each frame is in a packet, was discarded, or waits; few wait.
fn check_account(layer: &Halves, delivered: u64) {
    let counters = layer.counters();
    let done = 2 * delivered + counters.packets_discarded;
    let waiting = counters.packets_parsed.checked_sub(done);
    let waiting = waiting.expect("no frame is counted twice");
    assert!(waiting <= HALVES_MAX as u64);
    assert_eq!(waiting == 0, layer.poll_timeout().is_none());
}
