//! What is known of compositions: mappings, profiles and the numbers by which caches notice changes.

use super::{ann, execute};
use crate::Bench;
use tidemill_domain::render::Profile;
use tidemill_domain::render::mapping::{Kind, MappingRow, Unused};
use tidemill_store::render::Revisions;

crate::on_both![
    mappings_read_back_and_are_replaced_by_composition_and_field,
    profiles_read_back_and_are_replaced_by_composition,
    every_change_is_noticed_whoever_makes_it,
];

fn row(composition: &str, field: &str) -> MappingRow {
    MappingRow {
        composition: composition.to_owned(),
        field_name: field.to_owned(),
        layer_name: "Layer \u{ac00}".to_owned(),
        layer_composition: None,
        property: None,
        kind: Kind::Text,
        source: None,
        optional: false,
        unused: None,
    }
}

fn profile(composition: &str, width: u32) -> Profile {
    let text = format!(
        r#"{{"composition": "{composition}", "template": "D:\\t\\a.aep", "output_module": "H.264", "width": {width},
             "height": 1080, "rate": "30000/1001", "duration": "5s"}}"#
    );
    serde_json::from_str(&text).unwrap()
}

async fn revisions(bench: &Bench) -> Revisions {
    bench.begin().await.renders().revisions().await.unwrap()
}

async fn mappings_read_back_and_are_replaced_by_composition_and_field(bench: Bench) {
    let flag = MappingRow {
        kind: Kind::Image,
        source: Some("D:\\flags".to_owned()),
        optional: true,
        unused: Some(Unused::Leave),
        layer_composition: Some("A->B".to_owned()),
        property: Some("Source".to_owned()),
        ..row("A", "Flag 1")
    };
    let rows = [flag.clone(), row("A", "Single - a"), row("B", "Single - a")];
    let mut tx = bench.begin().await;
    assert_eq!(tx.renders().save_field_mappings(&rows, &ann()).await.unwrap(), 3);
    assert_eq!(tx.renders().field_mappings(None).await.unwrap(), rows);

    let clock = MappingRow {
        kind: Kind::Expression,
        source: Some("time * 1000".to_owned()),
        ..row("A", "Single - a")
    };
    tx.renders().save_field_mappings(std::slice::from_ref(&clock), &ann()).await.unwrap();

    assert_eq!(tx.renders().field_mappings(Some("A")).await.unwrap(), [flag, clock]);
    assert_eq!(tx.renders().delete_field_mappings("A", Some("Flag 1"), &ann()).await.unwrap(), 1);
    assert_eq!(tx.renders().delete_field_mappings("A", None, &ann()).await.unwrap(), 1);
    assert_eq!(tx.renders().delete_field_mappings("A", None, &ann()).await.unwrap(), 0);
    assert_eq!(tx.renders().field_mappings(None).await.unwrap(), [row("B", "Single - a")]);
    assert_eq!(tx.renders().save_field_mappings(&[], &ann()).await.unwrap(), 0);
}

async fn profiles_read_back_and_are_replaced_by_composition(bench: Bench) {
    let mut tx = bench.begin().await;
    let all = [profile("B", 1920), profile("A", 1280), profile("A", 640)];
    assert_eq!(tx.renders().save_profiles(&all, &ann()).await.unwrap(), 2, "the later one counts");

    assert_eq!(tx.renders().profiles().await.unwrap(), [profile("A", 640), profile("B", 1920)]);
    tx.renders().save_profiles(&[profile("A", 1)], &ann()).await.unwrap();
    assert_eq!(tx.renders().profile("A").await.unwrap(), Some(profile("A", 1)));
    assert_eq!(tx.renders().profile("C").await.unwrap(), None);
    assert!(tx.renders().delete_profile("A", &ann()).await.unwrap());
    assert!(!tx.renders().delete_profile("A", &ann()).await.unwrap());
}

async fn every_change_is_noticed_whoever_makes_it(bench: Bench) {
    let mut before = revisions(&bench).await;
    let mut tx = bench.begin().await;
    tx.renders().save_field_mappings(&[row("A", "Single - a")], &ann()).await.unwrap();
    tx.commit().await.unwrap();
    for sql in [
        "insert into aep_field_mapping (composition_id, field_name, layer_name) values ('X', 'Single - x', 'L')",
        "update aep_field_mapping set layer_name = 'M'",
        "delete from aep_field_mapping",
    ] {
        let now = revisions(&bench).await;
        assert!(now.mappings > before.mappings && now.profiles == before.profiles, "{sql}");
        before = now;
        execute(&bench, sql).await;
    }
    assert!(revisions(&bench).await.mappings > before.mappings);
    let mut tx = bench.begin().await;
    tx.renders().save_profiles(&[profile("A", 1)], &ann()).await.unwrap();
    tx.commit().await.unwrap();
    let saved = revisions(&bench).await;
    assert!(saved.profiles > before.profiles);
    let mut tx = bench.begin().await;
    tx.renders().delete_profile("A", &ann()).await.unwrap();
    tx.commit().await.unwrap();
    assert!(revisions(&bench).await.profiles > saved.profiles);
}
