//! Media offered for a price, and their locations: the posts that have them attached.

use serde_json::{Value, json};

use super::account_media::{self, account_media, generated_price};
use super::posts;
use super::shapes::{AccountRef, Collection, account_id, id, index_of, list_of};
use crate::answer::Outcome;
use crate::call::PlatformCall;
use crate::overlay::Overlay;
use crate::routes::Routes;
use crate::world::ids::{CREATED, Kind};
use crate::world::series::Series;

const OFFERS: &str = "offers";
/// The most numbered attachments of a post.
const PLACES: u64 = 1000;
/// The first number of attachments in posts that were created while running.
const MADE_PLACES: u64 = 7_000_000_000;

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .get("mediaoffers/mediaoffers", offers)
        .get("mediaoffers/location", locations)
        .get("mediaoffers/location/deleted", deleted_locations)
}

/// The account media with a price, under the same indexes.
fn collection(call: &PlatformCall<'_>) -> Collection<'static> {
    let series = Series::of(call.world.media().count(), 5, &[1]);
    Collection { table: OFFERS, series, kind: Kind::Offer }
}

/// Offers the account medium at its new price, or stops offering it if it has none.
pub(super) fn set_price(
    call: &PlatformCall<'_>,
    overlay: &mut Overlay,
    account_medium: u64,
    price: i64,
) {
    if price == 0 {
        overlay.take(OFFERS, account_medium);
    } else {
        overlay.put_new(OFFERS, collection(call).series, account_medium);
    }
}

fn offers(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    collection(call).list(call, overlay, "mediaOffers", |offer| {
        let offered = account_media(call, overlay, offer);
        let generated = || json!(generated_price(offer));
        json!({
            "id": id(call, Kind::Offer, offer),
            "accountId": account_id(call, AccountRef::Creator),
            "accountMediaId": id(call, Kind::AccountMedia, offer),
            "price": offered.get("price").cloned().unwrap_or_else(generated),
            "status": "active",
            "accountMedia": offered,
        })
    })
}

/// The attachments of posts that are offered: a row for each.
fn rows(
    call: &PlatformCall<'_>,
    overlay: &Overlay,
    in_posts: impl Iterator<Item = u64>,
) -> Vec<Value> {
    let row = |post: u64, place: u64, attached: &str| {
        let offer = index_of(call, account_media::collection(call).kind, attached)?;
        if !overlay.holds(OFFERS, collection(call).series, offer) {
            return None;
        }
        let first =
            post.checked_sub(CREATED).map_or(post * PLACES, |made| MADE_PLACES + made * PLACES);
        Some(json!({
            "id": id(call, Kind::Location, first + place),
            "mediaOfferId": id(call, Kind::Offer, offer),
            "type": "post",
            "postId": id(call, Kind::Post, post),
        }))
    };
    let of_post = |post: u64| {
        let attached = posts::attached(call, overlay, post);
        let rows: Vec<Value> =
            (0..PLACES).zip(&attached).filter_map(|(place, id)| row(post, place, id)).collect();
        rows
    };
    in_posts.flat_map(of_post).collect()
}

fn locations(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let posts = posts::collection(call).all(overlay).into_iter();
    list_of(call, "locations", rows(call, overlay, posts), |row| row)
}

/// Attachments of deleted posts.
fn deleted_locations(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let posts = posts::DELETED.all(overlay).into_iter();
    list_of(call, "locations", rows(call, overlay, posts), |row| row)
}
