//! The settings: preferences of the visitor, and links to the audit log, tokens and configuration.

use crate::dashboard::overview::process;
use crate::dashboard::part::{command, list_table, panel, plain_panel, table};
use crate::dashboard::preferences::{Switch, Theme, TimeMode};
use crate::dashboard::{Frame, Page, PageContext, PageResult, PageSnapshot, Section, form};
use maud::{Markup, html};
use tidemill_domain::access::Permission;

pub(crate) async fn page(visit: PageContext) -> PageResult {
    let (common, _) = PageSnapshot::read(&visit.state).await?;
    let times = visit.times(common.now);
    let processes = process::region(&common, visit.state.inner().parts.process.id(), &times);
    let content = html! {
        h1 { "Settings" }
        (plain_panel("preferences", "Preferences", &preferences(&visit)))
        (plain_panel("more", "Administration", &links(&visit)))
        (plain_panel("processes", "Processes", &table("Processes", process::COLUMNS, &processes.markup())))
        (plain_panel("about", "About", &html! {
            dl.body {
                dt { "Version" } dd { (visit.state.inner().parts.version) }
                dt { "Running since" } dd { (times.at(visit.state.inner().started_at)) }
                dt { "You are" } dd { (visit.principal.name) " (" (visit.principal.role) ")" }
            }
        }))
    };
    Ok(Frame::new(&visit, &common, Section::Settings).live(Page::Settings).render(&content))
}

fn preferences(visit: &PageContext) -> Markup {
    let now = visit.preferences;
    html! {
        form.body method="post" action=(visit.state.path("/settings/preferences")) {
            (form::token(&visit.principal))
            input type="hidden" name="back" value=(visit.state.path("/settings"));
            p.soft { "Stored in this browser." }
            div.fields {
                (choice("theme", "Theme", Theme::NAMES, now.theme.as_str()))
                (choice("time", "Times", TimeMode::NAMES, now.time.as_str()))
                (choice("shortcuts", "Keyboard shortcuts", Switch::NAMES, now.shortcuts.as_str()))
                (choice("reload", "Reload every 15 s without scripts", Switch::NAMES, now.reload.as_str()))
                @if !visit.is_viewer() {
                    (choice("read_only", "Read-only mode", Switch::NAMES, now.read_only.as_str()))
                }
            }
            div.row { button.do { "Save" } }
        }
    }
}

fn choice(field: &str, label: &str, words: &[&str], now: &str) -> Markup {
    html! {
        label {
            (label)
            select name=(field) {
                @for word in words { option value=(word) selected[*word == now] { (word) } }
            }
        }
    }
}

fn links(visit: &PageContext) -> Markup {
    let entries = [
        ("Audit log", "/settings/audit", "Who changed what, when and why.", Permission::View),
        ("API tokens", "/settings/tokens", "For programs and for logging in.", Permission::Administer),
        (
            "Configuration",
            "/settings/configuration",
            "All settings and their source.",
            Permission::Administer,
        ),
    ];
    html! {
        ul.links.body {
            @for (title, path, about, permission) in entries {
                li {
                    @if visit.principal.may(permission) {
                        a href=(visit.state.path(path)) { (title) } " " span.soft { (about) }
                    } @else {
                        span aria-disabled="true" { (title) } " "
                        span.soft { "The role " (visit.principal.role) " may not " (permission.as_str()) "." }
                    }
                }
            }
        }
    }
}

/// The settings in effect, with the origin of every value. Secrets are already masked.
pub(crate) async fn configuration(visit: PageContext) -> PageResult {
    let (common, _) = PageSnapshot::read(&visit.state).await?;
    let rows = visit.state.inner().parts.configuration.iter().map(|line| {
        html! {
            tr {
                th.mono scope="row" { (line.key) }
                td.long.mono { (line.value) }
                td.long { (line.origin) }
            }
        }
    });
    let aside = html! { span.soft { "At the command line: " } (command("tidemill config show")) };
    let table = list_table("Configuration", &["Key", "Value", "Source"], rows, &html! { "No settings." });
    let content = html! { h1 { "Configuration" } (panel("configuration", "In effect", &aside, &table)) };
    Ok(Frame::new(&visit, &common, Section::Settings).titled("Configuration").render(&content))
}
