//! Finds accounts by name.

use serde_json::{Value, json};

use super::people::account;
use super::shapes::{AccountRef, limit, list_of};
use crate::answer::{Answer, Outcome, Refusal};
use crate::call::PlatformCall;
use crate::overlay::Overlay;
use crate::routes::Routes;
use crate::world::people::PEERS;

/// The number of newest fans that a search covers; older ones are found only by their complete
/// username.
const FANS_SEARCHED_MAX: u64 = 5000;

pub(super) fn routes(routes: Routes) -> Routes {
    routes.get("account/search", search).get("account/searchnew", search_new)
}

/// The account with exactly this username.
pub(super) fn by_username(
    call: &PlatformCall<'_>,
    overlay: &Overlay,
    username: &str,
) -> Option<AccountRef> {
    let own = super::account::own(call, overlay);
    if own.get("username").and_then(Value::as_str) == Some(username) {
        return Some(AccountRef::Creator);
    }
    let peer = (0..PEERS).find(|peer| call.world.peer(*peer).username == username);
    peer.map(AccountRef::Peer).or_else(|| fan_by_username(call, username).map(AccountRef::Fan))
}

/// A fan's username ends in the number of the fan.
fn fan_by_username(call: &PlatformCall<'_>, username: &str) -> Option<u64> {
    let name = username.trim_end_matches(|letter: char| letter.is_ascii_digit());
    let digits = username.get(name.len()..)?;
    let ends = (0..digits.len()).filter_map(|start| digits.get(start..)?.parse::<u64>().ok());
    let mut fans = ends.filter(|fan| *fan < call.world.fans);
    fans.find(|fan| call.world.fan(*fan).username == username)
}

fn found(call: &PlatformCall<'_>, overlay: &Overlay) -> Result<Vec<AccountRef>, Refusal> {
    let wanted = call.query("query").or_else(|| call.query("search")).unwrap_or_default();
    let wanted = wanted.trim().to_lowercase();
    if wanted.is_empty() {
        return Err(Refusal::bad_request("query is required"));
    }
    let has = |name: &str, username: &str| {
        username.contains(&wanted) || name.to_lowercase().contains(&wanted)
    };
    let peers = (0..PEERS).filter(|peer| {
        let peer = call.world.peer(*peer);
        has(&peer.name, &peer.username)
    });
    let fans = (0..call.world.fans.min(FANS_SEARCHED_MAX)).filter(|fan| {
        let fan = call.world.fan(*fan);
        has(&fan.name, &fan.username)
    });
    let mut all: Vec<AccountRef> =
        peers.map(AccountRef::Peer).chain(fans.map(AccountRef::Fan)).collect();
    if let Some(exact) = by_username(call, overlay, &wanted).filter(|exact| !all.contains(exact)) {
        all.insert(0, exact);
    }
    Ok(all)
}

/// The first matches, as a plain list.
fn search(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let limit = limit(call)?;
    let limit = usize::try_from(limit).unwrap_or(0);
    let found = found(call, overlay)?;
    let rows = found.into_iter().take(limit).map(|who| account(call, overlay, who));
    Ok(Answer::ok(rows.collect()))
}

/// All matches, in pages, each with its type.
fn search_new(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let row = |who| json!({"type": "account", "account": account(call, overlay, who)});
    list_of(call, "results", found(call, overlay)?, row)
}
