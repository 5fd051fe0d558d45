//! What can go wrong with connected accounts.

use domain::account::CreatorId;
use domain::platform::Platform;

/// Every way in which the state of an account prevents a request.
#[derive(Debug, thiserror::Error)]
pub enum AccountProblem {
    /// The plan has no slot for it.
    #[error(
        "the account `{0}` is inactive: the plan has no free slot for it; switch another account of the platform off or \
         delete it, or add slots"
    )]
    Inactive(CreatorId),
    /// The customer switched it off.
    #[error(
        "the account `{0}` is switched off; switch it on with `PATCH /v1/accounts/{0}` and `{{\"state\": \"active\"}}`"
    )]
    SwitchedOff(CreatorId),
    /// It cannot be switched on: other accounts use all slots.
    #[error(
        "the account cannot be switched on: {limit} accounts may be active on {platform}, and no slot is free; {}",
        way_out(*.platform, *.is_limited, accounts)
    )]
    NoFreeSlot {
        /// The platform of the account.
        platform: Platform,
        /// The number of accounts that may be active on the platform.
        limit: i64,
        /// The active ones, as far as the caller may use them.
        accounts: Vec<CreatorId>,
        /// Whether the caller's key is limited: then it cannot change slots or the plan.
        is_limited: bool,
    },
    /// The id belongs to an account on another platform.
    #[error(
        "this creator_id is already connected on {0}; delete that account first or choose another id"
    )]
    CreatorExists(Platform),
}

/// What the caller can do to free a slot or add one.
const fn way_out(platform: Platform, is_limited: bool, accounts: &[CreatorId]) -> &'static str {
    if is_limited && accounts.is_empty() {
        "none of these accounts is this key's; a key without limits or a login can switch one off, delete one, or add a slot"
    } else if is_limited {
        "switch another one of this key's off (`PATCH /v1/accounts/{account}` with `{\"state\": \"inactive\"}`) or delete one; \
         a key without limits or a login can add a slot"
    } else if platform.sells_slots() {
        "switch another one off (`PATCH /v1/accounts/{account}` with `{\"state\": \"inactive\"}`), delete one, or add a slot \
         with `POST /v1/billing/slots`"
    } else {
        "switch another one off (`PATCH /v1/accounts/{account}` with `{\"state\": \"inactive\"}`), delete one, or choose a \
         plan with more accounts"
    }
}

impl AccountProblem {
    /// Why an inactive account is refused.
    pub fn of_inactive(creator: &CreatorId, is_switched_off: bool) -> Self {
        let creator = creator.clone();
        if is_switched_off { Self::SwitchedOff(creator) } else { Self::Inactive(creator) }
    }
}
