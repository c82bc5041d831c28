//! Figures: a chart with its caption.

use crate::chart::{Plot, draw};
use serde::Serialize;

/// One chart of a page.
#[derive(Serialize)]
pub(super) struct Figure {
    caption: String,
    svg: String,
}

impl Figure {
    /// A drawn figure.
    pub fn new(caption: &str, plot: &Plot) -> Figure {
        Figure {
            caption: caption.to_owned(),
            svg: draw(plot),
        }
    }
}
