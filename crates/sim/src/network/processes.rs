//! The main processor: what is served, for how long, and what comes of it.

use super::{Due, Network};
use crate::host::{Piece, Process};
use engine::{Engine, Framing};

impl<E: Engine> Network<E> {
    /// Hands a message to the writer, in pieces as long as a packet's payload.
    pub(super) fn write(&mut self, flow: usize, length: u64) {
        let host = &mut self.hosts[self.flows[flow].from];
        let payload = host.engine.layout().payload as u64;
        let report = &self.flows[flow].report;
        let index = report.offered - 1 - self.flows[flow].early.len() as u64;
        let mut done = 0;
        loop {
            let len = (length - done).min(payload);
            host.writer.push_back(Piece {
                flow,
                len,
                first: done == 0,
                last: done + len == length,
                index,
            });
            done += len;
            if done == length {
                break;
            }
        }
        host.signal(Process::Writer);
    }

    /// Lets the main processor of `station` work until something takes time.
    pub(super) fn serve(&mut self, station: usize) {
        while self.hosts[station].serving.is_none() {
            let Some(process) = self.hosts[station].next() else {
                break;
            };
            let service_ps = self.start(station, process);
            if service_ps == 0 {
                self.finish(station, process);
                continue;
            }
            let host = &mut self.hosts[station];
            host.report.busy_ps[process as usize] += service_ps;
            let done_ps = self.now_ps + service_ps;
            host.serving = Some((process, done_ps));
            self.queue.push(done_ps, 0, Due::Served { station });
        }
        self.arm(station);
    }

    /// Begins a service: the engine gets its input now. Says how long the service takes.
    pub(super) fn start(&mut self, station: usize, process: Process) -> u64 {
        let host = &self.hosts[station];
        match process {
            Process::Writer => host
                .writer
                .front()
                .map_or(0, |piece| host.cost.copying(piece.len)),
            Process::Reader => host.reader.front().map_or(0, |reading| match reading.user {
                0 => 0,
                user => host.cost.copying(user),
            }),
            Process::Sender => self.build(station),
            Process::Receiver => self.parse(station),
        }
    }

    /// Ends a service: its outputs leave now.
    pub(super) fn finish(&mut self, station: usize, process: Process) {
        match process {
            Process::Writer => self.finish_writer(station),
            Process::Reader => self.finish_reader(station),
            Process::Sender => self.finish_sender(station),
            Process::Receiver => self.finish_receiver(station),
        }
    }

    pub(super) fn finish_writer(&mut self, station: usize) {
        let host = &mut self.hosts[station];
        let now = host.clock(self.now_ps);
        let Some(piece) = host.writer.pop_front() else {
            return;
        };
        let flow = &mut self.flows[piece.flow];
        flow.store
            .append(&self.pattern, piece.len, piece.first, piece.last);
        // The protocol gets a message when all of it is copied.
        if let Some(circuit) = flow.circuit.filter(|_| piece.last) {
            let end = flow.note_written(piece.index);
            if flow.framing == Framing::Messages {
                host.engine.end_message(circuit, end);
            }
            host.engine.submit(now, circuit, end, true);
            host.signal(Process::Sender);
        }
        if !host.writer.is_empty() {
            host.signal(Process::Writer);
        }
    }

    pub(super) fn finish_reader(&mut self, station: usize) {
        let host = &mut self.hosts[station];
        let now = host.clock(self.now_ps);
        let Some(reading) = host.reader.pop_front() else {
            return;
        };
        if reading.stream > 0 {
            host.engine.consume(now, reading.circuit, reading.stream);
        }
        if let Some((flow, place)) = reading.of {
            self.flows[flow].note_read(self.now_ps, place, reading.user, reading.ends);
        }
        host.signal(Process::Sender);
        if !host.reader.is_empty() {
            host.signal(Process::Reader);
        }
    }

    pub(super) fn finish_sender(&mut self, station: usize) {
        self.drain_events(station, self.now_ps);
        let host = &mut self.hosts[station];
        let Some(tag) = host.built.take() else {
            return;
        };
        host.signal(Process::Sender);
        // The rate controller keeps packets apart.
        let leave_ps = host.rate_free_ps.max(self.now_ps);
        host.rate_free_ps = leave_ps + host.cost.separation_ps;
        if leave_ps > self.now_ps {
            self.queue.push(leave_ps, 0, Due::Leave { tag });
        } else {
            self.offer(tag);
        }
    }

    pub(super) fn finish_receiver(&mut self, station: usize) {
        let host = &mut self.hosts[station];
        let found = std::mem::take(&mut host.found);
        if !found.is_empty() {
            host.reader.extend(&found);
            host.signal(Process::Reader);
        }
        host.found = found;
        host.found.clear();
        host.signal(Process::Sender);
        if !host.receiver.is_empty() {
            host.signal(Process::Receiver);
        }
    }
}
