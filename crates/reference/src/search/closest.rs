//! Which titles are most like what was typed.

/// How many are offered.
const OFFERED: usize = 3;

/// The places of the titles that are most like a text, the most alike first. Both are in lower
/// case.
pub(super) fn places<'t>(text: &str, titles: impl Iterator<Item = &'t str>) -> Vec<usize> {
    let mut alike: Vec<(f64, usize)> =
        titles.enumerate().map(|(place, title)| (likeness(text, title), place)).collect();
    alike.sort_by(|one, other| other.0.total_cmp(&one.0));
    alike.into_iter().take(OFFERED).map(|(_, place)| place).collect()
}

/// From 0 to 1: how alike the text is to the title, or to one of its words.
fn likeness(text: &str, title: &str) -> f64 {
    let whole = strsim::sorensen_dice(text, title);
    let words = title.split([' ', '_', '/', '-']).filter(|word| word.len() > 2);
    let best = words.map(|word| strsim::sorensen_dice(text, word)).fold(0.0, f64::max);
    // A title that is alike as a whole is better than one of which a word is.
    whole.max(best * 0.9)
}
