//! The kinds of change that make mutants.

use std::fmt;

macro_rules! operators {
    ($($(#[$doc:meta])* $variant:ident = $name:literal;)*) => {
        /// What a mutant does to its kernel.
        ///
        /// ```
        /// use cuforge_sim::mutate::Operator;
        ///
        /// assert_eq!(Operator::DropStore.to_string(), "drop-store");
        /// assert!(Operator::ALL.contains(&Operator::DropBarrier));
        /// ```
        #[derive(Clone, Copy, Debug, Eq, PartialEq, Ord, PartialOrd, Hash)]
        #[non_exhaustive]
        pub enum Operator { $($(#[$doc])* $variant,)* }

        impl Operator {
            /// Every operator, in the order that mutants of one place come in.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Its stable name, as reports and case files write it.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}

operators! {
    /// A store, reduction or unread atomic is left out.
    DropStore = "drop-store";
    /// A loaded value is replaced by zero.
    ZeroLoad = "zero-load";
    /// A block, cluster or warp barrier is left out.
    DropBarrier = "drop-barrier";
    /// A memory fence is left out.
    DropFence = "drop-fence";
    /// A wait for asynchronous copies is left out.
    DropWait = "drop-wait";
    /// A guarded branch or return is left out, so that control falls through.
    DropBranch = "drop-branch";
    /// A guard is removed, so that its instruction always runs.
    DropGuard = "drop-guard";
    /// A guard is turned round.
    NegateGuard = "negate-guard";
    /// A comparison takes in, or leaves out, the equal case: `lt` for `le`.
    ShiftBoundary = "shift-boundary";
    /// A comparison is turned round: `lt` for `ge`, `eq` for `ne`.
    NegateComparison = "negate-comparison";
    /// Two operands change places where their order matters.
    SwapOperands = "swap-operands";
    /// Two elements of a vector change places.
    SwapElements = "swap-elements";
    /// An address is off by one element.
    ShiftOffset = "shift-offset";
    /// An index is taken along another axis: `%tid.y` for `%tid.x`.
    SwapAxis = "swap-axis";
    /// A constant is changed: an integer by one, a float by half its value, infinity and zero to a finite number.
    ChangeConstant = "change-constant";
    /// A rounding mode is changed: `rz` for `rn`.
    ChangeRounding = "change-rounding";
    /// A correctly rounded operation is replaced by its approximation.
    Approximate = "approximate";
    /// A multiply-add loses its addend.
    DropAccumulation = "drop-accumulation";
    /// A sum or difference loses its second term.
    DropTerm = "drop-term";
    /// `max` for `min`, or the other way round.
    SwapExtremum = "swap-extremum";
    /// An arithmetic or logical operation is replaced by its neighbour: `sub` for `add`, `or` for `and`.
    ChangeOperation = "change-operation";
    /// A shuffle or vote is replaced by another one.
    ChangeExchange = "change-exchange";
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
