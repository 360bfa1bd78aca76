//! A bounded cache of graphs by the shape that they were captured for, and buckets of shapes to pad to.

use crate::error::LaunchError;
use crate::graph::replay::Graph;
use std::fmt;

/// Executable graphs by key, the least recently used given up first.
///
/// A hash never decides: keys are compared. Finding a graph makes no driver call and no allocation. A graph that is given
/// up while it runs is dropped as any other: at once, its memory held until it is done.
///
/// ```
/// use cuforge_launch::{Buckets, Graph, GraphCache, LaunchError, Stream};
/// fn step(
///     cache: &mut GraphCache<u64>,
///     buckets: &Buckets,
///     rows: u64,
///     stream: &mut Stream,
///     capture: impl FnOnce(&mut Stream, u64) -> Result<Graph, LaunchError>,
/// ) -> Result<(), LaunchError> {
///     let padded = buckets.pick(rows).unwrap_or(rows);
///     cache.find_or_make(padded, |rows| capture(&mut *stream, *rows))?.replay(stream)
/// }
/// ```
pub struct GraphCache<K> {
    most: usize,
    /// Least recently used first.
    entries: Vec<(K, Graph)>,
    hits: u64,
    misses: u64,
}

impl<K: Eq> GraphCache<K> {
    /// For at most `most` graphs (at least 1).
    pub fn new(most: usize) -> Self {
        let most = most.max(1);
        Self { most, entries: Vec::with_capacity(most.min(1024)), hits: 0, misses: 0 }
    }

    /// The graph of that key, made where there is none; the least recently used one makes room for it.
    ///
    /// # Errors
    /// Those of `make`; the cache is as it was then.
    pub fn find_or_make(
        &mut self,
        key: K,
        make: impl FnOnce(&K) -> Result<Graph, LaunchError>,
    ) -> Result<&mut Graph, LaunchError> {
        match self.entries.iter().position(|(known, _)| *known == key) {
            Some(at) => {
                self.hits += 1;
                self.entries[at..].rotate_left(1);
            }
            None => {
                let graph = make(&key)?;
                self.misses += 1;
                if self.entries.len() == self.most {
                    self.entries.remove(0);
                }
                self.entries.push((key, graph));
            }
        }
        let newest = self.entries.len() - 1;
        Ok(&mut self.entries[newest].1)
    }

    /// The graph of that key, if it is there; it counts as used.
    pub fn find(&mut self, key: &K) -> Option<&mut Graph> {
        let at = self.entries.iter().position(|(known, _)| known == key)?;
        self.hits += 1;
        self.entries[at..].rotate_left(1);
        self.entries.last_mut().map(|(_, graph)| graph)
    }

    /// Gives up the graph of that key; the graph.
    pub fn remove(&mut self, key: &K) -> Option<Graph> {
        let at = self.entries.iter().position(|(known, _)| known == key)?;
        Some(self.entries.remove(at).1)
    }

    /// How many graphs it holds.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Requests that found their graph, and requests that made one.
    pub fn hits_and_misses(&self) -> (u64, u64) {
        (self.hits, self.misses)
    }
}

impl<K> fmt::Debug for GraphCache<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GraphCache")
            .field("graphs", &self.entries.len())
            .field("most", &self.most)
            .field("hits", &self.hits)
            .field("misses", &self.misses)
            .finish()
    }
}

/// Sizes that graphs are captured for; any other size is padded to the next of them.
///
/// ```
/// use cuforge_launch::Buckets;
/// let buckets = Buckets::powers_of_two(48);
/// assert_eq!([1, 3, 32, 33, 48].map(|n| buckets.pick(n)), [1, 4, 32, 48, 48].map(Some));
/// assert_eq!(buckets.pick(49), None);
/// assert_eq!(Buckets::new([8, 1, 8]).sizes(), [1, 8]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buckets {
    sizes: Vec<u64>,
}

impl Buckets {
    /// These sizes, in any order.
    pub fn new(sizes: impl IntoIterator<Item = u64>) -> Self {
        let mut sizes: Vec<u64> = sizes.into_iter().collect();
        sizes.sort_unstable();
        sizes.dedup();
        Self { sizes }
    }

    /// The powers of two below `most`, and `most`.
    pub fn powers_of_two(most: u64) -> Self {
        let powers = (0..u64::BITS).map(|n| 1 << n).take_while(|size| *size < most);
        Self::new(powers.chain([most]))
    }

    /// The least size that holds `n`; `None` where none does.
    pub fn pick(&self, n: u64) -> Option<u64> {
        let at = self.sizes.partition_point(|size| *size < n);
        self.sizes.get(at).copied()
    }

    /// The sizes, in ascending order.
    pub fn sizes(&self) -> &[u64] {
        &self.sizes
    }
}
