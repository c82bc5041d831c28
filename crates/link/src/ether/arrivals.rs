//! A frame's way to its receivers.

use super::{Ether, EtherDestination, EtherEvent, Scheduled, Station};

impl Ether {
    /// Schedules the arrivals at all other stations, one for each run of stations.
    pub(super) fn propagate_to_all(&mut self, now_ps: u64, from: usize, activity: u64) {
        let mut to = 0;
        while to < self.stations.len() {
            if to == from {
                to += 1;
                continue;
            }
            self.propagate(now_ps, from, activity, to);
            to = self.run_end(to, from);
        }
    }

    /// The end of the run of stations that begins at `first`: neighbours in number at one position, which
    /// a frame from another station reaches together.
    fn run_end(&self, first: usize, from: usize) -> usize {
        let position_ps = self.stations[first].position_ps;
        let others = self.stations[first..].iter().zip(first..);
        let is_in_run =
            |(at, number): &(&Station, usize)| at.position_ps == position_ps && *number != from;
        first + others.take_while(is_in_run).count()
    }

    /// Schedules the arrival at one station, or at the run that begins there.
    pub(super) fn propagate(&mut self, now_ps: u64, from: usize, activity: u64, to: usize) {
        let (here, there) = (&self.stations[from], &self.stations[to]);
        let distance = here.position_ps.abs_diff(there.position_ps);
        let station = to as u32;
        self.schedule(now_ps + distance, Scheduled::Arrive { activity, station });
    }

    /// A frame reaches `station`, or with a frame to all the run that begins there. Counts the stations.
    pub(super) fn arrive(&mut self, now_ps: u64, activity: u64, station: usize) -> u64 {
        let position_ps = self.stations[station].position_ps;
        let Some(transmission) = self.cable.get(activity) else {
            return 0;
        };
        let (from, frame) = (transmission.station, transmission.frame);
        let end = match frame.to {
            EtherDestination::Station(_) => station + 1,
            EtherDestination::All => self.run_end(station, from),
        };
        let count = (end - station) as u64;
        let is_undamaged = self.cable.is_undamaged_at(activity, position_ps);
        match is_undamaged {
            true => self.counters.delivered += count,
            false => self.counters.damaged += count,
        }
        self.events
            .extend((station..end).map(|station| match is_undamaged {
                true => EtherEvent::Delivered {
                    at_ps: now_ps,
                    station,
                    from,
                    frame,
                },
                false => EtherEvent::Damaged {
                    at_ps: now_ps,
                    station,
                    from,
                    frame,
                },
            }));
        count
    }
}
