//! How errors spread: a histogram of error over bound, and where in the tensor elements disagree.

use std::fmt;

/// How many elements have an error of which size, in powers of two of their own bound.
///
/// ```
/// use cuforge_core::Element;
/// use cuforge_oracle::{Expected, Policy, compare};
/// let expected = Expected::Bounded { values: vec![1.0, 2.0], bounds: vec![0.5; 2] };
/// let got: Vec<u8> = [1.0f32, 2.25].iter().flat_map(|v| v.to_le_bytes()).collect();
/// let histogram = compare(Element::F32, &got, &expected, None, &Policy::default()).histogram;
/// assert_eq!((histogram.exact, histogram.total()), (1, 2));
/// // Half of the bound: more than a quarter, at most a half.
/// assert_eq!(histogram.buckets().find(|(_, high, _)| *high == 0.5).map(|found| found.2), Some(1));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// Elements without any error.
    pub exact: u64,
    /// Mismatches that are no matter of bounds: unwritten, not finite, other bits.
    pub unmeasured: u64,
    counts: [u64; BUCKETS],
}

const LOWEST: i32 = -12;
const HIGHEST: i32 = 12;
/// One a power of two, and what lies below and above.
const BUCKETS: usize = (HIGHEST - LOWEST + 2) as usize;

impl Histogram {
    /// Each bucket that counts elements with `low < error / bound <= high`, as `(low, high, count)`, ascending. The
    /// first starts at 0, the last ends at infinity; 1 is an edge.
    pub fn buckets(&self) -> impl Iterator<Item = (f64, f64, u64)> + '_ {
        let edge = |index: usize| match index {
            0 => 0.0,
            index if index == BUCKETS => f64::INFINITY,
            index => f64::from(LOWEST + index as i32 - 1).exp2(),
        };
        self.counts.iter().enumerate().map(move |(index, count)| (edge(index), edge(index + 1), *count))
    }

    /// All elements.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.exact + self.unmeasured + self.counts.iter().sum::<u64>()
    }

    pub(crate) fn add(&mut self, ratio: f64) {
        if ratio == 0.0 {
            self.exact += 1;
        } else if ratio.is_finite() {
            let power = ratio.log2().ceil();
            let index = (power - f64::from(LOWEST)).clamp(0.0, (BUCKETS - 1) as f64);
            self.counts[index as usize] += 1;
        } else {
            self.unmeasured += 1;
        }
    }
}

/// Where in a tensor elements disagree: a coarse picture of it, at most 64 cells wide and 24 high.
///
/// A buffer without a stated row width is laid out as rows of equal length, so that the picture reads like a page.
///
/// ```
/// use cuforge_core::Element;
/// use cuforge_oracle::{Expected, Policy, compare};
/// let (right, wrong) = (vec![0; 4 * 1000], [&[0; 4 * 990][..], &[1; 40]].concat());
/// let map = compare(Element::U32, &wrong, &Expected::Exact(right), None, &Policy::default()).map;
/// assert_eq!(map.mismatches(map.rows() - 1, map.columns() - 1), map.elements(map.rows() - 1, map.columns() - 1));
/// assert_eq!(map.mismatches(0, 0), 0);
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct HeatMap {
    row_elements: u64,
    tensor_rows: u64,
    columns: usize,
    cells: Vec<Cell>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cell {
    elements: u64,
    mismatches: u64,
}

const MOST_COLUMNS: u64 = 64;
const MOST_ROWS: u64 = 24;

impl fmt::Debug for HeatMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mismatches: u64 = self.cells.iter().map(|cell| cell.mismatches).sum();
        f.debug_struct("HeatMap")
            .field("rows", &self.rows())
            .field("columns", &self.columns)
            .field("mismatches", &mismatches)
            .finish_non_exhaustive()
    }
}

impl HeatMap {
    pub(crate) fn new(elements: u64, row_elements: Option<u64>) -> Self {
        // A power of two, so that blocks and warps stand in columns.
        let page = elements.div_ceil(MOST_ROWS).max(MOST_COLUMNS.min(elements)).next_power_of_two();
        let row_elements = row_elements.filter(|width| *width > 0).unwrap_or(page).max(1);
        let tensor_rows = elements.div_ceil(row_elements);
        let columns = row_elements.min(MOST_COLUMNS) as usize;
        let rows = tensor_rows.min(MOST_ROWS) as usize;
        Self { row_elements, tensor_rows, columns, cells: vec![Cell::default(); rows * columns] }
    }

    /// Elements in a row of the tensor.
    #[must_use]
    pub const fn row_elements(&self) -> u64 {
        self.row_elements
    }

    /// Rows of the tensor.
    #[must_use]
    pub const fn tensor_rows(&self) -> u64 {
        self.tensor_rows
    }

    /// Cells from left to right.
    #[must_use]
    pub const fn columns(&self) -> usize {
        self.columns
    }

    /// Cells from top to bottom.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.cells.len().checked_div(self.columns).unwrap_or(0)
    }

    /// Elements that do not agree in a cell; 0 outside of the picture.
    #[must_use]
    pub fn mismatches(&self, row: usize, column: usize) -> u64 {
        self.cell(row, column).mismatches
    }

    /// Elements of a cell; 0 outside of the picture.
    #[must_use]
    pub fn elements(&self, row: usize, column: usize) -> u64 {
        self.cell(row, column).elements
    }

    fn cell(&self, row: usize, column: usize) -> Cell {
        let inside = column < self.columns;
        self.cells.get(row * self.columns + column).copied().filter(|_| inside).unwrap_or_default()
    }

    pub(crate) fn add(&mut self, index: u64, disagrees: bool) {
        let (row, column) = (index / self.row_elements, index % self.row_elements);
        let rows = self.rows() as u64;
        let down = u128::from(row) * u128::from(rows) / u128::from(self.tensor_rows.max(1));
        let across = u128::from(column) * self.columns as u128 / u128::from(self.row_elements);
        // Elements in excess of what was expected have no place of their own.
        let place = (down as usize).min(self.rows().saturating_sub(1)) * self.columns + across as usize;
        if let Some(cell) = self.cells.get_mut(place) {
            cell.elements += 1;
            cell.mismatches += u64::from(disagrees);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_of_one_is_the_last_that_lies_within_and_every_ratio_has_one_bucket() {
        let mut histogram = Histogram::default();
        let ratios = [1e-300, 0.2, 0.25, 0.9, 1.0, 1.0 + f64::EPSILON, 2.0, 5000.0, f64::MAX];
        ratios.iter().for_each(|ratio| histogram.add(*ratio));
        histogram.add(0.0);
        histogram.add(f64::INFINITY);
        let within: u64 =
            histogram.buckets().filter(|(_, high, _)| *high <= 1.0).map(|bucket| bucket.2).sum();
        assert_eq!((histogram.exact, histogram.unmeasured, within), (1, 1, 5));
        for (low, high, count) in histogram.buckets() {
            let inside = ratios.iter().filter(|ratio| **ratio > low && **ratio <= high).count() as u64;
            assert_eq!(count, inside, "{low}..{high}");
        }
        assert_eq!(histogram.total(), 11);
    }

    #[test]
    fn every_element_of_a_tensor_lies_in_one_cell_of_its_picture() {
        for (elements, width) in [(0, None), (1, None), (63, None), (100_000, None), (1023 * 7, Some(1023))] {
            let mut map = HeatMap::new(elements, width);
            (0..elements).for_each(|index| map.add(index, index % 3 == 0));
            assert!(map.columns() <= 64 && map.rows() <= 24);
            let cells =
                || (0..map.rows()).flat_map(|row| (0..map.columns()).map(move |column| (row, column)));
            assert_eq!(cells().map(|(row, column)| map.elements(row, column)).sum::<u64>(), elements);
            let third = cells().map(|(row, column)| map.mismatches(row, column)).sum::<u64>();
            assert_eq!(third, elements.div_ceil(3));
        }
    }

    #[test]
    fn a_wrong_column_of_a_matrix_is_a_column_of_its_picture() {
        let mut map = HeatMap::new(48 * 128, Some(128));
        (0..48 * 128).for_each(|index| map.add(index, index % 128 == 127));
        for row in 0..map.rows() {
            for column in 0..map.columns() {
                assert_eq!(map.mismatches(row, column), if column == 63 { 2 } else { 0 });
            }
        }
    }
}
