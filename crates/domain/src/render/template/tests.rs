//! Drafts are accepted by what they are drafts for, and misfits are told with what was meant.

use super::draft::{Draft, Wish, sample};
use super::*;
use crate::render::field::Field;
use crate::render::gfx;
use crate::render::mapping;
use proptest::prelude::*;
use serde_json::json;

fn layer(name: &str, kind: LayerType) -> Layer {
    Layer { name: name.to_owned(), kind, composition: None }
}

fn texts(name: &str, layers: &[&str]) -> Composition {
    let layers = layers.iter().map(|name| layer(name, LayerType::Text)).collect();
    let (size, rate) = ((Some(1920), Some(1080)), Some(29.97));
    let (width, height) = size;
    Composition { name: name.to_owned(), width, height, frame_rate: rate, duration: Some(5.0), layers }
}

fn project(compositions: Vec<Composition>) -> Template {
    Template { project: None, compositions }
}

fn draft(template: &Template) -> Draft {
    template.draft(&Wish { compositions: &[], template: "D:\\t\\a.aep", output_module: "H.264" })
}

fn fields(draft: &Draft) -> Vec<(&str, &str)> {
    draft.mapping.iter().map(|row| (row.field_name.as_str(), row.layer_name.as_str())).collect()
}

#[test]
fn layers_become_fields_by_their_names() {
    let mut main = texts("Main", &["Name 1", "Stack 10", "Player 2 Name", "Table ID", "###", "2024", "칩 3"]);
    main.layers.push(layer("Flag 1", LayerType::Image));
    main.layers.push(layer("Logo", LayerType::Image));
    main.layers.push(layer("Background", LayerType::Other));

    let drafted = draft(&project(vec![main]));

    assert_eq!(
        fields(&drafted),
        [
            ("Slot 1 - name", "Name 1"),
            ("Slot 2 - player_name", "Player 2 Name"),
            ("Slot 3 - 칩", "칩 3"),
            ("Slot 10 - stack", "Stack 10"),
            ("Single - 2024", "2024"),
            ("Single - layer", "###"),
            ("Single - logo", "Logo"),
            ("Single - table_id", "Table ID"),
            ("Flag 1", "Flag 1"),
        ]
    );
    let image = drafted.mapping.iter().find(|row| row.layer_name == "Logo").unwrap();
    assert!(image.kind == Kind::Image && image.optional);
    let profile = &drafted.profiles[0];
    assert_eq!((profile.rate.to_string().as_str(), profile.duration.unwrap().as_secs()), ("30000/1001", 5));
    assert_eq!(
        sample("Main", &drafted.mapping)["slots"][0],
        json!({ "slot_number": 1, "fields": { "name": "Name 1" } })
    );
}

#[test]
fn inner_compositions_are_drafted_with_the_one_that_shows_them() {
    let mut main = texts("Main", &["Title"]);
    for seat in ["Seat 1", "Seat 2"] {
        let inner = Some(seat.to_owned());
        main.layers.push(Layer { composition: inner, ..layer(seat, LayerType::Composition) });
    }
    // A circle, which After Effects does not allow, ends.
    let mut seat = texts("Seat 2", &["Name", "Title"]);
    let back = Some("Main".to_owned());
    seat.layers.push(Layer { composition: back, ..layer("x", LayerType::Composition) });
    let template = project(vec![texts("Seat 1", &["Name"]), seat, main]);

    let wish = Wish { compositions: &["Main".to_owned()], template: "D:\\a.aep", output_module: "H.264" };
    let drafted = template.draft(&wish);

    assert_eq!(
        fields(&drafted),
        [
            ("Slot 1 - name", "Name"),
            ("Slot 2 - name", "Name"),
            ("Slot 2 - title", "Title"),
            ("Single - title", "Title")
        ]
    );
    let around: Vec<_> = drafted.mapping.iter().map(|row| row.layer_composition.as_deref()).collect();
    assert_eq!(around, [Some("Seat 1"), Some("Seat 2"), Some("Seat 2"), None]);
}

#[test]
fn what_cannot_be_drafted_is_told() {
    let mut bare = texts("Bare", &["A", "A", " "]);
    bare.width = None;
    let template = project(vec![bare, texts("it's", &["A"]), texts("Empty", &[]), texts("Bare", &["B"])]);

    let drafted = draft(&template);

    assert_eq!((drafted.profiles.len(), fields(&drafted)), (0, vec![("Single - a", "A")]));
    for part in
        ["several layers \"A\"", "1 layer cannot", "its size", "it's", "no layer of text", "there twice"]
    {
        assert!(drafted.notes.iter().any(|note| note.contains(part)), "{part}: {:?}", drafted.notes);
    }
}

fn row(field: &str, layer: &str, change: impl Fn(&mut MappingRow)) -> MappingRow {
    let row = json!({ "composition": "id-7", "field_name": field, "layer_name": layer });
    let mut row = serde_json::from_value(row).unwrap();
    change(&mut row);
    row
}

#[test]
fn rows_that_fit_no_layer_are_told_with_what_was_meant() {
    let mut main = texts("Main", &["Name 1", "Stack 1"]);
    main.layers.push(layer("Flag 1", LayerType::Image));
    main.layers.push(layer("Box", LayerType::Other));
    let template = project(vec![main, texts("Seat", &["Country"])]);
    let inner =
        |name: &'static str| move |row: &mut MappingRow| row.layer_composition = Some(name.to_owned());
    let image = |row: &mut MappingRow| row.kind = Kind::Image;
    let rows = [
        row("Slot 1 - name", "Name 1", |_| {}),
        row("Flag 1", "Flag 1", image),
        row("Single - box", "Box", image),
        row("Single - box_scale", "Box", |row| row.property = Some("Scale".to_owned())),
        row("Slot 1 - country", "Country", inner("Main->Seat")),
        row("Slot 2 - name", "Nmae 1", |_| {}),
        row("Slot 2 - country", "Country", |_| {}),
        row("Slot 3 - country", "Country", inner("Saet")),
        row("Slot 3 - name", "Flag 1", |_| {}),
        row("Slot 4 - name", "Stack 1", image),
        row("Slot 5 - name", "Box", |_| {}),
        row("Slot 6 - name", "Something else", |_| {}),
    ];

    let misfits = template.misfits(&rows, |name| if name == "id-7" { "Main" } else { name });

    let told: Vec<_> =
        misfits.iter().map(|one| (one.field_name.as_str(), one.suggestion.as_deref())).collect();
    assert_eq!(
        told,
        [
            ("Slot 2 - name", Some("did you mean \"Name 1\"?")),
            ("Slot 2 - country", Some("the composition \"Seat\" has it: set layer_composition to that name")),
            ("Slot 3 - country", Some("did you mean \"Seat\"?")),
            ("Slot 3 - name", Some("set kind to image, or choose another layer")),
            ("Slot 4 - name", Some("set kind to text, or choose another layer")),
            ("Slot 5 - name", None),
            ("Slot 6 - name", None),
        ]
    );
    assert_eq!(
        template.misfits(&rows[..1], |name| name)[0].problem,
        "the project has no composition \"id-7\""
    );
}

#[test]
fn a_project_that_is_too_large_is_refused() {
    let many = project(vec![texts("A", &["x"]); COMPOSITIONS_MAX + 1]);
    let deep = project(vec![texts("A", &vec!["x"; LAYERS_MAX + 1])]);

    assert!(project(vec![texts("A", &["x"])]).check_size().is_ok());
    assert!(many.check_size().unwrap_err().to_string().contains("2001 compositions; at most 2000"));
    assert!(deep.check_size().unwrap_err().to_string().contains("20001 layers"));
}

fn any_template() -> impl Strategy<Value = Template> {
    let name = "[A-C가]{0,2}[ _]?[0-9]{0,4}['\n]?";
    let kind = prop_oneof![Just(LayerType::Text), Just(LayerType::Image), Just(LayerType::Composition)];
    let shown = prop::option::of("[A-C]");
    let layer = (name, kind, shown).prop_map(|(name, kind, composition)| Layer { name, kind, composition });
    let size = || prop::option::of(0..40_000_u32);
    let number = || prop::option::of(prop::num::f64::ANY);
    let one = ("[A-C]'?", size(), size(), number(), number(), prop::collection::vec(layer, 0..8));
    let one = one.prop_map(|(name, width, height, frame_rate, duration, layers)| Composition {
        name,
        width,
        height,
        frame_rate,
        duration,
        layers,
    });
    prop::collection::vec(one, 0..5).prop_map(project)
}

proptest! {
    #[test]
    fn every_draft_is_accepted_and_fits_its_project(template in any_template()) {
        let drafted = draft(&template);

        for profile in &drafted.profiles {
            prop_assert_eq!(profile.check(), Ok(()));
            let read = gfx::read(&sample(&profile.composition, &drafted.mapping).to_string());
            prop_assert!(read.is_ok(), "{:?}", read);
        }
        let read = mapping::read(&drafted.mapping);
        prop_assert!(read.is_ok(), "{:?}", read);
        prop_assert!(drafted.mapping.iter().all(|row| row.field_name.parse::<Field>().is_ok()));
        prop_assert_eq!(template.misfits(&drafted.mapping, |name| name), vec![]);
    }
}
