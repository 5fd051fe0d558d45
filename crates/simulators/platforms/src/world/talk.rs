//! Chats and their messages. A fan has at most one chat with the creator, identified by the fan's
//! index.

use super::series::Series;
use super::words::{CREATOR_LINES, FAN_LINES};
use super::{MINUTE_MS, World, signed};

const CHAT: u64 = 20;
const MESSAGE: u64 = 21;
const MASS_MESSAGE: u64 = 22;

/// The distance between the message indexes of adjacent fans.
const MESSAGES_MAX: u64 = 1000;

/// The age difference of adjacent messages, apart from a jitter smaller than it.
const AGE_STEP_MS: i64 = 10 * MINUTE_MS;

/// A conversation between the creator and one fan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chat {
    /// The number of messages, at least 1.
    pub(crate) messages: u64,
    /// The number of newest messages, all from the fan, that the creator has not read.
    pub(crate) unread: u64,
    pub(crate) last_message_at_ms: i64,
}

/// One message of a chat.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message {
    pub(crate) from_fan: bool,
    pub(crate) text: &'static str,
    pub(crate) sent_at_ms: i64,
    /// If above 0, the message must be paid for to be opened.
    pub(crate) price_cents: i64,
    pub(crate) paid: bool,
    /// The index of the attached media, if there is one.
    pub(crate) media: Option<u64>,
    /// A tip that came with the message.
    pub(crate) tip_cents: i64,
}

/// A message sent to many fans.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MassMessage {
    pub(crate) index: u64,
    pub(crate) text: &'static str,
    pub(crate) sent_at_ms: i64,
    pub(crate) price_cents: i64,
    pub(crate) sent: u64,
    pub(crate) viewed: u64,
    /// The fans who bought it; empty if it was free.
    pub(crate) buyers: Series,
}

impl World {
    /// The fans with a chat, those with the newest message first.
    pub(crate) fn chats(&self) -> Series {
        Series::of(self.fans, 3, &[0, 1])
    }

    /// The chat with this fan, who must be one of [`World::chats`].
    pub(crate) fn chat(&self, fan: u64) -> Chat {
        let mut random = self.random(CHAT, fan);
        let talked_ms = self.chat_time_ms(fan) - self.subscribed_at_ms(fan);
        let fitting = (talked_ms / (2 * AGE_STEP_MS)).max(1).unsigned_abs();
        let messages = random.between(3, 60).min(fitting);
        let unread = if fan.is_multiple_of(4) { random.between(1, 3).min(messages) } else { 0 };
        Chat { messages, unread, last_message_at_ms: self.chat_time_ms(fan) }
    }

    /// The messages of a chat: always fewer than `MESSAGES_MAX`.
    pub(crate) fn messages(&self, fan: u64) -> Series {
        Series::all(self.chat(fan).messages)
    }

    /// The message at this position of the chat with this fan; 0 is the newest.
    pub(crate) fn message(&self, fan: u64, place: u64) -> Message {
        let index = message_index(fan, place);
        let mut random = self.random(MESSAGE, index);
        let from_fan = place < self.chat(fan).unread || random.in_percent(45);
        let priced = !from_fan && random.in_percent(20);
        let with_media = priced || random.in_percent(15);
        let sent_at_ms = self.chat_time_ms(fan) - self.age_in_chat_ms(fan, place);
        Message {
            from_fan,
            text: random.pick(if from_fan { FAN_LINES } else { CREATOR_LINES }),
            sent_at_ms,
            price_cents: if priced { signed(random.between(3, 30)) * 100 } else { 0 },
            paid: priced && random.in_percent(40),
            media: with_media.then(|| self.medium_before(sent_at_ms, random.draw())),
            tip_cents: if from_fan && random.in_percent(8) { 500 } else { 0 },
        }
    }

    /// The chats with unread messages in the generated world.
    pub(crate) fn unread_chats(&self) -> Series {
        Series::of(self.fans, 12, &[0, 4])
    }

    /// Messages sent to many fans, newest first.
    pub(crate) fn mass_messages(&self) -> Series {
        Series::all(self.unless_empty(12))
    }

    /// The mass message with this index.
    pub(crate) fn mass_message(&self, index: u64) -> MassMessage {
        let mut random = self.random(MASS_MESSAGE, index);
        let sent = self.active_fans().count();
        let priced = random.in_percent(60);
        MassMessage {
            index,
            text: random.pick(CREATOR_LINES),
            sent_at_ms: self.time_ms(MASS_MESSAGE, index, 4 * super::DAY_MS),
            price_cents: if priced { signed(random.between(3, 25)) * 100 } else { 0 },
            sent,
            viewed: sent * random.between(40, 90) / 100,
            buyers: Series::of(if priced { self.fans } else { 0 }, 10, &[1, 3]),
        }
    }

    /// The last message of each chat is older than that of the chat before it.
    fn chat_time_ms(&self, fan: u64) -> i64 {
        self.time_ms(CHAT, fan, (self.fan_step_ms() / 2).max(2))
    }

    /// Steps of ten minutes, each with a jitter smaller than itself, keep a strict order.
    fn age_in_chat_ms(&self, fan: u64, place: u64) -> i64 {
        if place == 0 {
            return 0;
        }
        let jitter = self.random(MESSAGE, message_index(fan, place)).below(9 * 60_000);
        signed(place) * AGE_STEP_MS + signed(jitter)
    }
}

/// The index of a message: unique among all messages of a creator.
pub(crate) fn message_index(fan: u64, place: u64) -> u64 {
    fan * MESSAGES_MAX + place
}

/// The fan and the position of a generated message.
pub(crate) fn fan_and_place(message_index: u64) -> (u64, u64) {
    (message_index / MESSAGES_MAX, message_index % MESSAGES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_times_decrease_from_the_newest() {
        let world = World::new(1, 0, 240);
        for fan in (0..world.chats().count()).filter_map(|nth| world.chats().at(nth)) {
            let chat = world.chat(fan);
            assert_eq!(world.message(fan, 0).sent_at_ms, chat.last_message_at_ms);
            for place in 1..chat.messages {
                let (newer, older) = (world.message(fan, place - 1), world.message(fan, place));
                assert!(older.sent_at_ms < newer.sent_at_ms);
            }
            assert_eq!(chat.unread > 0, world.unread_chats().place_of(fan).is_some());
        }
    }

    #[test]
    fn messages_follow_the_subscription_and_refer_to_existing_media() {
        for fans in [9, 240] {
            let world = World::new(1, 0, fans);
            for fan in (0..world.chats().count()).filter_map(|nth| world.chats().at(nth)) {
                let chat = world.chat(fan);
                assert!(chat.messages > 0);
                for place in 0..chat.messages {
                    let message = world.message(fan, place);
                    assert!(message.sent_at_ms > world.fan(fan).subscribed_at_ms, "fan {fan}");
                    let medium = message.media.map(|medium| world.medium(medium).created_at_ms);
                    assert!(medium.is_none_or(|created_at_ms| created_at_ms < message.sent_at_ms));
                }
            }
        }
    }

    #[test]
    fn a_message_index_is_reversible() {
        assert_eq!(fan_and_place(message_index(4_999_999, 59)), (4_999_999, 59));
    }
}
