//! Lists in pages: `limit` rows, and `next_before` where there are more.

/// Cuts rows to a page. Returns whether there are more.
pub(crate) fn cut<T>(rows: &mut Vec<T>, limit: usize) -> bool {
    let has_more = rows.len() > limit;
    rows.truncate(limit);
    has_more
}
