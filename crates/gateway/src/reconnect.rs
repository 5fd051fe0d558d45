//! A platform's 401: the credentials are checked again before the account is marked.
//!
//! An account is marked `reconnect_needed` only if no fresh token is available, or the fresh token
//! is refused too, and the identity check refuses the newest credentials. A 403 never marks one.
//! When a platform refuses accounts of several customers within a minute, the platform is marked,
//! and of its accounts only those whose own refresh token is dead. Calls are still sent, and the
//! first that succeeds clears the mark. While a platform refuses more accounts than usual, none is
//! marked either.

use std::sync::Arc;

use accounts::platform_health;
use domain::account::AccountState;
use domain::time::Timestamp;
use platform_client::{CredentialVerdict, PresentedAccount, SigningInput, verify};
use store::platform_health::{CredentialRefusal, RefusalCause, RefusalOutcome, RefusalRule};

use super::account_entry::AccountEntry;
use super::{pacing, refresh};
use crate::state::GatewayState;

/// Records that a call with the account's credentials succeeded, and clears the marks that say
/// otherwise.
pub(super) fn note_success(gateway: &GatewayState, account: &Arc<AccountEntry>, at: Timestamp) {
    platform_health::note_success(gateway.accounts(), account.platform, at);
    if account.state == AccountState::ReconnectNeeded && account.health.begins_unmark(account) {
        gateway.tasks.spawn_control(Box::pin(unmark(gateway.clone(), Arc::clone(account))));
    }
}

/// Checks the credentials in the background after a call was refused: one check of an account at a
/// time, and not again within `CHECK_EVERY_S`.
pub(super) fn confirm_in_background(gateway: &GatewayState, account: &Arc<AccountEntry>) {
    if account.state == AccountState::ReconnectNeeded {
        return;
    }
    let Some(cause) = refresh::refusal_cause(account) else { return };
    let is_refusing = gateway.accounts().platform_health.refusing_since(account.platform).is_some();
    // A platform that refuses every account says nothing about this one; a dead refresh token does.
    if is_refusing && cause != RefusalCause::RefreshToken {
        return;
    }
    if account.health.begins_check(gateway.clock.now()) {
        gateway.calls().spawn(Box::pin(confirm(gateway.clone(), Arc::clone(account))));
    }
}

/// Counts that the token endpoint refused this service while refreshing an expired token. Without a
/// token there is nothing to check the account with.
pub(super) fn note_endpoint_refusal(gateway: &GatewayState, account: &Arc<AccountEntry>) {
    if account.health.begins_check(gateway.clock.now()) {
        let (gateway, account) = (gateway.clone(), Arc::clone(account));
        gateway.tasks.clone().spawn_control(async move {
            refused(&gateway, &account, RefusalCause::TokenEndpoint).await;
        });
    }
}

async fn confirm(gateway: GatewayState, account: Arc<AccountEntry>) {
    let Ok(_single) = account.health.checking.try_lock() else { return };
    // The newest credentials count, not those that the call used.
    let Ok(current) = refresh::reread(&gateway, &account).await else { return };
    let (Ok(target), Ok(credentials)) =
        (gateway.accounts().target(current.platform), current.credentials())
    else {
        return;
    };
    let signing = SigningInput { now: gateway.clock.now(), nonce: gateway.random.bytes() };
    let cookies = current.cookies();
    let presented = PresentedAccount { credentials: &credentials, cookies };
    pacing::charge_own(&gateway, &current, target.verifies_by_read());
    match verify::verify(&gateway.accounts().upstream, target, presented, signing).await {
        Ok(CredentialVerdict::Refused { status: 401 } | CredentialVerdict::Mismatch) => {
            if let Some(cause) = refresh::refusal_cause(&current) {
                refused(&gateway, &current, cause).await;
            }
        }
        Ok(CredentialVerdict::Confirmed { .. }) => {
            note_success(&gateway, &current, gateway.clock.now());
        }
        Ok(CredentialVerdict::Refused { .. }) | Err(_) => {}
    }
}

/// Marks the account, unless it has changed in the meantime or the platform refuses every account,
/// or more than usual.
async fn refused(gateway: &GatewayState, account: &AccountEntry, cause: RefusalCause) {
    let health = &gateway.accounts().platform_health;
    let is_drift = || health.refuses_unusually_many(account.platform);
    let cause = match cause {
        RefusalCause::Unknown if is_drift() => RefusalCause::PlatformDrift,
        cause => cause,
    };
    let refusal = CredentialRefusal {
        platform: account.platform,
        customer: account.customer,
        creator: account.creator.clone(),
        version: account.version,
        at: gateway.clock.now(),
        cause,
        last_success_at: health.last_success_at(account.platform),
    };
    let section = &gateway.config.platform_refusals;
    let rule = RefusalRule {
        accounts: section.accounts_min,
        customers: section.customers_min,
        within_s: section.window_s,
    };
    let store = gateway.store.clone();
    let record =
        async move { store::platform_health::record_refusal(&store, &refusal, rule).await };
    match gateway.tasks.on_control(record).await {
        Ok(Ok(RefusalOutcome::AccountMarked)) => {
            gateway.cache.forget_account(account.customer, &account.creator);
            tracing::info!(
                customer.id = %account.customer,
                account = account.creator.as_str(),
                "the platform refused the account's credentials; the customer must connect it again"
            );
            // The drift may have been noticed while the mark was written.
            if cause == RefusalCause::Unknown && is_drift() {
                let since = gateway.clock.now().plus_seconds(-rule.within_s);
                platform_health::unmark(gateway.accounts().clone(), account.platform, since).await;
            }
        }
        Ok(Ok(RefusalOutcome::PlatformRefusing { since, unmarked })) => {
            for (customer, creator) in &unmarked {
                gateway.cache.forget_account(*customer, creator);
            }
            health.set_refusing(account.platform, Some(since));
        }
        Ok(Ok(RefusalOutcome::AccountChanged | RefusalOutcome::Counted)) | Err(_) => {}
        Ok(Err(error)) => tracing::warn!(%error, "a refusal of credentials could not be recorded"),
    }
}

/// Clears the mark, unless the account has changed in the meantime.
async fn unmark(gateway: GatewayState, account: Arc<AccountEntry>) {
    let (customer, creator, version) = (account.customer, &account.creator, account.version);
    let state = AccountState::Active;
    match store::accounts::set_state(&gateway.store, customer, creator, version, state).await {
        Ok(Some(_)) => {
            gateway.cache.forget_account(customer, creator);
            let name = creator.as_str();
            tracing::info!(customer.id = %customer, account = name, "the account's credentials work again");
        }
        Ok(None) => gateway.cache.forget_account(customer, creator),
        Err(error) => {
            account.health.unmark_failed();
            tracing::warn!(%error, "the `reconnect_needed` mark of an account could not be cleared");
        }
    }
}
