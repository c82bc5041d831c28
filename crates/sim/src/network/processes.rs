//! The main processor: which process it serves, for how long, and the outputs.

use super::{Network, ScheduledEvent};
use crate::flow::Flow;
use crate::host::{Process, WriteJob, WrittenMessage};
use engine::{AssociationId, Framing, Note, SendFlags};

impl Network {
    /// Hands a message of a flow to the writer.
    pub(super) fn queue_message(&mut self, flow: usize, length: u64) {
        let Flow {
            from,
            circuit,
            report,
            queued_lengths,
            ..
        } = &self.flows[flow];
        let (from, circuit) = (*from, *circuit);
        let index = report.offered - 1 - queued_lengths.len() as u64;
        let message = WrittenMessage::OfFlow { flow, index };
        self.queue_writing(from, circuit, message, length);
    }

    /// Hands a message to the writer of `station`, in parts as long as a packet's payload.
    pub(super) fn queue_writing(
        &mut self,
        station: usize,
        circuit: Option<AssociationId>,
        message: WrittenMessage,
        length: u64,
    ) {
        let host = &mut self.hosts[station];
        let layout = host.engine.users().map(|users| users.layout(circuit));
        let payload = layout.map_or(u64::MAX, |layout| layout.payload as u64);
        let mut done = 0;
        loop {
            let len = (length - done).min(payload);
            host.writer.push_back(WriteJob {
                message,
                len,
                first: done == 0,
                last: done + len == length,
            });
            done += len;
            if done == length {
                break;
            }
        }
        host.note_writer_queue();
        host.signal(Process::Writer);
    }

    /// Runs the main processor of `station` until a service takes time.
    pub(super) fn run_processes(&mut self, station: usize) {
        while self.hosts[station].in_service.is_none() {
            let Some(process) = self.hosts[station].next_process() else {
                break;
            };
            let service_ps = self.start_service(station, process);
            if service_ps == 0 {
                self.finish_service(station, process);
                continue;
            }
            let host = &mut self.hosts[station];
            host.report_mut().busy_ps[process as usize] += service_ps;
            let done_ps = self.now_ps + service_ps;
            host.in_service = Some((process, done_ps));
            self.queue
                .push(done_ps, 0, ScheduledEvent::ServiceDone { station });
        }
        self.arm_timer(station);
    }

    /// Starts a service: the engine gets its input now. Returns how long the service takes, ps.
    pub(super) fn start_service(&mut self, station: usize, process: Process) -> u64 {
        let host = &self.hosts[station];
        match process {
            Process::Writer => host
                .writer
                .front()
                .map_or(0, |job| host.cost.copy_ps(job.len)),
            Process::Reader => host.reader.front().map_or(0, |job| match job.user {
                0 => 0,
                user => host.cost.copy_ps(user),
            }),
            Process::Sender => self.build_packet(station),
            Process::Receiver => self.parse_packet(station),
        }
    }

    /// Ends a service: its outputs are sent now.
    pub(super) fn finish_service(&mut self, station: usize, process: Process) {
        match process {
            Process::Writer => self.finish_writer(station),
            Process::Reader => self.finish_reader(station),
            Process::Sender => self.finish_sender(station),
            Process::Receiver => self.finish_receiver(station),
        }
    }

    pub(super) fn finish_writer(&mut self, station: usize) {
        let Some(job) = self.hosts[station].writer.pop_front() else {
            return;
        };
        match job.message {
            WrittenMessage::OfFlow { flow, index } if self.hosts[station].messages.is_some() => {
                self.call(station, flow, index, job.len);
                self.hosts[station].signal(Process::Sender);
            }
            WrittenMessage::OfFlow { flow, index } => self.submit(station, job, flow, index),
            WrittenMessage::Reply(transaction) => {
                self.reply(station, transaction, job.len);
                self.hosts[station].signal(Process::Sender);
            }
            WrittenMessage::Unsent => {}
        }
        let host = &mut self.hosts[station];
        if !host.writer.is_empty() {
            host.signal(Process::Writer);
        }
    }

    /// Part of message `index` of a flow is in the send buffer: the protocol gets a message when all of
    /// it is.
    fn submit(&mut self, station: usize, job: WriteJob, flow: usize, index: u64) {
        let host = &mut self.hosts[station];
        let now = host.local_time(self.now_ps);
        let flow = &mut self.flows[flow];
        flow.store
            .append(&self.pattern, job.len, job.first, job.last);
        let Some(circuit) = flow.circuit.filter(|_| job.last) else {
            return;
        };
        let end = flow.note_written(index);
        let note = flow
            .notes
            .map_or_else(Note::default, |notes| notes.note(index));
        let flags = SendFlags {
            end_of_message: flow.framing == Framing::Messages,
            ..SendFlags::PUSH
        };
        if let Some(users) = host.engine.users_mut() {
            users.submit(now, circuit, end, flags, &note);
        }
        host.signal(Process::Sender);
    }

    pub(super) fn finish_reader(&mut self, station: usize) {
        let host = &mut self.hosts[station];
        let now = host.local_time(self.now_ps);
        let Some(job) = host.take_read() else {
            return;
        };
        if job.stream > 0
            && let Some(users) = host.engine.users_mut()
        {
            users.consume(now, job.circuit, job.stream);
        }
        if let Some((flow, receiver)) = job.target {
            self.flows[flow].note_read(self.now_ps, receiver, job.user, job.ends);
            if let Some(number) = job.number {
                self.flows[flow].note_labelled_read(self.now_ps, receiver, number);
            }
        }
        if let Some(transaction) = job.request {
            self.finish_request(station, transaction);
        }
        let host = &mut self.hosts[station];
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
        // The rate controller separates packets.
        let leave_ps = host.rate_free_ps.max(self.now_ps);
        host.rate_free_ps = leave_ps + host.cost.separation_ps;
        if leave_ps > self.now_ps {
            self.queue
                .push(leave_ps, 0, ScheduledEvent::PacketDeparture { tag });
        } else {
            self.offer_to_controller(tag);
        }
    }

    pub(super) fn finish_receiver(&mut self, station: usize) {
        let host = &mut self.hosts[station];
        let read_jobs = std::mem::take(&mut host.read_jobs);
        if !read_jobs.is_empty() {
            read_jobs.iter().for_each(|job| host.queue_reading(*job));
            host.signal(Process::Reader);
        }
        host.read_jobs = read_jobs;
        host.read_jobs.clear();
        host.signal(Process::Sender);
        if !host.receiver.is_empty() {
            host.signal(Process::Receiver);
        }
    }
}
