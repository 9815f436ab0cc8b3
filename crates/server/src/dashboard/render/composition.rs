//! What is known of compositions: profiles and field mappings, and what is wanted and not known.

use super::page::tabs;
use crate::api::QueryString;
use crate::dashboard::frame::{Frame, Section};
use crate::dashboard::page_context::PageContext;
use crate::dashboard::page_snapshot::PageSnapshot;
use crate::dashboard::part::{
    Health, command, empty_row, encoded, panel, plural, state as state_word, table,
};
use crate::dashboard::region::Page;
use crate::problem::Problem;
use crate::state::State;
use axum::response::Html;
use maud::{Markup, html};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use tidemill_domain::duration;
use tidemill_domain::render::Profile;
use tidemill_domain::render::mapping::{Kind, MappingRow, Unused};
use tidemill_domain::render::profile::{Audio, Decoding};
use tidemill_store::render::RenderGap;

const PROFILE_COLUMNS: &[&str] =
    &["Composition", "Template", "Output module", "Picture", "Length", "File", "Sound", "Decoded"];
const MAPPING_COLUMNS: &[&str] =
    &["Composition", "Field", "Layer", "Property", "Becomes", "When it is missing"];

/// Rows that a page shows.
const SHOWN: usize = 500;

pub(crate) async fn profiles(visit: PageContext) -> Result<Html<String>, Problem> {
    let (common, mut tx) = PageSnapshot::read(&visit.state).await?;
    let profiles = tx.renders().profiles().await?;
    let gaps = tx.renders().gaps().await?;
    let rows = html! {
        tbody {
            @if profiles.is_empty() {
                (empty_row(PROFILE_COLUMNS.len(), &html! {
                    "Nothing is known of any composition. Bring what a file says: "
                    (command("tidemill render profile import profiles.yaml"))
                }))
            }
            @for profile in profiles.iter().take(SHOWN) { (profile_row(&visit.state, profile)) }
        }
    };
    let content = html! {
        h1 { "Render profiles" }
        (tabs(&visit, "/render/profiles"))
        (gap_banner(&visit.state, &gaps))
        (panel("profiles", "Profiles", &shown(profiles.len()), &table("Render profiles", PROFILE_COLUMNS, &rows)))
        (files("profile", "profiles.yaml", "where the template of a composition is, and what its file has to be"))
    };
    let title = Some("Profiles");
    let frame = Frame { visit: &visit, common: &common, section: Section::Render, title, page: Page::Other };
    Ok(frame.render(&content))
}

fn profile_row(state: &State, profile: &Profile) -> Markup {
    let list = |names: &BTreeSet<String>| names.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    html! {
        tr {
            th.long scope="row" {
                a href=(mappings_of(state, &profile.composition)) { (profile.composition) }
                @if let Some(name) = &profile.name_in_template { br; span.soft { "“" (name) "” in the template" } }
            }
            td.long { code { (profile.template) } }
            td.long {
                (profile.output_module)
                @if let Some(settings) = &profile.settings_template { br; span.soft { (settings) } }
            }
            td.still { (profile.width) " × " (profile.height) br; (profile.rate.to_string()) " per second" }
            td.still { @match profile.duration { Some(length) => (duration::show(length)), None => span.soft { "any" } } }
            td.long {
                "." (profile.extension) " (" (profile.container) "), " (list(&profile.codecs))
                @if !profile.pixel_formats.is_empty() { ", " (list(&profile.pixel_formats)) }
                br;
                span.soft { "at least " (profile.bytes_min) " bytes" }
            }
            td.still { (match profile.audio { Audio::None => "none", Audio::Required => "required", Audio::Any => "any" }) }
            td.still { (match profile.decoding { Decoding::On => "every frame", Decoding::Off => "not" }) }
        }
    }
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Chosen {
    #[serde(default)]
    composition: String,
}

pub(crate) async fn mappings(
    visit: PageContext,
    QueryString(chosen): QueryString<Chosen>,
) -> Result<Html<String>, Problem> {
    let (common, mut tx) = PageSnapshot::read(&visit.state).await?;
    let all = tx.renders().field_mappings(None).await?;
    let gaps = tx.renders().gaps().await?;
    let mut compositions: BTreeMap<&str, usize> = BTreeMap::new();
    for row in &all {
        *compositions.entry(&row.composition).or_default() += 1;
    }
    let wanted = chosen.composition.trim();
    let rows: Vec<&MappingRow> =
        all.iter().filter(|row| wanted.is_empty() || row.composition == wanted).collect();
    let body = html! {
        tbody {
            @if rows.is_empty() { (empty_row(MAPPING_COLUMNS.len(), &without(wanted))) }
            @for row in rows.iter().take(SHOWN) { (mapping_row(row)) }
        }
    };
    let content = html! {
        h1 { "Field mappings" }
        (tabs(&visit, "/render/mappings"))
        (gap_banner(&visit.state, &gaps))
        @if compositions.len() > 1 || !wanted.is_empty() {
            nav.chips aria-label="Compositions" {
                a href=(visit.state.path("/render/mappings")) aria-current=[wanted.is_empty().then_some("true")] { "All" }
                @for (composition, count) in compositions.iter().take(SHOWN) {
                    a href=(mappings_of(&visit.state, composition)) aria-current=[(*composition == wanted).then_some("true")] {
                        (composition) " " b { (count) }
                    }
                }
            }
        }
        (panel("mappings", "Mappings", &shown(rows.len()), &table("Field mappings", MAPPING_COLUMNS, &body)))
        (files("mapping", "mapping.csv", "on which layer of the template each field is shown"))
    };
    let title = Some("Mappings");
    let frame = Frame { visit: &visit, common: &common, section: Section::Render, title, page: Page::Other };
    Ok(frame.render(&content))
}

fn without(wanted: &str) -> Markup {
    html! {
        @if wanted.is_empty() { "No field is mapped. " } @else { "No field of “" (wanted) "” is mapped. " }
        "Bring what a file says: " (command("tidemill render mapping import mapping.csv"))
    }
}

fn mapping_row(row: &MappingRow) -> Markup {
    let (becomes, word) = match row.kind {
        Kind::Text => ("a text", ""),
        Kind::Image => ("an image", "from the folder "),
        Kind::Expression => ("an expression", ""),
    };
    let missing = match (row.optional, row.unused) {
        (false, _) => "refused",
        (true, Some(Unused::Leave)) => "left as the template has it",
        (true, Some(Unused::Clear)) => "cleared",
        (true, None) => "cleared if it is a text",
    };
    html! {
        tr {
            td.long { (row.composition) }
            th.long scope="row" { (row.field_name) }
            td.long {
                (row.layer_name)
                @if let Some(other) = &row.layer_composition { br; span.soft { "in " (other) } }
            }
            td { @match &row.property { Some(property) => (property), None => span.soft { "Source Text" } } }
            td.long {
                (becomes)
                @if let Some(source) = &row.source { br; span.soft { (word) } code { (source) } }
            }
            td { (missing) }
        }
    }
}

fn mappings_of(state: &State, composition: &str) -> String {
    state.path(&format!("/render/mappings?composition={}", encoded(composition)))
}

fn shown(count: usize) -> Markup {
    html! { span.soft { @if count > SHOWN { "The first " (SHOWN) " of " (count) "." } @else { (count) } } }
}

/// What renders want and nobody has described.
fn gap_banner(state: &State, gaps: &[RenderGap]) -> Markup {
    html! {
        @for gap in gaps {
            div.banner.bad[!gap.has_profile] {
                @if gap.has_profile {
                    (state_word(Health::Warn, "No field is mapped"))
                } @else {
                    (state_word(Health::Bad, "Without a profile"))
                }
                " of “" (gap.composition) "”, which "
                (plural(gap.renders, "render wants", "renders want"))
                @if gap.has_profile { ". " } @else { ": it is not rendered. " }
                @if gap.has_profile {
                    (command("tidemill render mapping import mapping.csv"))
                } @else {
                    (command("tidemill render profile import profiles.yaml"))
                }
                " "
                a href={ (state.path("/render")) "?composition=" (encoded(&gap.composition)) } { "Show its renders" }
            }
        }
    }
}

/// How they are changed: by files, so that they can be kept and compared.
fn files(noun: &str, file: &str, what: &str) -> Markup {
    let content = html! {
        div.body {
            p { "They are kept as files, and say " (what) ". All of them, as a file:" }
            p { (command(&format!("tidemill render {noun} export --format {} > {file}", file.rsplit('.').next().unwrap_or("csv")))) }
            p { "What a file says, first as a trial and then in earnest:" }
            p { (command(&format!("tidemill render {noun} import {file} --dry-run"))) }
            p { (command(&format!("tidemill render {noun} import {file}"))) }
        }
    };
    panel("files", "To change them", &html! {}, &content)
}
