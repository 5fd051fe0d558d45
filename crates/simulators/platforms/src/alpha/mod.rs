//! `platform_alpha`: digits as ids, dollars with decimals, lists as
//! `{"list": […], "hasMore": bool}` with `limit` and `offset`; messages page with `before_id`.

mod account;
mod campaigns;
mod chats;
mod gifs;
mod lists;
mod messages;
mod payouts;
mod posts;
mod queue;
mod shapes;
mod statistics;
mod stories;
mod users;
mod vault;

use serde_json::json;

use crate::answer::{Answer, Refusal};
use crate::platform::{self, DemoAccount, IncomingRequest, MovableList, Platform, PlatformState};
use crate::routes::{PlatformRoute, Routes};
use crate::world::World;
use crate::world::ids::{Kind, number};
use crate::world::series::Series;

/// The creators, by number: the name to connect under and the session token.
const CREATORS: [(&str, &str); platform::CREATORS] = [
    ("demo_alpha", "alpha-session-demo-5f1c27"),
    ("nova_alpha", "alpha-session-nova-91be04"),
    ("ruby_alpha", "alpha-session-ruby-c83d5a"),
    ("fresh_alpha", "alpha-session-fresh-20e7f6"),
];

/// The platform; it needs no settings.
pub(crate) struct Alpha;

impl Platform for Alpha {
    fn name(&self) -> &'static str {
        "platform_alpha"
    }

    fn list(&self, world: &World, list: MovableList, fan: u64) -> Option<(String, Series)> {
        match list {
            MovableList::Subscribers => Some(("fans".to_owned(), world.all_fans())),
            MovableList::Chats => Some((chats::CHATS.to_owned(), world.chats())),
            MovableList::Following => None,
            MovableList::ChatMessages => Some((messages::chat_table(fan), world.messages(fan))),
        }
    }

    fn routes(&self) -> Routes {
        Routes::default()
            .group(account::routes)
            .group(statistics::routes)
            .group(payouts::routes)
            .group(users::routes)
            .group(chats::routes)
            .group(messages::routes)
            .group(queue::routes)
            .group(posts::routes)
            .group(stories::routes)
            .group(lists::routes)
            .group(vault::routes)
            .group(campaigns::routes)
            .group(gifs::routes)
    }

    fn accounts(&self) -> Vec<DemoAccount> {
        let account = |(creator, (creator_id, session_token)): (usize, (&'static str, &str))| {
            let user_id = number(Kind::Creator, creator as u64, 0).to_string();
            let user_agent = "Mozilla/5.0 (X11; Linux x86_64) Demo/1.0";
            let auth = json!({
                "user_id": user_id,
                "session_token": session_token,
                "user_agent": user_agent,
            });
            DemoAccount { platform: self.name(), creator_id, auth }
        };
        CREATORS.into_iter().enumerate().map(account).collect()
    }

    fn authenticate(
        &self,
        request: &IncomingRequest<'_>,
        _state: &PlatformState,
    ) -> Result<usize, Refusal> {
        let refused = || Refusal::unauthorized("Please refresh the page");
        let sent = request.header("authorization").and_then(|value| value.strip_prefix("Session "));
        let token = sent.ok_or_else(refused)?;
        let creator = CREATORS.iter().position(|(_, known)| *known == token).ok_or_else(refused)?;
        let user_id = number(Kind::Creator, creator as u64, 0).to_string();
        let same_user = request.header("x-user-id") == Some(user_id.as_str());
        let browser = request.header("user-agent").is_some_and(|agent| !agent.trim().is_empty());
        if same_user && browser { Ok(creator) } else { Err(refused()) }
    }

    fn authorize(
        &self,
        _: &IncomingRequest<'_>,
        _: &PlatformState,
        _: &PlatformRoute,
    ) -> Result<(), Refusal> {
        Ok(())
    }

    fn refuse(&self, refusal: &Refusal) -> Answer {
        let code = refusal.status.as_u16();
        let body = json!({"error": {"code": code, "message": refusal.message}});
        Answer { status: refusal.status, body: Some(body) }
    }
}
