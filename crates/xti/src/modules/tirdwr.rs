//! `tirdwr`: what comes from a provider of TPI becomes what reads understand, for programs that know read and
//! write alone.

use crate::provider::{fail_stream, parsed};
use crate::tpi::Primitive;
use streams::{Context, Message, MessageKind, Module, ModuleInfo, Side};

/// The module. It belongs on a stream whose connection carries data.
#[derive(Debug, Default)]
pub struct Tirdwr {
    /// The peer has released: the answer to that is a release, else a disconnect.
    peer_has_released: bool,
    has_ended: bool,
}

impl Tirdwr {
    /// Data up: those of a message lose its boundaries, the peer's release is the end of a file.
    fn up(&mut self, context: &mut Context<'_>, mut message: Message) {
        match parsed(&message) {
            Ok(Primitive::DataIndication { .. }) => {
                if let Some(control) = message.control.take() {
                    context.pool().release(control);
                }
                pass_data(context, Side::Read, message.into_kind(MessageKind::Data));
            }
            Ok(Primitive::ReleaseIndication) => {
                message.release(context.pool());
                self.peer_has_released = true;
                context.put_next(Side::Read, Message::new(MessageKind::Data));
            }
            Ok(Primitive::DisconnectIndication { .. }) => {
                message.release(context.pool());
                self.has_ended = true;
                context.put_next(Side::Read, Message::new(MessageKind::HangUp));
            }
            // Expedited data too: a read could not tell them.
            _ => {
                message.release(context.pool());
                fail_stream(context);
            }
        }
    }
}

/// Hands data on; none are nothing in either direction.
fn pass_data(context: &mut Context<'_>, side: Side, message: Message) {
    match message.data_octets() {
        0 => message.release(context.pool()),
        _ => context.put_next(side, message),
    }
}

impl Module for Tirdwr {
    fn info(&self) -> ModuleInfo {
        ModuleInfo::put_only("tirdwr")
    }

    /// Ends the connection: by a release if the peer has released, else at once.
    fn close(&mut self, context: &mut Context<'_>) {
        if self.has_ended {
            return;
        }
        let end = match self.peer_has_released {
            true => Primitive::ReleaseRequest,
            false => Primitive::disconnect_request(),
        };
        let control = context.copy(&end.octets());
        context.put_next(Side::Write, Message::proto(control, None));
    }

    fn put(&mut self, context: &mut Context<'_>, side: Side, message: Message) {
        match (side, message.kind()) {
            (_, MessageKind::Data) => pass_data(context, side, message),
            (Side::Read, MessageKind::Proto | MessageKind::HighProto) => self.up(context, message),
            // The user must not know of TPI.
            (Side::Write, MessageKind::Proto | MessageKind::HighProto) => {
                message.release(context.pool());
                fail_stream(context);
            }
            _ => context.put_next(side, message),
        }
    }
}
