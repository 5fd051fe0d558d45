//! Parts of amounts, in whole cents.

/// A part of an amount, to the nearest cent; half a cent is rounded up. A negative part counts as
/// 0.
pub(super) fn share(amount: i64, part: i64, of: i64) -> i64 {
    let (amount, part, of) = (i128::from(amount), i128::from(part.max(0)), i128::from(of));
    i64::try_from((amount * part * 2 + of) / (of * 2)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn a_share_is_rounded_to_the_nearest_cent() {
        assert_eq!(share(1000, 15, 30), 500);
        assert_eq!(share(999, 1, 2), 500);
        assert_eq!(share(1000, 1, 3), 333);
        assert_eq!(share(1000, 30, 30), 1000);
        assert_eq!(share(1000, -5, 30), 0);
    }
}
