//! Own addresses of an association that come and go (RFC 5061).

use super::association::Association;
use engine::{AssociationId, CommandError, LocalAddress};
use engine_sctp::Sctp;
use std::io;
use std::net::IpAddr;

impl Association {
    /// Gives the association an address of its endpoint that it lost before. It is a source and a
    /// destination of packets once the peer has agreed, which a notice tells.
    ///
    /// # Errors
    ///
    /// `InvalidInput` when the peer cannot or option `addresses` is fixed, the endpoint is not bound to the
    /// address or the association has it, or four requests wait.
    pub fn add_address(&mut self, address: IpAddr) -> io::Result<()> {
        self.change_address(address, Sctp::add_address)
    }

    /// Takes an address from the association: no packets leave from it any more. A notice tells when the
    /// peer has agreed. Errors are those of [`Association::add_address`]; also for the last address.
    pub fn delete_address(&mut self, address: IpAddr) -> io::Result<()> {
        self.change_address(address, Sctp::delete_address)
    }

    /// Asks the peer to prefer an address of this end for what it sends.
    /// Errors are those of [`Association::add_address`], but the association must have the address.
    pub fn request_peer_primary(&mut self, address: IpAddr) -> io::Result<()> {
        self.change_address(address, Sctp::request_peer_primary)
    }

    fn change_address(
        &mut self,
        address: IpAddr,
        change: impl FnOnce(
            &mut Sctp,
            engine::Instant,
            AssociationId,
            LocalAddress,
        ) -> Result<(), CommandError>,
    ) -> io::Result<()> {
        let id = self.circuit.id();
        let mut done = false;
        if let Some(index) = self.local_index(address) {
            self.circuit
                .command(|engine, now| done = change(engine, now, id, index).is_ok())?;
        }
        if done {
            return Ok(());
        }
        let text = format!(
            "{address} cannot be changed: the addresses of the association are fixed (give \
             addresses=dynamic,auth=on at both ends), the endpoint is not bound to it, it is the last \
             one, it is known already, or four requests wait"
        );
        Err(io::Error::new(io::ErrorKind::InvalidInput, text))
    }
}
