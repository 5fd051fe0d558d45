//! The caches of what nodes have read from the database, as the services that change the database
//! see them.

use domain::account::CreatorId;
use domain::id::CustomerId;

/// Removes cached entries. A service that changes a key or an account calls it after the commit, so
/// that this node applies the change immediately; other nodes are notified through the database.
pub trait CachedEntries: Send + Sync {
    /// An account was changed or deleted.
    fn forget_account(&self, customer: CustomerId, creator: &CreatorId);
    /// Keys of the customer were changed or deleted.
    fn forget_keys_of(&self, customer: CustomerId);
}
