//! A written expression, and how tightly it binds.

use std::fmt;

/// How tightly an expression binds, loosest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// Comparisons, bit operations, `? :`: always in parentheses inside another expression.
    Loose,
    /// Sums and differences.
    Sum,
    /// Products, quotients.
    Product,
    /// A sign or a cast in front.
    Prefix,
    /// A name, a call, a member, an element.
    Primary,
}

/// A written expression.
#[derive(Clone, Debug)]
pub(crate) struct Rendered {
    pub(crate) text: String,
    pub(crate) level: Level,
}

impl Rendered {
    pub(crate) fn new(text: impl Into<String>, level: Level) -> Self {
        Self { text: text.into(), level }
    }

    pub(crate) fn primary(text: impl Into<String>) -> Self {
        Self::new(text, Level::Primary)
    }

    /// In parentheses unless it binds at least as tightly as `level`.
    pub(crate) fn at_least(&self, level: Level) -> String {
        if self.level >= level { self.text.clone() } else { format!("({})", self.text) }
    }

    /// `left op right`, which associates to the left.
    pub(crate) fn infix(left: &Self, operator: &str, right: &Self, level: Level) -> Self {
        let above = match level {
            Level::Sum => Level::Product,
            Level::Product => Level::Prefix,
            _ => Level::Sum,
        };
        // Of loose operators none is nested in another without parentheses, whatever C++ would read.
        let left_level = if level == Level::Loose { Level::Sum } else { level };
        Self::new(format!("{} {operator} {}", left.at_least(left_level), right.at_least(above)), level)
    }
}

impl fmt::Display for Rendered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parentheses_stand_only_where_the_order_needs_them() {
        let [a, b, c] = ["a", "b", "c"].map(Rendered::primary);
        let sum = Rendered::infix(&a, "+", &b, Level::Sum);
        let product = Rendered::infix(&a, "*", &b, Level::Product);
        assert_eq!(Rendered::infix(&product, "+", &c, Level::Sum).text, "a * b + c");
        assert_eq!(Rendered::infix(&sum, "*", &c, Level::Product).text, "(a + b) * c");
        assert_eq!(Rendered::infix(&c, "-", &sum, Level::Sum).text, "c - (a + b)");
        assert_eq!(Rendered::infix(&sum, "-", &c, Level::Sum).text, "a + b - c");
        let less = Rendered::infix(&sum, "<", &c, Level::Loose);
        assert_eq!(less.text, "a + b < c");
        assert_eq!(Rendered::infix(&less, "&", &less, Level::Loose).text, "(a + b < c) & (a + b < c)");
    }
}
