//! The passwords that attackers guess first. The list and its source are in `common.txt`.

use std::collections::HashSet;
use std::sync::LazyLock;

/// Lower case, each at least as long as the shortest accepted password.
static COMMON: LazyLock<HashSet<&'static str>> = LazyLock::new(|| {
    let lines = include_str!("common.txt").lines();
    lines.filter(|line| !line.starts_with('#')).collect()
});

/// Whether a password is on the list, ignoring letter case.
pub fn contains(password: &str) -> bool {
    COMMON.contains(password.to_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_has_ten_thousand_passwords_of_an_accepted_length() {
        assert_eq!(COMMON.len(), 10_000);
        for password in COMMON.iter() {
            assert!(crate::customer::password_length_fits(password), "{password}");
            assert_eq!(password.to_lowercase(), **password);
            assert_eq!(password.trim(), *password);
        }
    }
}
