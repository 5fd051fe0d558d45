//! The datasets of an account that can be exported.

use crate::wire::text_enum;

text_enum! {
    /// The kind of rows in an export (specification 2.4). The catalogue says which of them a
    /// platform has.
    DatasetName,
    "one of subscribers, subscriptions, transactions, chats, following, chat_messages"
    {
        /// The creator's subscribers.
        Subscribers = "subscribers",
        /// The creator's own subscriptions.
        Subscriptions = "subscriptions",
        /// Payments to the creator.
        Transactions = "transactions",
        /// Conversations, without their messages.
        Chats = "chats",
        /// Those whom the creator follows.
        Following = "following",
        /// The messages of one conversation.
        ChatMessages = "chat_messages",
    }
}
