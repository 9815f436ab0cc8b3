//! What is around every page: navigation, header, footer and the HTML head, which loads nothing from other sites.

use crate::dashboard::page_context::home;
use crate::dashboard::preferences::{Preferences, Switch, Theme, TimeMode, after};
use crate::dashboard::{Page, PageContext, PageSnapshot, Times, asset, form, page_snapshot, part};
use crate::state::State;
use axum::response::Html;
use maud::{DOCTYPE, Markup, html};
use tidemill_domain::time::Timestamp;

tidemill_domain::words! {
    /// An entry of the navigation.
    pub(crate) enum Section {
        Overview = "Overview",
        Jobs = "Jobs",
        Pools = "Pools",
        Outbox = "Outbox",
        Render = "Render",
        Alerts = "Alerts",
        Settings = "Settings",
    }
}

impl Section {
    /// The path, and the key that leads there after `g`.
    const fn place(self) -> (&'static str, &'static str) {
        match self {
            Self::Overview => ("", "o"),
            Self::Jobs => ("/jobs", "j"),
            Self::Pools => ("/pools", "p"),
            Self::Outbox => ("/outbox", "b"),
            Self::Render => ("/render", "r"),
            Self::Alerts => ("/alerts", "a"),
            Self::Settings => ("/settings", "s"),
        }
    }

    fn address(self, state: &State) -> String {
        if self == Self::Overview { home(state) } else { state.path(self.place().0) }
    }
}

/// A page with its navigation, header and footer: `Frame::new(..).titled(..).live(..).render(&content)`.
#[derive(Debug)]
pub(crate) struct Frame<'a> {
    visit: &'a PageContext,
    common: &'a PageSnapshot,
    section: Section,
    /// The title below that of the section; none for the section's own page.
    title: Option<&'a str>,
    /// Which live updates it gets.
    page: Page,
}

impl<'a> Frame<'a> {
    /// The section's own page, without live updates.
    pub(crate) fn new(visit: &'a PageContext, common: &'a PageSnapshot, section: Section) -> Self {
        Self { visit, common, section, title: None, page: Page::Other }
    }

    #[must_use]
    pub(crate) fn titled(self, title: &'a str) -> Self {
        Self { title: Some(title), ..self }
    }

    #[must_use]
    pub(crate) fn live(self, page: Page) -> Self {
        Self { page, ..self }
    }

    pub(crate) fn render(&self, content: &Markup) -> Html<String> {
        self.render_in(self.title.unwrap_or(self.section.as_str()), content)
    }

    /// The page with another title of the window.
    pub(crate) fn render_in(&self, title: &str, content: &Markup) -> Html<String> {
        let (visit, state) = (self.visit, &self.visit.state);
        let events = state.path(&format!("/ui/events?page={}", part::encoded(&self.page.word())));
        let inside = html! {
            body.framed data-events=(events) {
                a.skip href="#main" { "Skip to content" }
                (self.header())
                (self.navigation())
                main #main.main tabindex="-1" {
                    (self.crumbs())
                    @if visit.preferences.read_only == Switch::On && !visit.is_viewer() {
                        p.banner { "Read-only mode is on: buttons that change something are disabled." }
                    }
                    (content)
                    // The footer is live on every page, so say that the content is not.
                    @if self.page == Page::Other {
                        p.soft { "As of " (self.times().at(self.common.now)) ". This page does not update itself." }
                    }
                }
                (self.footer())
                (help(visit.preferences.shortcuts))
                div #voice.unseen role="status" aria-live="polite" {}
            }
        };
        let head = Head {
            title,
            preferences: visit.preferences,
            now: self.common.now,
            // Reloading the answer to a form would send the form again.
            reloads: visit.preferences.reload == Switch::On && !visit.is_answer,
        };
        document(state, &head, &inside)
    }

    fn navigation(&self) -> Markup {
        let state = &self.visit.state;
        html! {
            nav.nav aria-label="Sections" {
                ul {
                    @for section in Section::ALL {
                        li {
                            a href=(section.address(state)) data-key=(section.place().1)
                                aria-current=[(section == self.section).then_some("page")] {
                                (section)
                                @if section == Section::Alerts { (page_snapshot::failing(self.common)) }
                            }
                        }
                    }
                }
            }
        }
    }

    fn crumbs(&self) -> Markup {
        let state = &self.visit.state;
        html! {
            @if let Some(title) = self.title {
                nav.crumbs aria-label="Breadcrumb" {
                    ol {
                        li { a href=(self.section.address(state)) { (self.section.as_str()) } }
                        li aria-current="page" { (title) }
                    }
                }
            }
        }
    }

    fn header(&self) -> Markup {
        let (visit, state) = (self.visit, &self.visit.state);
        let preferences = visit.preferences;
        html! {
            header.top {
                a.name href=(home(state)) { "Tidemill" }
                span.instance { (state.inner().instance) }
                div.tools {
                    button #live type="button" aria-pressed="true" data-script hidden { "Live: on" }
                    form method="post" action=(state.path("/settings/preferences")) {
                        (form::token(&visit.principal))
                        input type="hidden" name="back" value=(visit.address);
                        (cycle("time", "Times", TimeMode::NAMES, preferences.time.as_str()))
                        " "
                        (cycle("theme", "Theme", Theme::NAMES, preferences.theme.as_str()))
                        " "
                        @if visit.is_viewer() {
                            span.soft { "Read-only: role " (visit.principal.role) }
                        } @else {
                            button name="read_only" value=(after(Switch::NAMES, preferences.read_only.as_str())) {
                                "Read-only: " b { (preferences.read_only.as_str()) }
                            }
                        }
                        noscript {
                            " "
                            button name="reload" value=(after(Switch::NAMES, preferences.reload.as_str())) {
                                "Reload every 15 s: " b { (preferences.reload.as_str()) }
                            }
                        }
                    }
                    button type="button" data-help data-script hidden aria-label="Keyboard shortcuts" { "?" }
                    (self.user())
                }
            }
        }
    }

    fn user(&self) -> Markup {
        let visit = self.visit;
        html! {
            span { (visit.principal.name) " " span.soft { "(" (visit.principal.role) ")" } }
            @if visit.has_session() {
                form method="post" action=(visit.state.path("/logout")) {
                    (form::token(&visit.principal))
                    button { "Log out" }
                }
            }
        }
    }

    fn times(&self) -> Times {
        let now = self.common.now;
        if self.section == Section::Render { self.visit.render_times(now) } else { self.visit.times(now) }
    }

    fn footer(&self) -> Markup {
        html! {
            footer.foot {
                span #link.state.idle { "○ Not live" }
                span #age { "as of " (self.times().at(self.common.now)) }
                (page_snapshot::status(&self.visit.state, Some(self.common)))
            }
        }
    }
}

/// A button that steps through the values of a preference: by a form without the script, in place with it.
fn cycle(field: &str, label: &str, words: &[&'static str], now: &'static str) -> Markup {
    html! {
        button name=(field) value=(after(words, now)) data-cycle=(words.join(" ")) {
            (label) ": " b { (now) }
        }
    }
}

#[derive(Debug)]
pub(super) struct Head<'a> {
    pub(super) title: &'a str,
    pub(super) preferences: Preferences,
    pub(super) now: Timestamp,
    /// Whether browsers without scripts reload it.
    pub(super) reloads: bool,
}

pub(super) fn document(state: &State, head: &Head<'_>, body: &Markup) -> Html<String> {
    let preferences = head.preferences;
    let markup = html! {
        (DOCTYPE)
        html lang="en" data-theme=(preferences.theme.as_str()) data-time=(preferences.time.as_str())
            data-shortcuts=(preferences.shortcuts.as_str()) data-now=(head.now) {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (head.title) " – " (state.inner().instance) }
                // An empty icon keeps browsers from requesting /favicon.ico.
                link rel="icon" href="data:,";
                link rel="stylesheet" href=(asset::url(state, &asset::STYLE));
                script src=(asset::url(state, &asset::SCRIPT)) defer {}
                @if head.reloads {
                    noscript { meta http-equiv="refresh" content="15"; }
                }
            }
            (body)
        }
    };
    Html(markup.into_string())
}

/// A document without the frame: the login page and error pages.
pub(super) fn alone(state: &State, title: &str, preferences: Preferences, content: &Markup) -> Html<String> {
    let now = state.inner().parts.clock.now();
    let body = html! {
        body {
            main #main.alone {
                p { a href=(home(state)) { "Tidemill" } " " span.soft { (state.inner().instance) } }
                (content)
            }
            div #voice.unseen role="status" aria-live="polite" {}
        }
    };
    document(state, &Head { title, preferences, now, reloads: false }, &body)
}

const KEYS: [(&str, &str); 5] = [
    ("r", "live updates on or off"),
    ("t", "next theme"),
    ("u", "next time format"),
    ("?", "show this help"),
    ("Esc", "close"),
];

/// The keyboard shortcuts, in a closed dialog.
fn help(shortcuts: Switch) -> Markup {
    html! {
        dialog #help aria-labelledby="help-heading" {
            h2 #help-heading { "Keyboard" }
            @if shortcuts == Switch::Off {
                p { "Shortcuts are off. You can switch them on in the settings." }
            }
            table {
                caption.unseen { "Keyboard shortcuts" }
                tbody {
                    @for section in Section::ALL {
                        tr {
                            th scope="row" { kbd { "g" } " " kbd { (section.place().1) } }
                            td { "go to " (section) }
                        }
                    }
                    @for (key, effect) in KEYS { tr { th scope="row" { kbd { (key) } } td { (effect) } } }
                }
            }
            button type="button" data-close { "Close" }
        }
    }
}
