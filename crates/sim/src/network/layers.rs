//! Layers of stations, and what travels with their messages.

use super::Network;
use crate::flow::MessageNotes;
use crate::station_layer::StationLayer;
use engine::{Layer, LayerMisfit, layer};
use std::rc::Rc;

impl Network {
    /// Gives `station` a layer between its engine's packets and the frames of the medium, before the
    /// first run. `make` is given the number of the station's start: 0, and one more after each crash.
    ///
    /// # Errors
    ///
    /// When the engine's packets do not fit.
    ///
    /// # Panics
    ///
    /// When there is no such station.
    pub fn set_layer(
        &mut self,
        station: usize,
        make: Rc<dyn Fn(u64) -> Box<dyn Layer>>,
    ) -> Result<(), LayerMisfit> {
        let host = &mut self.hosts[station];
        let packet_max = host.engine.protocol().properties().packet_max;
        layer::check_fit(&*make(0), packet_max, usize::MAX)?;
        host.layer = Some(Box::new(StationLayer::new(make, 0)));
        Ok(())
    }

    /// What travels with the messages that `station` sends on circuits opened from now on: for engines
    /// whose notes carry streams and tags, as messages that overtake each other are known by their tags.
    ///
    /// # Panics
    ///
    /// When there is no such station.
    pub fn set_message_notes(&mut self, station: usize, notes: MessageNotes) {
        self.hosts[station].notes = Some(notes);
    }

    /// From now on links lose packets of more than `octets`, and say nothing, unless their engine lets them be
    /// fragmented ([`engine::Fragmentation::Allowed`]); no more than that is modelled of fragments. None for links
    /// that carry any.
    pub fn set_path_mtu(&mut self, octets: Option<usize>) {
        self.path_mtu = octets;
    }
}
