//! The payment processor, asked over a socket the way a server asks it.

mod checkout;
mod events;
mod intents;
mod kit;
mod money_back;
mod portal;
mod subscriptions;
mod time;
mod wire;
