//! What nodes remember of the database for a while, as those see it who change the database.

use domain::account::CreatorId;
use domain::id::CustomerId;

/// Forgets what was remembered. A service that changes a key or an account says so after the commit, so that this node acts on the
/// change immediately; other nodes hear of it from the database.
pub trait CachedEntries: Send + Sync {
    /// An account was changed, or is gone.
    fn forget_account(&self, customer: CustomerId, creator: &CreatorId);
    /// Keys of the customer were changed, or are gone.
    fn forget_keys_of(&self, customer: CustomerId);
}
