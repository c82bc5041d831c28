//! Grids of two loads: the cells of a contestant that differ in nothing else, where both were varied
//! together.

use super::loads::{LOADS, load_of};
use super::{Entry, View};

/// Loads of hosts and link, which one race may vary together.
const CROSSED: [(&str, &str); 3] = [LOADS[0], LOADS[1], LOADS[2]];

/// The cells of one contestant by two loads.
pub(crate) struct LoadGrid<'v> {
    /// Workload, size and other factors.
    pub title: String,
    /// The workload.
    pub workload: String,
    /// The contestant.
    pub contestant: usize,
    /// The load across: a column and a place on the x axis for each value.
    pub across: Load,
    /// The load down: a row and a line for each value.
    pub down: Load,
    cells: Vec<(f64, f64, &'v Entry<'v>)>,
}

/// A load of a grid.
pub(crate) struct Load {
    /// What it is.
    pub name: &'static str,
    /// Its values, ascending.
    pub values: Vec<f64>,
}

impl<'v> LoadGrid<'v> {
    /// The cell in a row and a column.
    pub fn entry(&self, row: usize, column: usize) -> Option<&'v Entry<'v>> {
        let (down, across) = (self.down.values[row], self.across.values[column]);
        let found = self.cells.iter();
        let mut found = found.filter(|cell| cell.0 == across && cell.1 == down);
        found.next().map(|cell| cell.2)
    }

    /// Whether it has the cell.
    pub fn has(&self, entry: &Entry) -> bool {
        self.cells.iter().any(|cell| std::ptr::eq(cell.2, entry))
    }

    /// `load on the receiving host 2`, the name of a row.
    pub fn row_label(&self, row: usize) -> String {
        format!(
            "{} {}",
            self.down.name,
            super::loads::load_text(self.down.values[row])
        )
    }

    /// Both loads differ somewhere at once: else two sweeps say it all.
    fn is_crossed(&self) -> bool {
        let inner = |cell: &&(f64, f64, &Entry)| cell.0 != 0.0 && cell.1 != 0.0;
        let several = |load: &Load| load.values.len() > 1;
        several(&self.across) && several(&self.down) && self.cells.iter().any(|cell| inner(&cell))
    }
}

impl View<'_> {
    /// The grids of each two loads of hosts and link that were crossed, in the order of the plan, a grid
    /// a contestant.
    pub fn load_grids(&self) -> Vec<LoadGrid<'_>> {
        let pairs = [(0, 1), (0, 2), (1, 2)];
        let grids = pairs
            .into_iter()
            .flat_map(|(across, down)| self.grids_of(CROSSED[across], CROSSED[down]));
        grids.filter(LoadGrid::is_crossed).collect()
    }

    fn grids_of(
        &self,
        across: (&'static str, &'static str),
        down: (&'static str, &'static str),
    ) -> Vec<LoadGrid<'_>> {
        let mut grids: Vec<LoadGrid> = Vec::new();
        let third = CROSSED
            .iter()
            .find(|load| **load != across && **load != down);
        for (_, entry) in self.entries() {
            let loads = (load_of(&entry.cell, across.0), load_of(&entry.cell, down.0));
            let (Some(column), Some(row)) = loads else {
                continue;
            };
            let other = third.and_then(|(name, _)| load_of(&entry.cell, name));
            if other.is_some_and(|load| load != 0.0) {
                continue;
            }
            let title = self.sweep_title(&entry.cell.without(across.0).without(down.0));
            let same = |grid: &LoadGrid| grid.title == title && grid.contestant == entry.contestant;
            let at = grids.iter().position(same).unwrap_or_else(|| {
                grids.push(LoadGrid {
                    workload: entry.cell.workload(),
                    contestant: entry.contestant,
                    across: Load::new(across),
                    down: Load::new(down),
                    cells: Vec::new(),
                    title,
                });
                grids.len() - 1
            });
            grids[at].across.add(column);
            grids[at].down.add(row);
            grids[at].cells.push((column, row, entry));
        }
        grids
    }
}

impl Load {
    fn new((_, name): (&str, &'static str)) -> Self {
        Self {
            name,
            values: Vec::new(),
        }
    }

    fn add(&mut self, value: f64) {
        if let Err(at) = self
            .values
            .binary_search_by(|other| other.total_cmp(&value))
        {
            self.values.insert(at, value);
        }
    }
}
