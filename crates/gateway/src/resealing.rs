//! Seals again, with the stored name of its platform, what earlier versions sealed with the wire
//! name of a renamed platform. It happens when the account is read, so that the name can change
//! later. What could not be stored now is tried again at the next reading.

use accounts::sealed_credentials::{self, SealOwner};
use platform_client::CookieSet;
use runtime::sealing::DataKey;
use store::StoreError;
use store::account_cookies::{self, CookieUpdate, JarVersion, StoredCookies};
use store::accounts::Account;

use crate::state::SharedGateway;

/// Why sealing again failed.
#[derive(Debug, thiserror::Error)]
enum ResealError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("it could not be sealed")]
    Sealing,
}

/// Seals the account's credentials again if that is due.
pub(crate) async fn credentials(gateway: &SharedGateway, account: &Account, key: &DataKey) {
    if !sealed_credentials::is_renamed(account.platform) {
        return;
    }
    if let Err(error) = reseal_credentials(gateway, account, key).await {
        let (customer, account) = (account.customer, account.creator_id.as_str());
        tracing::warn!(%error, customer.id = %customer, account, "an account's credentials could not be sealed again");
    }
}

async fn reseal_credentials(
    gateway: &SharedGateway,
    account: &Account,
    key: &DataKey,
) -> Result<(), ResealError> {
    let owner = (account.customer, account.platform, &account.creator_id);
    let opened = sealed_credentials::open(key, owner, &account.credentials.sealed);
    let Some(opened) = opened.filter(|opened| opened.is_under_wire_name) else { return Ok(()) };
    let place = sealed_credentials::place(owner);
    let sealed = key.seal(&opened.value.to_json(), &place, &gateway.random);
    let sealed = sealed.ok_or(ResealError::Sealing)?;
    // Otherwise other credentials were stored meanwhile.
    store::accounts::reseal(&gateway.store, account, &sealed).await?;
    Ok(())
}

/// Seals these cookies of the account again, and returns the version that is stored then.
pub(crate) async fn cookies(
    gateway: &SharedGateway,
    owner: SealOwner<'_>,
    stored: &StoredCookies,
    cookies: &CookieSet,
) -> JarVersion {
    match reseal_cookies(gateway, owner, stored, cookies).await {
        Ok(true) => JarVersion { version: stored.jar.version + 1, ..stored.jar },
        // Others were stored meanwhile; the next update notices it.
        Ok(false) => stored.jar,
        Err(error) => {
            let (customer, account) = (owner.0, owner.2.as_str());
            tracing::warn!(%error, customer.id = %customer, account, "an account's cookies could not be sealed again");
            stored.jar
        }
    }
}

async fn reseal_cookies(
    gateway: &SharedGateway,
    owner: SealOwner<'_>,
    stored: &StoredCookies,
    cookies: &CookieSet,
) -> Result<bool, ResealError> {
    let key = gateway.vault.find(stored.data_key).await.map_err(|_| ResealError::Sealing)?;
    let place = sealed_credentials::cookie_place(owner, stored.jar.id);
    let sealed = key.seal(&cookies.to_json(), &place, &gateway.random);
    let update = CookieUpdate {
        customer: owner.0,
        creator: owner.2.clone(),
        jar: stored.jar,
        sealed: sealed.ok_or(ResealError::Sealing)?,
        data_key: stored.data_key,
        is_news: false,
    };
    let now = gateway.clock.now();
    Ok(account_cookies::update_all(&gateway.store, &[update], now).await? == [true])
}
