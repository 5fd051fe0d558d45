//! Dividing cents among the parts of what was sold.
#![expect(
    clippy::arithmetic_side_effects,
    reason = "cents of one invoice, in i128 where they are multiplied"
)]

/// Divides `amount` into whole cents in proportion to the weights, by largest remainder; ties go to
/// the earlier part (economics 6). If all weights are 0, the first parts get a cent each.
pub fn split(amount: i64, weights: &[i64]) -> Vec<i64> {
    let total = weights.iter().map(|weight| i128::from(*weight)).sum::<i128>().max(1);
    let exact = |weight: &i64| i128::from(amount) * i128::from(*weight);
    let whole = |weight: &i64| i64::try_from(exact(weight) / total).unwrap_or(0);
    let mut parts: Vec<i64> = weights.iter().map(whole).collect();
    let mut rest = amount - parts.iter().sum::<i64>();
    let mut by_remainder: Vec<(i128, usize)> = weights
        .iter()
        .enumerate()
        .map(|(place, weight)| (-(exact(weight) % total), place))
        .collect();
    by_remainder.sort_unstable();
    for (_, place) in by_remainder {
        if let (true, Some(part)) = (rest > 0, parts.get_mut(place)) {
            *part += 1;
            rest -= 1;
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::split;
    use proptest::prelude::*;

    #[test]
    fn of_equal_parts_the_earlier_one_gets_the_remaining_cent() {
        assert_eq!(split(1, &[50, 50]), [1, 0]);
        assert_eq!(split(100, &[1, 1, 1]), [34, 33, 33]);
        assert_eq!(split(0, &[5, 7]), [0, 0]);
    }

    proptest! {
        #[test]
        fn the_parts_sum_to_the_amount_and_none_exceeds_its_weight(
            weights in prop::collection::vec(0..1_000_000_i64, 1..6),
            share in 0.0..1.0_f64,
        ) {
            let total: i64 = weights.iter().sum();
            #[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "any amount will do")]
            let amount = (total as f64 * share) as i64;

            let parts = split(amount, &weights);

            prop_assert_eq!(parts.iter().sum::<i64>(), amount);
            prop_assert!(parts.iter().zip(&weights).all(|(part, weight)| (0..=*weight).contains(part)));
        }
    }
}
