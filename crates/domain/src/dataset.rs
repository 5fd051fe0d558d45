//! What can be exported of an account.

use crate::wire::text_enum;

text_enum! {
    /// A kind of rows that an export holds (specification 2.4). Which of them a platform has is catalogue data.
    DatasetName,
    "one of subscribers, subscriptions, transactions, chats, following, chat_messages"
    {
        /// Those who subscribed to the creator.
        Subscribers = "subscribers",
        /// What the creator itself is subscribed to.
        Subscriptions = "subscriptions",
        /// Payments to the creator.
        Transactions = "transactions",
        /// Conversations, without what is said in them.
        Chats = "chats",
        /// Whom the creator follows.
        Following = "following",
        /// What was said in one conversation.
        ChatMessages = "chat_messages",
    }
}
