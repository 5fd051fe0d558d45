//! Credits: what calls and exports cost. Whole numbers that never wrap silently, never floats.

/// An amount of credits, or a change of one.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Default,
    serde::Serialize,
    serde::Deserialize,
)]
#[serde(transparent)]
pub struct Credits(i64);

impl Credits {
    /// No credits.
    pub const ZERO: Self = Self(0);

    /// An amount in whole credits.
    pub const fn from_whole(whole: i64) -> Self {
        Self(whole)
    }

    /// The number of whole credits.
    pub const fn whole(self) -> i64 {
        self.0
    }

    /// The sum, or `None` if it overflows.
    pub const fn checked_add(self, other: Self) -> Option<Self> {
        match self.0.checked_add(other.0) {
            Some(sum) => Some(Self(sum)),
            None => None,
        }
    }

    /// The difference, or `None` if it overflows.
    pub const fn checked_sub(self, other: Self) -> Option<Self> {
        match self.0.checked_sub(other.0) {
            Some(difference) => Some(Self(difference)),
            None => None,
        }
    }
}

impl std::fmt::Display for Credits {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(formatter)
    }
}

/// The cost of metered work (specification 8; configurable by the operator).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MeteringCosts {
    /// A native GET.
    pub read: Credits,
    /// Any other native method, and the upload.
    pub write: Credits,
    /// The creation of an export job.
    pub export: Credits,
}

impl MeteringCosts {
    /// The cost of one native request with this method.
    pub const fn of(&self, method: crate::method::Method) -> Credits {
        if method.is_read() { self.read } else { self.write }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::method::Method;

    #[test]
    fn a_read_costs_less_than_a_write() {
        let costs = MeteringCosts {
            read: Credits::from_whole(1),
            write: Credits::from_whole(2),
            export: Credits::from_whole(10),
        };

        for method in Method::ALL {
            let expected = if *method == Method::Get { 1 } else { 2 };
            assert_eq!(costs.of(*method).whole(), expected, "{method}");
        }
    }

    #[test]
    fn sums_that_overflow_are_none() {
        assert_eq!(Credits::from_whole(i64::MAX).checked_add(Credits::from_whole(1)), None);
        assert_eq!(Credits::from_whole(i64::MIN).checked_sub(Credits::from_whole(1)), None);
    }
}
