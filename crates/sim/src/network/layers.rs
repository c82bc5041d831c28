//! Layers of stations.

use super::Network;
use crate::station_layer::StationLayer;
use engine::{Layer, LayerMisfit, layer};
use std::rc::Rc;

impl Network {
    /// Gives `station` a layer between its engine's packets and the frames of the medium, before the
    /// first run. `make` is called again after each crash.
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
        make: Rc<dyn Fn() -> Box<dyn Layer>>,
    ) -> Result<(), LayerMisfit> {
        let host = &mut self.hosts[station];
        let packet_max = host.engine.protocol().properties().packet_max;
        layer::check_fit(&*make(), packet_max, usize::MAX)?;
        host.layer = Some(Box::new(StationLayer::new(make)));
        Ok(())
    }
}
