//! Profiles and field mappings of compositions, and which ones are missing.

use super::page::tabs;
use crate::api::QueryString;
use crate::dashboard::part::{
    Health, command, encoded, list_table, panel, plain_panel, plural, state as state_word, value_or,
};
use crate::dashboard::{Frame, PageContext, PageResult, PageSnapshot, Section};
use crate::state::State;
use maud::{Markup, html};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use tidemill_domain::duration;
use tidemill_domain::render::Profile;
use tidemill_domain::render::mapping::{Kind, MappingRow, Unused};
use tidemill_domain::render::profile::{ApprovalNeed, Audio, Decoding};
use tidemill_store::render::RenderGap;

const PROFILE_COLUMNS: &[&str] =
    &["Composition", "Template", "Output module", "Picture", "Length", "File", "Audio", "Decoded"];
const MAPPING_COLUMNS: &[&str] = &["Composition", "Field", "Layer", "Property", "Kind", "When it is missing"];

/// Maximum rows of a page.
const SHOWN: usize = 500;

pub(crate) async fn profiles(visit: PageContext) -> PageResult {
    let (common, mut tx) = PageSnapshot::read(&visit.state).await?;
    let profiles = tx.renders().profiles().await?;
    let gaps = tx.renders().gaps().await?;
    let rows = profiles.iter().take(SHOWN).map(|profile| profile_row(&visit.state, profile));
    let empty = html! { "No profiles yet. Import a file: " (command("tidemill render profile import profiles.yaml")) };
    let table = list_table("Render profiles", PROFILE_COLUMNS, rows, &empty);
    let content = html! {
        h1 { "Render profiles" }
        (tabs(&visit, "/render/profiles"))
        (gap_banner(&visit.state, &gaps))
        (panel("profiles", "Profiles", &shown(profiles.len()), &table))
        (files("profile", "profiles.yaml", "the template of a composition and the requirements for its output file"))
    };
    Ok(Frame::new(&visit, &common, Section::Render).titled("Profiles").render(&content))
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
            td.still { (value_or(profile.duration.map(duration::show), "any")) }
            td.long {
                "." (profile.extension) " (" (profile.container) "), " (list(&profile.codecs))
                @if !profile.pixel_formats.is_empty() { ", " (list(&profile.pixel_formats)) }
                br;
                span.soft { "at least " (profile.bytes_min) " bytes" }
            }
            td.still { (match profile.audio { Audio::None => "none", Audio::Required => "required", Audio::Any => "any" }) }
            td.still {
                (match profile.decoding { Decoding::On => "every frame", Decoding::Off => "not" })
                @if profile.approval == ApprovalNeed::Required { br; "by a person" }
            }
        }
    }
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct MappingQuery {
    #[serde(default)]
    composition: String,
}

pub(crate) async fn mappings(
    visit: PageContext,
    QueryString(query): QueryString<MappingQuery>,
) -> PageResult {
    let (common, mut tx) = PageSnapshot::read(&visit.state).await?;
    let all = tx.renders().field_mappings(None).await?;
    let gaps = tx.renders().gaps().await?;
    let mut compositions: BTreeMap<&str, usize> = BTreeMap::new();
    for row in &all {
        *compositions.entry(&row.composition).or_default() += 1;
    }
    let chosen = query.composition.trim();
    let rows: Vec<&MappingRow> =
        all.iter().filter(|row| chosen.is_empty() || row.composition == chosen).collect();
    let shown_rows = rows.iter().take(SHOWN).map(|row| mapping_row(row));
    let empty = html! {
        @if chosen.is_empty() { "No field mappings yet. " } @else { "“" (chosen) "” has no field mappings. " }
        "Import a file: " (command("tidemill render mapping import mapping.csv"))
    };
    let table = list_table("Field mappings", MAPPING_COLUMNS, shown_rows, &empty);
    let content = html! {
        h1 { "Field mappings" }
        (tabs(&visit, "/render/mappings"))
        (gap_banner(&visit.state, &gaps))
        @if compositions.len() > 1 || !chosen.is_empty() {
            nav.chips aria-label="Compositions" {
                a href=(visit.state.path("/render/mappings")) aria-current=[chosen.is_empty().then_some("true")] { "All" }
                @for (composition, count) in compositions.iter().take(SHOWN) {
                    a href=(mappings_of(&visit.state, composition)) aria-current=[(*composition == chosen).then_some("true")] {
                        (composition) " " b { (count) }
                    }
                }
            }
        }
        (panel("mappings", "Mappings", &shown(rows.len()), &table))
        (files("mapping", "mapping.csv", "which layer of the template shows which field"))
    };
    Ok(Frame::new(&visit, &common, Section::Render).titled("Mappings").render(&content))
}

fn mapping_row(row: &MappingRow) -> Markup {
    let (kind, word) = match row.kind {
        Kind::Text => ("text", ""),
        Kind::Image => ("image", "from the folder "),
        Kind::Expression => ("expression", ""),
    };
    let missing = match (row.optional, row.unused) {
        (false, _) => "refused",
        (true, Some(Unused::Leave)) => "the template stays as it is",
        (true, Some(Unused::Clear)) => "cleared",
        (true, None) => "cleared if it is text",
    };
    html! {
        tr {
            td.long { (row.composition) }
            th.long scope="row" { (row.field_name) }
            td.long {
                (row.layer_name)
                @if let Some(other) = &row.layer_composition { br; span.soft { "in " (other) } }
            }
            td { (value_or(row.property.as_ref(), "Source Text")) }
            td.long {
                (kind)
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

/// Compositions of waiting renders without a profile or a mapping.
fn gap_banner(state: &State, gaps: &[RenderGap]) -> Markup {
    let gap = |gap: &RenderGap| {
        let (what, effect, import) = if gap.has_profile {
            let what = state_word(Health::Warn, "No field mappings");
            (what, ". ", "tidemill render mapping import mapping.csv")
        } else {
            let what = state_word(Health::Bad, "No profile");
            (what, ", so they cannot render. ", "tidemill render profile import profiles.yaml")
        };
        html! {
            div.banner.bad[!gap.has_profile] {
                (what) " for “" (gap.composition) "” of " (plural(gap.renders, "render", "renders")) (effect)
                (command(import)) " "
                a href={ (state.path("/render")) "?composition=" (encoded(&gap.composition)) } { "Show its renders" }
            }
        }
    };
    html! { @for one in gaps { (gap(one)) } }
}

/// How to change them: by files, which can be kept under version control.
fn files(noun: &str, file: &str, what: &str) -> Markup {
    let content = html! {
        div.body {
            p { "You edit them as a file, which says " (what) ". Export the current file:" }
            p { (command(&format!("tidemill render {noun} export --format {} > {file}", file.rsplit('.').next().unwrap_or("csv")))) }
            p { "Check a file, then import it:" }
            p { (command(&format!("tidemill render {noun} import {file} --dry-run"))) }
            p { (command(&format!("tidemill render {noun} import {file}"))) }
        }
    };
    plain_panel("files", "Change them", &content)
}
