//! A platform's 401: the credentials are checked once more before the account is marked.
//!
//! Only a 401 that the identity check confirms marks an account `reconnect_needed`; a 403 never does. Calls
//! still go through afterwards; a new import mends it.

use std::sync::Arc;

use clients::platform::{SigningInput, Verification, verify};
use domain::account::AccountState;

use super::accounts::AccountEntry;
use crate::app::App;

/// Checks the credentials beside the call that was refused; one check of an account at a time.
pub(super) fn confirm_in_background(app: &App, account: &Arc<AccountEntry>) {
    if account.state == AccountState::ReconnectNeeded {
        return;
    }
    let task = confirm(app.clone(), Arc::clone(account));
    app.calls().spawn(Box::pin(task));
}

async fn confirm(app: App, account: Arc<AccountEntry>) {
    let Ok(_single) = account.health.mending.try_lock() else { return };
    let (Ok(target), Ok(credentials)) = (app.target(account.platform), account.credentials())
    else {
        return;
    };
    let signing = SigningInput { now: app.clock.now(), nonce: app.random.bytes() };
    match verify::verify(app.upstream(), target, &credentials, signing).await {
        Ok(Verification::Refused { status: 401 } | Verification::Mismatch) => {
            mark(&app, &account).await;
        }
        Ok(Verification::Confirmed { .. } | Verification::Refused { .. }) | Err(_) => {}
    }
}

/// Marks the account, unless it changed in the meantime.
pub(super) async fn mark(app: &App, account: &AccountEntry) {
    let store = app.store.clone();
    let (customer, creator, version) = (account.customer, account.creator.clone(), account.version);
    let change = async move {
        let state = AccountState::ReconnectNeeded;
        store::accounts::set_state(&store, customer, &creator, version, state).await
    };
    match app.tasks.on_control(change).await {
        Ok(Ok(_)) => {
            app.cache.forget_account(account.customer, &account.creator);
            tracing::info!(
                customer.id = %account.customer,
                account = account.creator.as_str(),
                "the platform refused the account's credentials; it must be connected again"
            );
        }
        Ok(Err(error)) => tracing::warn!(%error, "an account could not be marked for reconnection"),
        Err(_) => {}
    }
}
