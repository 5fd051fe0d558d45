//! Media that are offered for a price, and where: each offer stands in one post.

use serde_json::{Value, json};

use super::account_media::{account_media, generated_price};
use super::posts;
use super::shapes::{Collection, Who, account_id, id, list_of};
use crate::platform::answer::Outcome;
use crate::platform::call::Call;
use crate::platform::routes::Routes;
use crate::shelf::Shelf;
use crate::world::ids::Kind;
use crate::world::series::Series;

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .get("mediaoffers/mediaoffers", offers)
        .get("mediaoffers/location", locations)
        .get("mediaoffers/location/deleted", deleted_locations)
}

/// The media with a price, under the same index.
fn collection(call: &Call<'_>) -> Collection<'static> {
    let series = Series::of(call.world.media().count(), 5, &[1]);
    Collection { table: "offers", series, kind: Kind::Offer }
}

fn post_of(call: &Call<'_>, offer: u64) -> u64 {
    offer % call.world.posts().count().max(1)
}

fn offers(call: &Call<'_>, shelf: &Shelf) -> Outcome {
    collection(call).list(call, shelf, "mediaOffers", |offer| {
        json!({
            "id": id(call, Kind::Offer, offer),
            "accountId": account_id(call, Who::Creator),
            "accountMediaId": id(call, Kind::AccountMedia, offer),
            "accountMedia": account_media(call, shelf, offer),
            "price": generated_price(offer),
            "status": "active",
        })
    })
}

fn rows(call: &Call<'_>, shelf: &Shelf, keep: impl Fn(bool) -> bool) -> Vec<Value> {
    let posts = call.world.posts();
    let stands = |offer: u64| shelf.holds(posts::POSTS, posts, post_of(call, offer));
    let offers = collection(call).all(shelf).into_iter();
    let row = |offer: u64| {
        json!({
            "id": id(call, Kind::Location, offer),
            "mediaOfferId": id(call, Kind::Offer, offer),
            "type": "post",
            "postId": id(call, Kind::Post, post_of(call, offer)),
        })
    };
    offers.filter(|offer| keep(stands(*offer))).map(row).collect()
}

fn locations(call: &Call<'_>, shelf: &Shelf) -> Outcome {
    list_of(call, "locations", rows(call, shelf, |stands| stands), |row| row)
}

/// Where the post has been deleted.
fn deleted_locations(call: &Call<'_>, shelf: &Shelf) -> Outcome {
    list_of(call, "locations", rows(call, shelf, |stands| !stands), |row| row)
}
