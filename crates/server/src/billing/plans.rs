//! Plans: what the configuration offers, and what it gives for accounts.

use std::collections::BTreeMap;

use domain::slot::{Accounts, Allowances};

use crate::config::Config;

/// How many accounts customers have for good, and what each plan adds.
pub(crate) fn allowances(config: &Config) -> Allowances {
    let included = Accounts::each(|platform| config.slots.included_on(platform));
    Allowances { included, plans: BTreeMap::new() }
}
