//! The words that names and texts are composed of.

pub(crate) const FIRST_NAMES: &[&str] = &[
    "Ava", "Ben", "Cleo", "Dario", "Elif", "Finn", "Greta", "Hugo", "Ines", "Jonas", "Kaia",
    "Leon", "Mila", "Nico", "Olga", "Pablo", "Quinn", "Rosa", "Sami", "Tara", "Umar", "Vera",
    "Wim", "Xenia", "Yuki", "Zoé",
];

pub(crate) const LAST_NAMES: &[&str] = &[
    "Adler",
    "Bianchi",
    "Castro",
    "Dvořák",
    "Evans",
    "Fischer",
    "Garcia",
    "Holm",
    "Ito",
    "Jansen",
    "Kowalski",
    "Lindqvist",
    "Moreau",
    "Novak",
    "Okafor",
    "Petrov",
    "Rossi",
    "Silva",
    "Tanaka",
    "Weber",
];

pub(crate) const COUNTRIES: &[&str] =
    &["US", "GB", "DE", "FR", "ES", "IT", "NL", "PL", "SE", "BR", "CA", "JP"];

pub(crate) const FAN_LINES: &[&str] = &[
    "Loved the last video!",
    "When is the next live?",
    "Hi, just subscribed, happy to be here",
    "Could you do more of the kitchen series?",
    "Thank you, that made my day",
    "Is the bundle still on offer?",
    "Good morning from the coast ☀️",
    "That photo is wonderful",
    "How was the trip?",
    "=SUM(1,2) is my favourite formula, sorry, long day at work",
];

pub(crate) const CREATOR_LINES: &[&str] = &[
    "Thank you so much for being here!",
    "New set tomorrow, stay tuned",
    "You asked for it, here it is",
    "The live starts at eight",
    "Made this one just for you",
    "Answering all messages tonight",
    "Which of the two do you like more?",
    "Back from the trip, with many pictures",
];

pub(crate) const POST_LINES: &[&str] = &[
    "Behind the scenes of last week",
    "A quiet morning",
    "Studio day",
    "New hair, who dis",
    "Sunset by the harbour",
    "Rehearsal, take four",
    "The long version is in the vault",
    "Thank you for a wonderful year",
];

pub(crate) const COMMENT_LINES: &[&str] = &[
    "Beautiful",
    "More of this please",
    "Where is that?",
    "❤️",
    "Best one so far",
    "Can't wait for the next",
    "So good, \"really\", so good",
];

pub(crate) const LIST_NAMES: &[&str] =
    &["Regulars", "Big spenders", "New this month", "Birthday wishes", "Early supporters"];

pub(crate) const CAMPAIGN_NAMES: &[&str] =
    &["Spring", "Podcast", "Newsletter", "Photo blog", "Friends", "Summer tour"];

pub(crate) const FOLDER_NAMES: &[&str] = &["Photos", "Videos", "Teasers", "Archive"];

pub(crate) const TEMPLATES: &[&str] = &[
    "Welcome! Tell me what brought you here.",
    "Thank you for renewing, you are a star.",
    "We missed you. Here is something to come back for.",
    "The new set is out now.",
];
