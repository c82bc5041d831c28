//! A transaction as its caller sees it.

use crate::endpoint::{Arrival, Shared};
use crate::incoming::Incoming;
use crate::pdu::{Header, Kind};
use crate::transmission::Transmission;
use engine::{
    EntityId, Event, Note, OutgoingMessage, Path, TransactionEnd, TransactionEvent, TransactionId,
};

/// A call whose reply is not whole.
#[derive(Debug)]
pub(crate) struct ClientCall {
    pub(crate) id: TransactionId,
    pub(crate) client: EntityId,
    pub(crate) server: EntityId,
    pub(crate) path: Path,
    pub(crate) request: Transmission,
    reply: Option<Incoming>,
}

impl ClientCall {
    pub(crate) fn new(
        id: TransactionId,
        (client, server): (EntityId, EntityId),
        path: Path,
        request: (OutgoingMessage, u64),
    ) -> ClientCall {
        ClientCall {
            id,
            client,
            server,
            path,
            request: Transmission::new(request),
            reply: None,
        }
    }

    pub(crate) fn header(&self, kind: Kind) -> Header {
        Header::without_block(kind, self.id.0, (self.client, self.server))
    }

    /// A block of the reply came; true when the transaction is over.
    pub(crate) fn handle_reply(&mut self, sh: &mut Shared, packet: Arrival<'_>) -> bool {
        let header = &packet.header;
        if header.refused {
            self.end(sh, TransactionEnd::Refused);
            return true;
        }
        let reply = self
            .reply
            .get_or_insert_with(|| Incoming::new(sh.next_incoming(), header.message_len));
        let block = reply.take(header.message_len, header.offset, packet.block);
        packet.deliveries.blocks.extend(block);
        if !reply.is_whole() {
            // The server is there: it repeats what is missing.
            self.request.heard(packet.now, sh);
            return false;
        }
        let replied = TransactionEvent::Replied {
            transaction: self.id,
            message: reply.message,
            from: header.server,
            note: Note::default(),
        };
        self.reply = None;
        sh.events.push_back(Event::Transaction(replied));
        sh.send_control(self.path, &self.header(Kind::Ack));
        self.end(sh, TransactionEnd::Complete);
        true
    }

    /// Ends the transaction: the host gets its buffers back.
    pub(crate) fn end(&mut self, sh: &mut Shared, how: TransactionEnd) {
        sh.tell(TransactionEvent::Released(self.request.message));
        if let Some(reply) = self.reply.take() {
            sh.tell(TransactionEvent::Discarded(reply.message));
        }
        sh.tell(TransactionEvent::Ended(self.id, how));
    }
}
