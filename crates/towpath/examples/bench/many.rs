//! Many associations of one endpoint, all of which always have data to send.

use crate::peer::{Outcome, Peer};
use driver::Watch;
use engine::{AssociationId, Associations};
use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};
use wire::Wire;

/// Sends until `end` on all of `ids`, by `try_send` of the one at an index; then ends the peer and this process.
pub fn keep_full<E: Associations, W: Wire>(
    ids: &[AssociationId],
    watch: &mut Watch<E, W>,
    (end, peer): (Instant, Peer),
    mut try_send: impl FnMut(usize) -> io::Result<()>,
) -> Outcome<()> {
    let index: BTreeMap<_, _> = ids.iter().copied().zip(0..).collect();
    let mut open: Vec<usize> = (0..ids.len()).collect();
    let mut ready = Vec::new();
    while Instant::now() < end {
        for at in open.drain(..) {
            while taken(try_send(at))? {}
        }
        wait(watch)?;
        watch.poll_ready(&mut ready)?;
        open.extend(ready.drain(..).filter_map(|id| index.get(&id).copied()));
    }
    peer.end_both()
}

/// Whether there was room.
fn taken(sent: io::Result<()>) -> io::Result<bool> {
    match sent {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        other => other.map(|()| true),
    }
}

fn wait<E: Associations, W: Wire>(watch: &mut Watch<E, W>) -> io::Result<()> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let tick = Duration::from_millis(10);
    let span = watch.prepare_wait()?.unwrap_or(tick).min(tick);
    let span = Timespec {
        tv_sec: 0,
        tv_nsec: i64::from(span.subsec_nanos()),
    };
    let descriptor = watch.descriptor();
    poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&span))?;
    Ok(())
}

/// Receives by `try_recv` on the circuits that `try_accept` gives until its input ends; bytes a second once `count` of them
/// have run for `warm_up`, None if they have not.
pub fn receive_on_all<C, E: Associations, W: Wire>(
    (count, warm_up): (usize, Duration),
    watch: &mut Watch<E, W>,
    mut try_accept: impl FnMut() -> io::Result<(AssociationId, C)>,
    mut try_recv: impl FnMut(&mut C, &mut [u8]) -> io::Result<Option<usize>>,
) -> io::Result<Option<f64>> {
    let mut circuits = BTreeMap::new();
    let (mut ready, mut buffer) = (Vec::new(), vec![0; 256 << 10]);
    let (mut bytes, mut all_here, mut began) = (0u64, None, None);
    let over = std::thread::spawn(crate::peer::wait_for_end);
    while !over.is_finished() {
        wait(watch)?;
        if watch.poll_ready(&mut ready)? {
            while let Ok((id, circuit)) = try_accept() {
                ready.push(id);
                circuits.insert(id, circuit);
            }
        }
        for id in ready.drain(..) {
            let Some(circuit) = circuits.get_mut(&id) else {
                continue;
            };
            while let Ok(Some(len)) = try_recv(circuit, &mut buffer) {
                bytes += len as u64;
            }
        }
        if circuits.len() == count && began.is_none() {
            let since: Instant = *all_here.get_or_insert_with(Instant::now);
            if since.elapsed() >= warm_up {
                (bytes, began) = (0, Some(Instant::now()));
            }
        }
    }
    Ok(began.map(|began: Instant| bytes as f64 / began.elapsed().as_secs_f64()))
}
