//! Messages as calls: users of engines with transactions.
//!
//! A message from one station to another is a call of that length to the entity of the other station,
//! whose user answers when it has read the request. The message is received with its request, and
//! settled by its reply. `callings` has what goes beyond one user that answers.

use super::callings::{call_note, called, called_address, group};
use super::{Network, ScheduledEvent};
use crate::flow::{Calls, Flow, ReplyOutcome, Target};
use crate::frames::{Contents, MessageTag};
use crate::host::{Process, ReadJob, ServedRequest, WriteJob, WrittenMessage};
use crate::node::Node;
use crate::traffic::{Calling, Reply, Service};
use engine::{
    AssociationId, CommandError, EntityId, Framing, IncomingMessage, Note, OutgoingMessage,
    TransactionEnd, TransactionEvent, TransactionId,
};

/// The entity of a station.
pub(super) fn entity(station: usize) -> EntityId {
    EntityId(station as u64)
}

/// Creates the entity of `station`, if `engine` is one of transactions.
pub(super) fn create_entity(engine: &mut Node, station: usize) {
    if let Some(engine) = engine.transactions_mut() {
        // An engine without room for one entity refuses each call.
        let _ = engine.create_entity(entity(station));
    }
}

impl Network {
    /// Adds a flow of calls from a station to another, or to a group.
    pub(super) fn open_calls(
        &mut self,
        from: usize,
        to: Target,
        source: usize,
    ) -> Result<usize, CommandError> {
        let receivers = self.users_of_calls(from, to, source);
        let called = called(from, to, source);
        let engine = self.hosts[from].engine.transactions_mut();
        let engine = engine.ok_or(CommandError::Unsupported)?;
        engine.locate(called, called_address(to, source));
        let mut flow = Flow::new((from, to, source), Framing::Messages, 0);
        let calling = self.sources[source].traffic.service.calling;
        flow.calls = Some(Calls::new(calling, receivers.len()));
        flow.report.to_group = to == Target::All;
        flow.connected = true;
        for station in receivers {
            flow.add_receiver(station);
        }
        self.flows.push(flow);
        Ok(self.flows.len() - 1)
    }

    /// What the pattern of a flow asks of those who are called.
    pub(super) fn service(&self, flow: usize) -> Service {
        let source = self.sources.get(self.flows[flow].source);
        source.map_or_else(Service::default, |source| source.traffic.service)
    }

    /// Message `number` of flow `index` is written: it is sent as a request.
    pub(super) fn call(&mut self, station: usize, index: usize, number: u64, len: u64) {
        let service = self.service(index);
        let flow = &mut self.flows[index];
        let tag = flow.begin_call(number, index, len);
        let to = called(flow.from, flow.to, flow.source);
        let ends_run = flow.calls.as_ref().is_some_and(Calls::ends_run);
        let note = call_note(&service, flow.source, ends_run);
        let host = &mut self.hosts[station];
        let now = host.local_time(self.now_ps);
        let (Some(engine), Some(messages)) = (host.engine.transactions_mut(), &mut host.messages)
        else {
            return;
        };
        let request = messages.keep(tag);
        match engine.call(now, entity(station), to, request, &note) {
            Ok(transaction) => {
                messages.called.insert(transaction, tag);
                self.begin_collecting(station, transaction, service.calling);
            }
            Err(_) => {
                messages.outgoing.remove(&request.0);
                flow.note_request_released(tag.len);
                self.give_up_call(tag);
            }
        }
    }

    /// The reply to a transaction is written, and sent.
    pub(super) fn reply(&mut self, station: usize, transaction: TransactionId, len: u64) {
        let host = &mut self.hosts[station];
        let now = host.local_time(self.now_ps);
        let (Some(engine), Some(messages)) = (host.engine.transactions_mut(), &mut host.messages)
        else {
            return;
        };
        let served = messages.served.get(&transaction);
        let Some(tag) = served.map(|served| served.tag.reply(len)) else {
            // Its caller has given up.
            return;
        };
        let reply = messages.keep(tag);
        let taken = engine.reply(now, transaction, reply, &Note::default());
        if taken.is_err() {
            messages.outgoing.remove(&reply.0);
        }
    }

    /// The user of the called entity has read a request, and answers it after the time of its service.
    pub(super) fn finish_request(&mut self, station: usize, transaction: TransactionId) {
        let host = &mut self.hosts[station];
        let messages = host.messages.as_mut();
        let served = messages.and_then(|messages| messages.served.get_mut(&transaction));
        let Some(served) = served else {
            return;
        };
        served.is_read = true;
        let ServedRequest { tag, is_over, .. } = *served;
        let flow = &mut self.flows[tag.flow];
        if let Some(receiver) = flow.receiver_index(station) {
            flow.note_request_read(self.now_ps, receiver, tag);
        }
        if is_over {
            self.forget_served(station, transaction);
            return;
        }
        match self.service(tag.flow).time_ps {
            0 => self.answer(station, transaction, tag),
            service_ps => {
                let done_ps = self.now_ps + service_ps;
                let messages = self.hosts[station].messages.as_mut();
                let served = messages.and_then(|messages| messages.served.get_mut(&transaction));
                if let Some(served) = served {
                    served.done_ps = Some(done_ps);
                }
                let served = ScheduledEvent::RequestServed {
                    station,
                    transaction,
                };
                self.queue.push(done_ps, 1, served);
            }
        }
    }

    /// A service is over; false if its transaction was, or its station crashed.
    pub(super) fn finish_serving(&mut self, station: usize, transaction: TransactionId) -> bool {
        let now_ps = self.now_ps;
        let messages = self.hosts[station].messages.as_mut();
        let served = messages.and_then(|messages| messages.served.get_mut(&transaction));
        let Some(served) = served.filter(|served| served.done_ps == Some(now_ps)) else {
            return false;
        };
        served.done_ps = None;
        let tag = served.tag;
        self.answer(station, transaction, tag);
        self.hosts[station].signal(Process::Sender);
        self.run_processes(station);
        true
    }

    fn answer(&mut self, station: usize, transaction: TransactionId, tag: MessageTag) {
        if let Calling::Forwarded(to) = self.service(tag.flow).calling
            && to != station
        {
            return self.forward(station, transaction, tag, to);
        }
        match self.reply_len(tag) {
            0 => self.reply(station, transaction, 0),
            len => {
                let host = &mut self.hosts[station];
                host.writer.push_back(WriteJob {
                    message: WrittenMessage::Reply(transaction),
                    len,
                    first: true,
                    last: true,
                });
                host.signal(Process::Writer);
            }
        }
    }

    fn reply_len(&self, request: MessageTag) -> u64 {
        match self.service(request.flow).reply {
            Reply::SameLength => request.len,
            Reply::Bytes(len) => len,
            Reply::Empty => 0,
        }
    }

    fn forget_served(&mut self, station: usize, transaction: TransactionId) {
        if let Some(messages) = &mut self.hosts[station].messages {
            messages.served.remove(&transaction);
        }
    }

    /// Puts the blocks that a packet brought where they belong.
    pub(super) fn keep_blocks(&mut self, station: usize, packet: &[u8], contents: &Contents) {
        let host = &mut self.hosts[station];
        let Some(messages) = &mut host.messages else {
            return;
        };
        for block in self.deliveries.blocks.drain(..) {
            let Some(tag) = contents.message else {
                continue;
            };
            let (_, buffer) = messages
                .incoming
                .entry(block.message)
                .or_insert_with(|| (tag, vec![0; block.message_len as usize]));
            let at = block.offset as usize;
            // A block outside of its message leaves zeros, which are found to be wrong.
            if let Some(place) = buffer.get_mut(at..at + block.range.len()) {
                place.copy_from_slice(&packet[block.range]);
            }
        }
    }

    pub(super) fn handle_transaction(
        &mut self,
        station: usize,
        at_ps: u64,
        event: TransactionEvent,
    ) {
        match event {
            TransactionEvent::Requested {
                transaction,
                message,
                from,
                to,
                ..
            } => self.handle_request(station, transaction, message, (from, to)),
            TransactionEvent::Replied {
                transaction,
                message,
                from,
                ..
            } => self.handle_reply((station, from), at_ps, transaction, message),
            TransactionEvent::Copied { from, to } => self.copy_message(station, from, to),
            TransactionEvent::Duplicated { from, to } => {
                if let Some(messages) = &mut self.hosts[station].messages
                    && let Some(copy) = messages.incoming.get(&from).cloned()
                {
                    messages.incoming.insert(to, copy);
                }
            }
            TransactionEvent::Released(message) => {
                let messages = self.hosts[station].messages.as_mut();
                let tag = messages.and_then(|messages| messages.outgoing.remove(&message));
                let is_caller = |tag: &MessageTag| self.flows[tag.flow].from == station;
                if let Some(tag) = tag.filter(|tag| !tag.is_reply && is_caller(tag)) {
                    self.flows[tag.flow].note_request_released(tag.len);
                }
            }
            TransactionEvent::Discarded(message) => {
                drop(self.take_incoming(station, message));
            }
            TransactionEvent::Ended(transaction, how) => self.handle_end(station, transaction, how),
        }
    }

    /// A message stays at its station.
    fn copy_message(&mut self, station: usize, from: OutgoingMessage, to: IncomingMessage) {
        let Some(messages) = &mut self.hosts[station].messages else {
            return;
        };
        if let Some(tag) = messages.outgoing.get(&from).copied() {
            let octets = self.pattern.at(tag.position(), tag.len as usize).to_vec();
            messages.incoming.insert(to, (tag, octets));
        }
    }

    fn take_incoming(
        &mut self,
        station: usize,
        message: IncomingMessage,
    ) -> Option<(MessageTag, Vec<u8>)> {
        let messages = self.hosts[station].messages.as_mut();
        messages.and_then(|messages| messages.incoming.remove(&message))
    }

    fn handle_request(
        &mut self,
        station: usize,
        transaction: TransactionId,
        message: IncomingMessage,
        entities: (EntityId, EntityId),
    ) {
        let Some((tag, octets)) = self.take_incoming(station, message) else {
            let messages = self.hosts[station].messages.as_ref();
            let served = messages.and_then(|messages| messages.served.get(&transaction));
            // The user has this request. No request of the simulator is empty.
            if let Some(tag) = served.map(|served| served.tag) {
                let flow = &mut self.flows[tag.flow];
                let receiver = flow.receiver_index(station).unwrap_or(0);
                flow.note_repeated(receiver, tag.len);
            }
            return;
        };
        let flow = &mut self.flows[tag.flow];
        let is_called = match flow.to {
            Target::All => entities.1 == group(flow.from, flow.source),
            Target::Station(_) => entities.1 == entity(station),
        };
        let receiver = flow.receiver_index(station);
        let receiver = receiver.filter(|_| is_called && entities.0 == entity(flow.from));
        let Some(receiver) = receiver.filter(|_| !tag.is_reply) else {
            flow.note_wrong(tag.len);
            return;
        };
        flow.check_request(receiver, tag, &octets, &self.pattern);
        let host = &mut self.hosts[station];
        if let Some(messages) = &mut host.messages {
            let served = ServedRequest {
                tag,
                is_read: false,
                is_over: false,
                done_ps: None,
            };
            messages.served.insert(transaction, served);
        }
        host.queue_reading(read_job(tag.len, Some(transaction)));
        host.signal(Process::Reader);
    }

    fn handle_reply(
        &mut self,
        (station, from): (usize, EntityId),
        at_ps: u64,
        transaction: TransactionId,
        message: IncomingMessage,
    ) {
        let incoming = self.take_incoming(station, message);
        let octets = incoming.map_or_else(Vec::new, |(_, octets)| octets);
        let host = &mut self.hosts[station];
        let messages = host.messages.as_ref();
        let called = messages.and_then(|messages| messages.called.get(&transaction));
        let Some(&request) = called else {
            return;
        };
        if !octets.is_empty() {
            host.queue_reading(read_job(octets.len() as u64, None));
            host.signal(Process::Reader);
        }
        let reply = request.reply(self.reply_len(request));
        let answerer = self.answerer(request.flow, from);
        let flow = &mut self.flows[request.flow];
        let Some(receiver) = answerer else {
            flow.note_wrong(reply.len.max(1));
            return;
        };
        let messages = (request, reply);
        match flow.note_replied(at_ps, receiver, messages, &octets, &self.pattern) {
            ReplyOutcome::Settled => {
                self.note_settled(request.flow);
                self.stop_collecting(station, transaction, request.flow);
            }
            ReplyOutcome::Collected | ReplyOutcome::Repeated => {}
        }
    }

    /// A call of a flow is settled.
    pub(super) fn note_settled(&mut self, flow: usize) {
        self.unsettled -= 1;
        self.settled += 1;
        self.release_outstanding(self.flows[flow].source, 1);
    }

    fn handle_end(&mut self, station: usize, transaction: TransactionId, how: TransactionEnd) {
        let Some(messages) = &mut self.hosts[station].messages else {
            return;
        };
        if let Some(request) = messages.called.remove(&transaction) {
            let is_datagram = matches!(self.service(request.flow).calling, Calling::Datagrams(_));
            match how {
                TransactionEnd::Complete if is_datagram => self.settle_datagram(request),
                // A call that is complete without a reply stays unsettled, which the run shows.
                TransactionEnd::Complete => {}
                _ => self.give_up_call(request),
            }
            return;
        }
        let Some(served) = messages.served.get_mut(&transaction) else {
            return;
        };
        served.is_over = true;
        if served.is_read {
            messages.served.remove(&transaction);
        }
    }

    /// All copies of a datagram have left.
    fn settle_datagram(&mut self, request: MessageTag) {
        if self.flows[request.flow].note_departed(self.now_ps, request) {
            self.note_settled(request.flow);
        }
    }

    pub(super) fn give_up_call(&mut self, request: MessageTag) {
        let flow = &mut self.flows[request.flow];
        if flow.give_up_call(request) {
            let source = flow.source;
            self.unsettled -= 1;
            self.release_outstanding(source, 1);
        }
    }

    /// The calls of a station that crashed are given up, and it forgets what it executed.
    pub(super) fn crash_calls(&mut self, station: usize) {
        if self.hosts[station].messages.take().is_none() {
            return;
        }
        for number in 0..self.flows.len() {
            let flow = &mut self.flows[number];
            let Some(calls) = &mut flow.calls else {
                continue;
            };
            let receivers = &flow.report.receivers;
            let receiver = receivers.binary_search_by_key(&station, |receiver| receiver.station);
            if let Ok(receiver) = receiver {
                calls.forget_executed(receiver);
            }
            if flow.from == station && flow.is_open {
                self.give_up(number);
                self.hosts[station].interrupted.push(number);
            }
        }
    }
}

/// The user's copy of a message that came.
fn read_job(len: u64, request: Option<TransactionId>) -> ReadJob {
    ReadJob {
        number: None,
        circuit: AssociationId(0),
        target: None,
        stream: 0,
        user: len,
        ends: 0,
        request,
    }
}
