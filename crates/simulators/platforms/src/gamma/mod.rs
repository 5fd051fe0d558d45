//! `platform_gamma`: 24 hexadecimal digits as ids, integer minor units with a currency field, plain
//! arrays that page with `limit` and `offset`; a page shorter than its limit is the last.

mod chats;
mod comments;
mod discover;
mod file_stacks;
mod follows;
mod lists;
mod mass_messages;
mod messages;
mod money;
mod profile;
mod shapes;
mod subscribers;
mod tiers;
mod uploads;

use serde_json::json;

use crate::answer::{Answer, Refusal};
use crate::platform::{self, DemoAccount, IncomingRequest, MovableList, Platform, PlatformState};
use crate::routes::Routes;
use crate::world::World;
use crate::world::ids::{Kind, hex24};
use crate::world::series::Series;

/// The creators, by number: the name to connect under, the token and the resource.
const CREATORS: [(&str, &str, &str); platform::CREATORS] = [
    ("demo_gamma", "gamma-token-demo-77d0a4", "resource-demo"),
    ("nova_gamma", "gamma-token-nova-1b39c6", "resource-nova"),
    ("ruby_gamma", "gamma-token-ruby-e52f08", "resource-ruby"),
    ("fresh_gamma", "gamma-token-fresh-4ac91d", "resource-fresh"),
];

/// The platform; it needs no settings.
pub(crate) struct Gamma;

impl Platform for Gamma {
    fn name(&self) -> &'static str {
        "platform_gamma"
    }

    fn list(&self, world: &World, list: MovableList, fan: u64) -> Option<(String, Series)> {
        match list {
            MovableList::Subscribers => Some(("subscriptions".to_owned(), world.all_fans())),
            MovableList::Chats => Some((chats::CHATS.to_owned(), world.chats())),
            MovableList::Following => Some((follows::FOLLOWING.to_owned(), world.following())),
            MovableList::ChatMessages => Some((messages::chat_table(fan), world.messages(fan))),
        }
    }

    fn routes(&self) -> Routes {
        Routes::default()
            .group(profile::routes)
            .group(discover::routes)
            .group(subscribers::routes)
            .group(tiers::routes)
            .group(money::routes)
            .group(chats::routes)
            .group(messages::routes)
            .group(mass_messages::routes)
            .group(lists::routes)
            .group(follows::routes)
            .group(file_stacks::routes)
            .group(comments::routes)
            .group(uploads::routes)
    }

    fn accounts(&self) -> Vec<DemoAccount> {
        let account = |(creator, (creator_id, token, resource)): (usize, (&'static str, _, _))| {
            let account_id = hex24(Kind::Creator, creator as u64, 0);
            let (token, resource): (&str, &str) = (token, resource);
            let auth = json!({"token": token, "resource": resource, "account_id": account_id});
            DemoAccount { platform: self.name(), creator_id, auth }
        };
        CREATORS.into_iter().enumerate().map(account).collect()
    }

    fn authenticate(
        &self,
        request: &IncomingRequest<'_>,
        _state: &PlatformState,
    ) -> Result<usize, Refusal> {
        let sent = request.header("authorization").and_then(|value| value.strip_prefix("Bearer "));
        let resource = request.header("x-resource");
        let matches =
            |known: &(&str, &str, &str)| sent == Some(known.1) && resource == Some(known.2);
        let creator = CREATORS.iter().position(matches);
        creator.ok_or_else(|| Refusal::unauthorized("Token or resource is not valid"))
    }

    fn refuse(&self, refusal: &Refusal) -> Answer {
        let body = json!({
            "statusCode": refusal.status.as_u16(),
            "error": refusal.code,
            "message": refusal.message,
        });
        Answer { status: refusal.status, body: Some(body) }
    }
}
