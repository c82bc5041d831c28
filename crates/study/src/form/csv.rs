//! Printed figures: a head and rows of numbers, separated by commas. An empty cell was not
//! measured.

/// A table as printed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Csv {
    /// Names of the columns.
    pub head: Vec<String>,
    /// The rows; as many cells as the head has.
    pub rows: Vec<Vec<Option<Printed>>>,
}

/// A printed figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Printed {
    /// Its value.
    pub value: f64,
    /// Digits behind the point.
    pub digits: u32,
}

/// Most rows of a table: a kernel profile has about 60.
pub const ROWS_MAX: usize = 1000;

/// Most columns of a table.
pub const COLUMNS_MAX: usize = 64;

impl Csv {
    /// Reads a table. The first column may hold names instead of numbers; rows are then numbered
    /// from 1.
    ///
    /// # Errors
    ///
    /// `line:column: what; what would be right`.
    pub fn parse(text: &str) -> Result<Csv, String> {
        let mut lines = text.lines().enumerate();
        let head: Vec<String> = match lines.next() {
            Some((_, line)) if !line.trim().is_empty() => {
                line.split(',').map(|name| name.trim().to_owned()).collect()
            }
            _ => return Err("1:1: it has no head; begin with the names of the columns".into()),
        };
        if head.len() > COLUMNS_MAX {
            return Err(format!(
                "1:1: more than {COLUMNS_MAX} columns; split the table"
            ));
        }
        let mut rows = Vec::new();
        for (line, text) in lines.filter(|(_, line)| !line.trim().is_empty()) {
            let cells: Vec<&str> = text.split(',').map(str::trim).collect();
            if cells.len() != head.len() {
                return Err(format!(
                    "{}:1: {} cells; the head has {}",
                    line + 1,
                    cells.len(),
                    head.len()
                ));
            }
            if rows.len() == ROWS_MAX {
                return Err(format!(
                    "{}:1: more than {ROWS_MAX} rows; split it",
                    line + 1
                ));
            }
            let mut row = Vec::with_capacity(cells.len());
            let mut column = 1;
            for (place, cell) in cells.iter().enumerate() {
                let figure = parse_cell(cell).or_else(|what| match place {
                    0 => Ok(Some(Printed {
                        value: rows.len() as f64 + 1.0,
                        digits: 0,
                    })),
                    _ => Err(format!("{}:{column}: {what}", line + 1)),
                });
                row.push(figure?);
                column += cell.chars().count() + 1;
            }
            rows.push(row);
        }
        Ok(Csv { head, rows })
    }

    /// The place of a column.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.head.iter().position(|head| head == name)
    }
}

fn parse_cell(cell: &str) -> Result<Option<Printed>, String> {
    if cell.is_empty() {
        return Ok(None);
    }
    let value = cell.parse::<f64>().ok().filter(|value| value.is_finite());
    let value = value.ok_or_else(|| format!("{cell:?} is no number; leave it empty if none"))?;
    let digits = cell.split_once('.').map_or(0, |(_, digits)| digits.len());
    Ok(Some(Printed {
        value,
        digits: digits.min(9) as u32,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_keeps_empty_cells_and_printed_digits() {
        let csv = Csv::parse("size,a,b\n16,0.03,\n32,1,2.5\n").expect("a table");
        assert_eq!(csv.column("b"), Some(2));
        assert_eq!(csv.rows[0][2], None);
        let printed = csv.rows[0][1].expect("a figure");
        assert_eq!((printed.value, printed.digits), (0.03, 2));
    }

    #[test]
    fn names_in_first_column_number_the_rows() {
        let csv = Csv::parse("routine,1B\nsyscall,2.91\nwrite,0.72\n").expect("a table");
        assert_eq!(csv.rows[1][0].expect("a number").value, 2.0);
    }

    #[test]
    fn wrong_cell_is_refused_with_its_place() {
        let fault = Csv::parse("a,b\n1,2\n3,x\n").expect_err("no number");
        assert!(fault.starts_with("3:3: \"x\""), "{fault}");
        let fault = Csv::parse("a,b\n1\n").expect_err("a cell is missing");
        assert!(fault.starts_with("2:1: 1 cells"), "{fault}");
        assert!(Csv::parse("").is_err() && Csv::parse("a\nNaN\n").is_ok());
        assert!(Csv::parse("a,b\n1,inf\n").is_err());
    }
}
