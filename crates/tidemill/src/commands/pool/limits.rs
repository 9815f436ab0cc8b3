//! Pools as items of the table `emr_connection_limits` of an EMR Batch Agent.
//!
//! Settings without an attribute there are in our attribute `tidemill_settings`, which is left out if they are the
//! defaults. So items and pools survive an export and import unchanged.

use super::dynamo::{Item, number, text};
use serde_json::json;
use std::num::NonZeroU32;
use tidemill_domain::pool::{PoolName, Settings};

const MORE: &str = "tidemill_settings";

#[derive(Clone, PartialEq, Debug)]
pub(super) struct Limits {
    pub(super) name: PoolName,
    external_id: Option<i64>,
    db_type: Option<String>,
    max_units: Option<u32>,
    threshold_percent: Option<u8>,
    default_units: Option<NonZeroU32>,
    min_units: Option<NonZeroU32>,
    more: Option<Settings>,
}

impl Limits {
    /// A pool without a name is named after its number.
    pub(super) fn read(item: &Item) -> Result<Self, String> {
        let external_id: Option<i64> = number(item, "src_db_id")?;
        let name = match text(item, "name")? {
            Some(name) => name,
            None => external_id.ok_or("there is neither src_db_id nor name")?.to_string(),
        };
        let more = match text(item, MORE)? {
            Some(text) => Some(serde_json::from_str(&text).map_err(|error| format!("{MORE}: {error}"))?),
            None => None,
        };
        Ok(Self {
            name: name.parse().map_err(|bad| format!("name: {name:?}: {bad}"))?,
            external_id,
            db_type: text(item, "db_type")?,
            max_units: number(item, "max_connections")?,
            threshold_percent: number(item, "threshold_percent")?,
            default_units: number(item, "default_parallel")?,
            min_units: number(item, "min_parallel")?,
            more,
        })
    }

    /// The settings of the pool, based on the `known` ones or those of a `new` pool. Missing attributes do not change.
    pub(super) fn settings(
        self,
        known: Option<Settings>,
        new: impl FnOnce(PoolName, u32) -> Settings,
    ) -> Result<Settings, String> {
        let base = match (self.more.or(known), self.max_units) {
            (Some(base), _) => base,
            (None, Some(max_units)) => new(self.name.clone(), max_units),
            (None, None) => return Err("max_connections is missing".to_owned()),
        };
        Ok(Settings {
            name: self.name,
            external_id: self.external_id.or(base.external_id),
            db_type: self.db_type.unwrap_or(base.db_type),
            max_units: self.max_units.unwrap_or(base.max_units),
            threshold_percent: self.threshold_percent.unwrap_or(base.threshold_percent),
            default_units: self.default_units.unwrap_or(base.default_units),
            min_units: self.min_units.unwrap_or(base.min_units),
            ..base
        })
    }
}

pub(super) fn item(settings: &Settings) -> Item {
    let plain = Settings {
        external_id: settings.external_id,
        db_type: settings.db_type.clone(),
        threshold_percent: settings.threshold_percent,
        default_units: settings.default_units,
        min_units: settings.min_units,
        ..Settings::new(settings.name.clone(), settings.max_units)
    };
    let more = (plain != *settings).then(|| serde_json::to_string(settings).ok()).flatten();
    [
        ("src_db_id", json!(settings.external_id)),
        ("name", json!(settings.name)),
        ("db_type", json!(settings.db_type)),
        ("max_connections", json!(settings.max_units)),
        ("threshold_percent", json!(settings.threshold_percent)),
        ("default_parallel", json!(settings.default_units)),
        ("min_parallel", json!(settings.min_units)),
        (MORE, json!(more)),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into_iter()
    .collect()
}

#[cfg(test)]
mod tests {
    use super::super::dynamo::{items, typed};
    use super::*;
    use proptest::prelude::*;
    use tidemill_domain::pool::settings::Pause;
    use tidemill_domain::pool::{Policy, WeightModel};
    use tidemill_domain::time::Timestamp;

    fn read(text: &str) -> Result<Settings, String> {
        Limits::read(&items(text.as_bytes()).unwrap().remove(0))?.settings(None, Settings::new)
    }

    #[test]
    fn an_item_of_the_agent_comes_back_as_it_was() {
        let text = r#"{"src_db_id":{"N":"4"},"name":{"S":"ADW"},"db_type":{"S":"oracle"},
            "max_connections":{"N":"1000"},"threshold_percent":{"N":"95"},
            "default_parallel":{"N":"8"},"min_parallel":{"N":"2"}}"#;

        let settings = read(text).unwrap();

        assert_eq!(
            (settings.external_id, settings.max_units, settings.default_units.get()),
            (Some(4), 1_000, 8)
        );
        let item: serde_json::Value = serde_json::from_str(text).unwrap();
        assert_eq!(typed(super::item(&settings)), item);
    }

    #[test]
    fn what_is_missing_is_taken_from_where_it_can_be() {
        let new = read(r#"{"src_db_id":5,"max_connections":"500"}"#).unwrap();
        assert_eq!((new.name.as_str(), new.threshold_percent, new.min_units.get()), ("5", 95, 2));

        let known = Settings { policy: Policy::Fifo, ..Settings::new("ERP".parse().unwrap(), 500) };
        let item = items(br#"{"name":"ERP","threshold_percent":80}"#).unwrap().remove(0);
        let changed = Limits::read(&item).unwrap().settings(Some(known.clone()), Settings::new).unwrap();
        assert_eq!(changed, Settings { threshold_percent: 80, ..known });
    }

    #[test]
    fn what_makes_no_sense_is_told_with_its_attribute() {
        for (text, attribute) in [
            (r#"{"name":"ADW"}"#, "max_connections"),
            (r#"{"max_connections":4}"#, "src_db_id"),
            (r#"{"name":"A W","max_connections":4}"#, "name"),
            (r#"{"name":"A","max_connections":-4}"#, "max_connections"),
            (r#"{"name":"A","max_connections":4,"min_parallel":0}"#, "min_parallel"),
            (r#"{"name":"A","max_connections":4,"threshold_percent":"many"}"#, "threshold_percent"),
        ] {
            let why = read(text).unwrap_err();
            assert!(why.contains(attribute), "{text}: {why}");
        }
    }

    proptest! {
        #[test]
        fn every_pool_survives_export_and_import(
            id in prop::option::of(any::<i64>()),
            max: u32,
            (threshold, least, default) in (1_u8..=100, 1_u32.., 1_u32..),
            model in prop::sample::select(WeightModel::ALL.to_vec()),
            (effective, fifo, paused) in any::<(bool, bool, bool)>(),
            window in prop::option::of(0_u32..2_000),
        ) {
            let some = |units| NonZeroU32::new(units).unwrap();
            let settings = Settings {
                external_id: id,
                threshold_percent: threshold,
                min_units: some(least),
                default_units: some(default),
                weight: model,
                hint_effective: effective,
                policy: if fifo { Policy::Fifo } else { Policy::Halving },
                paused: paused.then(|| Pause { by: "ann".into(), reason: "x".into(), at: Timestamp::EPOCH }),
                capacity: window
                    .map(|max_units| tidemill_domain::pool::settings::Capacity {
                        window: "22:00-06:00".parse().unwrap(),
                        max_units,
                    })
                    .into_iter()
                    .collect(),
                ..Settings::new("p.1".parse().unwrap(), max)
            };

            let exported = typed(item(&settings)).to_string();

            prop_assert_eq!(read(&exported).unwrap(), settings, "{}", exported);
        }
    }
}
