//! `platform_beta`: digits in text as ids, money in mills (thousandths of a dollar), times in epoch
//! milliseconds. Responses have an envelope, requests are signed, and lists page with `limit` and
//! `offset` or with `before` and `after` ids.

mod account;
mod account_media;
mod chatroom;
mod follows;
mod gift_codes;
mod ignore;
mod lists;
mod media;
mod messages;
mod offers;
mod people;
mod permissions;
mod posts;
mod search;
mod security;
mod shapes;
mod signing;
mod stories;
mod subscriptions;
mod tiers;
mod timeline;
mod two_factor;
mod uploads;
mod vault;
mod wallets;
mod walls;

use serde_json::{Value, json};

use self::signing::Signatures;
use crate::answer::{Answer, Refusal};
use crate::platform::{self, DemoAccount, IncomingRequest, MovableList, Platform, PlatformState};
use crate::routes::Routes;
use crate::settings::PlatformSettings;
use crate::world::World;
use crate::world::series::Series;

const NAME: &str = "platform_beta";

/// The creators, by number: the name to connect under and the token.
const CREATORS: [(&str, &str); platform::CREATORS] = [
    ("demo_beta", "beta-token-demo-7ac2f1"),
    ("nova_beta", "beta-token-nova-0d95be"),
    ("ruby_beta", "beta-token-ruby-e4137c"),
    ("fresh_beta", "beta-token-fresh-58f06a"),
];

/// The platform, with the nonces of the requests that it has seen.
pub(crate) struct Beta {
    signatures: Signatures,
}

impl Beta {
    pub(crate) fn new(settings: &PlatformSettings) -> Self {
        Self { signatures: Signatures::new(settings) }
    }
}

impl Platform for Beta {
    fn name(&self) -> &'static str {
        NAME
    }

    fn base(&self) -> &'static str {
        "/api/v1/"
    }

    fn list(&self, world: &World, list: MovableList, _: u64) -> Option<(String, Series)> {
        match list {
            MovableList::Subscribers => Some(("subscribers".to_owned(), world.all_fans())),
            MovableList::Chats => Some(("groups".to_owned(), world.chats())),
            MovableList::Following => Some((follows::FOLLOWING.to_owned(), world.following())),
            MovableList::ChatMessages => None,
        }
    }

    fn routes(&self) -> Routes {
        Routes::default()
            .group(account::routes)
            .group(ignore::routes)
            .group(account_media::routes)
            .group(search::routes)
            .group(wallets::routes)
            .group(security::routes)
            .group(two_factor::routes)
            .group(lists::routes)
            .group(subscriptions::routes)
            .group(tiers::routes)
            .group(gift_codes::routes)
            .group(follows::routes)
            .group(chatroom::routes)
            .group(messages::routes)
            .group(timeline::routes)
            .group(permissions::routes)
            .group(walls::routes)
            .group(posts::routes)
            .group(stories::routes)
            .group(media::routes)
            .group(offers::routes)
            .group(uploads::routes)
            .group(vault::routes)
    }

    fn accounts(&self) -> Vec<DemoAccount> {
        let account = |(creator_id, token): (&'static str, &str)| {
            let device_id = format!("device-{creator_id}");
            let auth = json!({"token": token, "device_id": device_id});
            DemoAccount { platform: NAME, creator_id, auth }
        };
        CREATORS.into_iter().map(account).collect()
    }

    fn authenticate(
        &self,
        request: &IncomingRequest<'_>,
        _state: &PlatformState,
    ) -> Result<usize, Refusal> {
        let token = request.header("authorization").unwrap_or_default();
        let creator = CREATORS.iter().position(|(_, known)| *known == token);
        let creator = creator.ok_or_else(|| Refusal::unauthorized("The token is not valid"))?;
        self.signatures.check(request)?;
        Ok(creator)
    }

    fn dress(&self, answer: Answer) -> Answer {
        let response = answer.body.unwrap_or(Value::Null);
        let body = json!({"success": true, "response": response});
        Answer { status: answer.status, body: Some(body) }
    }

    fn refuse(&self, refusal: &Refusal) -> Answer {
        let error = json!({"code": refusal.code, "details": refusal.message});
        let body = json!({"success": false, "error": error});
        Answer { status: refusal.status, body: Some(body) }
    }
}
