//! `platform_delta`: UUIDs as ids, money in cents, times in RFC 3339. Access tokens have OAuth
//! scopes and every operation requires some; lists have numbered pages or a cursor.

mod agencies;
mod apps;
mod chat_lists;
mod chats;
mod creators;
mod experiences;
mod fans;
mod folders;
mod insights;
mod mass_messages;
mod media;
mod messages;
mod notifications;
mod oauth;
mod posts;
mod shapes;
mod team;
mod templates;
mod uploads;

use serde_json::json;

use crate::answer::{Answer, Refusal};
use crate::platform::{DemoAccount, IncomingRequest, MovableList, Platform, PlatformState};
use crate::routes::{PlatformRoute, Routes};
use crate::settings::PlatformSettings;
use crate::world::World;
use crate::world::series::Series;

const NAME: &str = "platform_delta";

/// The platform.
pub(crate) struct Delta {
    version: String,
}

impl Delta {
    pub(crate) fn new(settings: &PlatformSettings) -> Self {
        Self { version: settings.delta_version.clone() }
    }
}

impl Platform for Delta {
    fn name(&self) -> &'static str {
        NAME
    }

    fn list(&self, world: &World, list: MovableList, fan: u64) -> Option<(String, Series)> {
        match list {
            MovableList::Subscribers => Some(("fans".to_owned(), world.all_fans())),
            MovableList::Chats => Some((chats::CHATS.to_owned(), world.chats())),
            MovableList::Following => None,
            MovableList::ChatMessages => Some((messages::table(fan), world.messages(fan))),
        }
    }

    fn routes(&self) -> Routes {
        Routes::default()
            .group(oauth::routes)
            .group(agencies::routes)
            .group(team::routes)
            .group(apps::routes)
            .group(chats::routes)
            .group(messages::routes)
            .group(templates::routes)
            .group(mass_messages::routes)
            .group(chat_lists::routes)
            .group(creators::routes)
            .group(folders::routes)
            .group(experiences::routes)
            .group(fans::routes)
            .group(insights::routes)
            .group(media::routes)
            .group(uploads::routes)
            .group(notifications::routes)
            .group(posts::routes)
    }

    fn accounts(&self) -> Vec<DemoAccount> {
        let account = |creator: &oauth::Creator| {
            let auth = json!({
                "access_token": creator.access_token,
                "refresh_token": creator.refresh_token,
                "scopes": creator.scopes,
            });
            DemoAccount { platform: NAME, creator_id: creator.name, auth }
        };
        oauth::CREATORS.iter().map(account).collect()
    }

    fn authenticate(
        &self,
        request: &IncomingRequest<'_>,
        state: &PlatformState,
    ) -> Result<usize, Refusal> {
        let grant = oauth::grant(request, state)?;
        if request.header("x-api-version") != Some(self.version.as_str()) {
            let message = format!("X-Api-Version is not {}", self.version);
            return Err(Refusal::bad_request(message));
        }
        Ok(grant.creator)
    }

    fn authorize(
        &self,
        request: &IncomingRequest<'_>,
        state: &PlatformState,
        route: &PlatformRoute,
    ) -> Result<(), Refusal> {
        let granted = oauth::grant(request, state)?.scopes;
        let has = |scope: &&&str| granted.iter().any(|granted| granted == **scope);
        let missing: Vec<&str> = route.scopes.iter().filter(|scope| !has(scope)).copied().collect();
        if missing.is_empty() {
            return Ok(());
        }
        Err(Refusal::forbidden(format!("The token lacks the scope {}", missing.join(", "))))
    }

    /// Refusals of the token endpoint have the format of RFC 6749 section 5.2.
    fn refuse(&self, refusal: &Refusal) -> Answer {
        let body = if oauth::ERRORS.contains(&refusal.code) {
            json!({"error": refusal.code, "error_description": refusal.message})
        } else {
            json!({"error": {"code": refusal.code, "message": refusal.message}})
        };
        Answer { status: refusal.status, body: Some(body) }
    }
}
