//! Streams of an association that begin anew, and more of them.

use super::association::Association;
use engine::AssociationId;
use engine_sctp::numbers::StreamId;
use engine_sctp::{Sctp, StreamDirection};
use std::io;

impl Association {
    /// Lets messages of streams be counted anew, those that this end sends or those of the peer; all
    /// streams for none (RFC 6525). What is sent afterwards waits for the answer, which a notice tells.
    ///
    /// # Errors
    ///
    /// `InvalidInput` when the peer cannot, a stream does not exist, or four requests wait.
    pub fn reset_streams(&mut self, direction: StreamDirection, streams: &[u16]) -> io::Result<()> {
        let streams: Vec<StreamId> = streams.iter().map(|stream| StreamId(*stream)).collect();
        self.reconfigure(|engine, now, id| engine.reset_streams(now, id, direction, &streams))
    }

    /// Asks for `count` more streams (RFC 6525). A notice says how many there are then.
    /// Errors are those of [`Association::reset_streams`].
    pub fn add_streams(&mut self, direction: StreamDirection, count: u16) -> io::Result<()> {
        self.reconfigure(|engine, now, id| engine.add_streams(now, id, direction, count))
    }

    fn reconfigure(
        &mut self,
        ask: impl FnOnce(&mut Sctp, engine::Instant, AssociationId) -> Result<(), engine::CommandError>,
    ) -> io::Result<()> {
        let id = self.circuit.id();
        let mut done = false;
        self.circuit
            .command(|engine, now| done = ask(engine, now, id).is_ok())?;
        if done {
            return Ok(());
        }
        let text = "the streams cannot be changed: the peer does not support it (RFC 6525), there is no \
                    such stream, or other requests wait; read the notices first";
        Err(io::Error::new(io::ErrorKind::InvalidInput, text))
    }
}
