//! The console around every page: the sidebar, the credits, the person, the message from before.

use std::ops::Deref;

use pages::PageFrame;

use crate::flash::FlashMessage;

/// Where in the console a page belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConsoleSection {
    /// What is left, what fails.
    Overview,
    /// The log of calls.
    Calls,
    /// Routes, to be tried.
    Explorer,
    /// Connected accounts.
    Accounts,
    /// Lists as files.
    Exports,
    /// API keys.
    Keys,
    /// Credits, plans and slots.
    Billing,
    /// Name, email, password, sessions.
    Settings,
    /// Who did what.
    Audit,
    /// For staff.
    Support,
}

/// A link of the sidebar.
pub struct NavLink {
    /// Where it leads, as the page there names itself.
    pub section: ConsoleSection,
    /// The address.
    pub path: &'static str,
    /// The name of its icon.
    pub icon: &'static str,
    /// Its word.
    pub word: &'static str,
}

/// A group of links.
pub struct NavGroup {
    /// Its heading; empty for the first group.
    pub heading: &'static str,
    /// The links, in order.
    pub links: &'static [NavLink],
}

const fn link(
    section: ConsoleSection,
    path: &'static str,
    icon: &'static str,
    word: &'static str,
) -> NavLink {
    NavLink { section, path, icon, word }
}

/// The sidebar.
pub const NAVIGATION: &[NavGroup] = &[
    NavGroup {
        heading: "",
        links: &[
            link(ConsoleSection::Overview, "/console", "overview", "Overview"),
            link(ConsoleSection::Calls, "/console/calls", "calls", "Calls"),
            link(ConsoleSection::Explorer, "/console/explorer", "explorer", "Route explorer"),
        ],
    },
    NavGroup {
        heading: "Data",
        links: &[
            link(ConsoleSection::Accounts, "/console/accounts", "accounts", "Accounts"),
            link(ConsoleSection::Exports, "/console/exports", "exports", "Exports"),
        ],
    },
    NavGroup {
        heading: "Manage",
        links: &[
            link(ConsoleSection::Keys, "/console/keys", "keys", "API keys"),
            link(ConsoleSection::Billing, "/console/billing", "billing", "Billing"),
            link(ConsoleSection::Settings, "/console/settings", "settings", "Settings"),
            link(ConsoleSection::Audit, "/console/audit", "audit", "Audit log"),
        ],
    },
];

/// The console around one page. Templates call it `frame`.
pub struct PageShell {
    /// What all pages have: brand, theme, assets.
    pub frame: PageFrame,
    /// Where the page belongs.
    pub section: ConsoleSection,
    /// The customer's name; its address if it has none.
    pub name: String,
    /// The address to sign in with.
    pub email: String,
    /// Whether the address still has to be confirmed.
    pub is_unconfirmed: bool,
    /// The credits that can be spent, written with commas.
    pub credits: String,
    /// The path and query of the page, to come back to.
    pub here: String,
    /// The message of the page before.
    pub flash: Option<FlashMessage>,
    /// Whether the person may look at other customers.
    pub is_staff: bool,
    /// Seconds without a request after which the session ends: then the script empties the page.
    pub idle_s: i64,
    /// The token of the form that signs out.
    pub sign_out_token: String,
}

/// What staff have in addition.
pub const STAFF_NAVIGATION: &[NavGroup] = &[NavGroup {
    heading: "Staff",
    links: &[link(ConsoleSection::Support, "/console/support", "support", "Customers")],
}];

impl PageShell {
    /// The groups of the sidebar.
    pub fn navigation(&self) -> impl Iterator<Item = &'static NavGroup> {
        let staff = if self.is_staff { STAFF_NAVIGATION } else { &[] };
        NAVIGATION.iter().chain(staff)
    }
}

impl Deref for PageShell {
    type Target = PageFrame;

    fn deref(&self) -> &PageFrame {
        &self.frame
    }
}
