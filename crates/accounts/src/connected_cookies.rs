//! The cookies of an account that is being connected: those that its identity check was sent, and
//! those that the same account at the platform had before.

use domain::account::CreatorId;
use domain::id::CustomerId;
use domain::platform::Platform;
use failures::Failure;
use platform_client::{AccountHeaders, CookieSet};
use runtime::SealedValue;
use runtime::vault::VaultError;
use store::account_cookies::{self, NewCookies, StoredCookies};

use crate::AccountsState;
use crate::sealed_credentials;

/// An account that its platform has confirmed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConfirmedAccount<'a> {
    pub(crate) customer: CustomerId,
    pub(crate) platform: Platform,
    pub(crate) creator: &'a CreatorId,
    /// The platform's id of it, if it told one.
    pub(crate) platform_account_id: &'a str,
    /// The headers of its requests.
    pub(crate) headers: &'a AccountHeaders,
}

/// The cookies to be stored with an account: those that the platform has just set, after those that
/// it set before for the same account. If the platform does not say that it is the same, the
/// earlier ones are dropped. So are those that the new credentials bring themselves, which are
/// newer.
pub(crate) async fn of(
    accounts: &AccountsState,
    account: ConfirmedAccount<'_>,
    received: &CookieSet,
) -> Result<NewCookies, Failure> {
    let ConfirmedAccount { customer, platform, creator, .. } = account;
    let now = accounts.clock.now();
    let earlier = earlier(accounts, account).await?;
    let continued = earlier.as_ref().map(|(stored, _)| stored.jar);
    let id = match continued {
        Some(jar) => jar.id,
        // Above zero, as a number in every language can be.
        None => i64::from_be_bytes(accounts.random.bytes()) & i64::MAX,
    };
    let cookies = match &earlier {
        Some((_, kept)) => kept.without(&account.headers.cookie_names(), now).merged(received, now),
        None => received.clone(),
    };
    let place = sealed_credentials::cookie_place((customer, platform, creator), id);
    let SealedValue { data_key, sealed } =
        accounts.vault.seal(customer, &place, &cookies.to_json()).await?;
    Ok(NewCookies { continued, id, sealed, data_key })
}

/// The cookies that are stored for the same account at the platform.
async fn earlier(
    accounts: &AccountsState,
    account: ConfirmedAccount<'_>,
) -> Result<Option<(StoredCookies, CookieSet)>, Failure> {
    let ConfirmedAccount { customer, platform, creator, .. } = account;
    let known = store::accounts::find(&accounts.store, customer, creator).await?;
    let is_same = known.is_some_and(|known| {
        let id = &known.platform_account_id;
        !id.is_empty() && known.platform == platform && id == account.platform_account_id
    });
    if !is_same {
        return Ok(None);
    }
    let Some(stored) = account_cookies::find(&accounts.store, customer, creator).await? else {
        return Ok(None);
    };
    let owner = (customer, platform, creator);
    match sealed_credentials::open_cookies(&accounts.vault, owner, &stored).await {
        Ok(opened) => Ok(Some((stored, opened.value))),
        Err(VaultError::Store(error)) => Err(error.into()),
        // Connecting again is what makes the account usable, so it starts without them.
        Err(error) => {
            tracing::error!(%error, customer.id = %customer, account = creator.as_str(), "an account's cookies could not be opened");
            Ok(None)
        }
    }
}
