//! The settings of a pool as fields of a form: what each means, its value, and what is wrong with it.

use crate::dashboard::form::{self, RefusedForm};
use crate::dashboard::part::{given, refusal_banner, sentence};
use maud::{Markup, html};
use std::str::FromStr;
use tidemill_api::pool::{PoolRefusal, PoolSettings};
use tidemill_domain::duration;
use tidemill_domain::pool::settings::BadSettings;
use tidemill_domain::pool::{Policy, Settings, WeightModel};

pub(super) struct Field {
    /// As in the API.
    pub(super) name: &'static str,
    label: &'static str,
    help: &'static str,
    input: Input,
    /// Flag of `tidemill pool set`.
    pub(super) flag: &'static str,
    /// The sentence about a change.
    effect: &'static str,
    pub(super) value: fn(&Settings) -> String,
}

enum Input {
    Text,
    Optional,
    /// From, to.
    Number(u32, u32),
    /// The words, each with a sentence.
    Choice(fn() -> Vec<(&'static str, &'static str)>),
}

/// The fields that only a new pool has.
pub(super) const IDENTITY: &[Field] = &[
    Field {
        name: "name",
        label: "Name",
        help: "Letters, digits, “_”, “-” and “.”, at most 64",
        input: Input::Text,
        flag: "",
        effect: "",
        value: |settings| settings.name.to_string(),
    },
    Field {
        name: EXTERNAL_ID,
        label: "Source database id (optional)",
        help: "“src_db_id” in the EMR Batch Agent API",
        input: Input::Optional,
        flag: "--id",
        effect: "",
        value: |settings| settings.external_id.map_or_else(String::new, |id| id.to_string()),
    },
];

/// The fields that a change can have.
pub(super) const CHANGEABLE: &[Field] = &[
    Field {
        name: "max_units",
        label: "Capacity (units)",
        help: "Such as the sessions that the database can serve",
        input: Input::Number(0, u32::MAX),
        flag: "--max",
        effect: "Capacity FROM → TO units.",
        value: |settings| settings.max_units.to_string(),
    },
    Field {
        name: "threshold_percent",
        label: "Limit (% of the capacity)",
        help: "The part that may be in use",
        input: Input::Number(1, 100),
        flag: "--threshold",
        effect: "Limit FROM % → TO % of the capacity.",
        value: |settings| settings.threshold_percent.to_string(),
    },
    Field {
        name: "min_units",
        label: "Minimum (units)",
        help: "A downgrade never grants less, whatever the request accepts",
        input: Input::Number(1, u32::MAX),
        flag: "--min",
        effect: "Minimum FROM → TO units, from the next request on.",
        value: |settings| settings.min_units.to_string(),
    },
    Field {
        name: "default_units",
        label: "Default (units)",
        help: "For a request that does not say how many it needs",
        input: Input::Number(1, u32::MAX),
        flag: "--default",
        effect: "Default FROM → TO units, from the next request on.",
        value: |settings| settings.default_units.to_string(),
    },
    Field {
        name: "max_hold",
        label: "Maximum hold time",
        help: "Such as 90m or 12h; a silent holder then loses its units",
        input: Input::Text,
        flag: "--max-hold",
        effect: "Maximum hold time FROM → TO, for current leases too.",
        value: |settings| duration::show(settings.max_hold),
    },
    Field {
        name: "policy",
        label: "Policy",
        help: "",
        input: Input::Choice(|| Policy::ALL.map(|policy| (policy.as_str(), policy.about())).into()),
        flag: "--policy",
        effect: "Policy FROM → TO, from the next decision on.",
        value: |settings| settings.policy.to_string(),
    },
    Field {
        name: "weight",
        label: "What counts as a unit",
        help: "",
        input: Input::Choice(|| WeightModel::ALL.map(|model| (model.as_str(), model.about())).into()),
        flag: "--weight",
        effect: "What counts as a unit: FROM → TO, from the next request on.",
        value: |settings| settings.weight.to_string(),
    },
];

const EXTERNAL_ID: &str = "external_id";

/// The inputs, with what was typed if the form was refused, otherwise with their `initial` values. The reason of the
/// refusal is at its field, or above all of them.
pub(super) fn inputs<'a>(
    fields: impl IntoIterator<Item = &'a Field> + Clone,
    refused: Option<&RefusedForm>,
    is_off: bool,
    initial: impl Fn(&Field) -> String,
) -> Markup {
    let wrong = refused.and_then(|refused| refused.problem.field());
    let is_elsewhere = !fields.clone().into_iter().any(|field| wrong == Some(field.name));
    html! {
        @if let Some(refused) = refused.filter(|_| is_elsewhere) { (refusal_banner(&refused.problem)) }
        div.fields {
            @for field in fields {
                @let value = match refused {
                    Some(refused) => form::field(&refused.fields, field.name).to_owned(),
                    None => initial(field),
                };
                (field.markup(&value, refused.filter(|_| wrong == Some(field.name)), is_off))
            }
        }
    }
}

impl Field {
    fn markup(&self, value: &str, refused: Option<&RefusedForm>, is_off: bool) -> Markup {
        let (is_wrong, name) = (refused.is_some(), self.name);
        let fault =
            html! { @if let Some(refused) = refused { span.fault role="alert" { (self.fault(refused)) } } };
        if let Input::Choice(choices) = self.input {
            return html! {
                fieldset.wide {
                    legend { (self.label) }
                    (fault)
                    @for (word, about) in choices() {
                        label.check {
                            input name=(name) type="radio" value=(word) checked[word == value] disabled[is_off];
                            span { (word) " " span.soft { (about) } }
                        }
                    }
                }
            };
        }
        let bounds = if let Input::Number(least, most) = self.input { Some((least, most)) } else { None };
        html! {
            label {
                (self.label) span.soft { (self.help) } (fault)
                input name=(name) type=(if bounds.is_some() { "number" } else { "text" }) min=[bounds.map(|(least, _)| least)]
                    max=[bounds.map(|(_, most)| most)] required[!matches!(self.input, Input::Optional)] value=(value)
                    aria-invalid=[is_wrong.then_some("true")] autofocus[is_wrong] disabled[is_off] autocomplete="off";
            }
        }
    }

    /// Why it was refused, without the name of the field, and what to do unless that is to correct it.
    fn fault(&self, refused: &RefusedForm) -> String {
        let (detail, remedy) = (refused.problem.detail(), refused.problem.remedy());
        let why = detail.strip_prefix(self.name).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(detail);
        match remedy.strip_prefix("correct ") == Some(self.name) {
            true => format!("{}.", sentence(why)),
            false => format!("{}: {remedy}.", sentence(why)),
        }
    }

    /// What a change of this setting means; none if it stays.
    pub(super) fn effect(&self, before: &Settings, after: &Settings) -> Option<String> {
        let (from, to) = ((self.value)(before), (self.value)(after));
        (from != to).then(|| self.effect.replace("FROM", &from).replace("TO", &to))
    }
}

/// What was typed about the [`CHANGEABLE`] fields. An empty field is left out.
pub(super) fn settings(typed: &[(String, String)]) -> Result<PoolSettings, PoolRefusal> {
    let text = |name| given(form::field(typed, name)).map(str::to_owned);
    Ok(PoolSettings {
        max_units: number(typed, "max_units")?,
        threshold_percent: number(typed, "threshold_percent")?,
        min_units: number(typed, "min_units")?,
        default_units: number(typed, "default_units")?,
        max_hold: text("max_hold"),
        policy: text("policy"),
        weight: text("weight"),
        ..PoolSettings::default()
    })
}

/// [`settings`] of a new pool.
pub(super) fn new_settings(typed: &[(String, String)]) -> Result<PoolSettings, PoolRefusal> {
    Ok(PoolSettings { external_id: number(typed, EXTERNAL_ID)?.map(Some), ..settings(typed)? })
}

fn number<T: FromStr>(typed: &[(String, String)], field: &'static str) -> Result<Option<T>, BadSettings> {
    let bad = |text: &str| {
        let bounds = match CHANGEABLE.iter().find(|known| known.name == field).map(|known| &known.input) {
            Some(Input::Number(least, most)) => format!(" from {least} to {most}"),
            _ => ", or it is too large".to_owned(),
        };
        BadSettings { field, why: format!("{text} is not a whole number{bounds}") }
    };
    given(form::field(typed, field)).map(|text| text.parse().map_err(|_| bad(text))).transpose()
}
