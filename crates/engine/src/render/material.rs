//! The material of a render: its data, and the profile and field mapping of its composition. Checked before it is
//! queued.

use serde_json::Value;
use tidemill_domain::code::Code;
use tidemill_domain::lease::Epoch;
use tidemill_domain::nearest::did_you_mean;
use tidemill_domain::render::blank;
use tidemill_domain::render::document::{BadDocument, Ingredients, build};
use tidemill_domain::render::gfx::{self, BadGfx, GfxData};
use tidemill_domain::render::mapping::{self, BadMapping, MappingRow};
use tidemill_domain::render::profile::{UnsafeComposition, check_composition};
use tidemill_domain::render::{AllowList, Mapping, NodePath, Profile, RenderId, Uid};
use tidemill_store::{StoreError, Tx};

#[derive(Clone, PartialEq, Debug)]
pub struct Material {
    /// The data as it was given.
    pub data: Value,
    pub gfx: GfxData,
    pub profile: Profile,
    pub mapping: Mapping,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadMaterial {
    #[error(transparent)]
    Data(#[from] BadGfx),
    #[error("the data names no composition")]
    NoComposition,
    #[error(transparent)]
    Composition(#[from] UnsafeComposition),
    #[error("there is no profile of the composition {name:?}")]
    UnknownComposition { name: String, known: Vec<String> },
    #[error("the field mapping of the composition is damaged: {0}")]
    Mapping(#[from] BadMapping),
    #[error(transparent)]
    Document(#[from] BadDocument),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl BadMaterial {
    pub fn code(&self) -> Code {
        match self {
            Self::Data(bad) => bad.code(),
            Self::NoComposition | Self::UnknownComposition { .. } => Code::UnknownComposition,
            Self::Composition(bad) => bad.code(),
            Self::Mapping(bad) => bad.code(),
            Self::Document(bad) => bad.code(),
            Self::Store(error) => error.code(),
        }
    }

    /// Everything that is wrong, one entry each.
    pub fn problems(&self) -> Vec<String> {
        match self {
            Self::Document(bad) => bad.problems.iter().map(ToString::to_string).collect(),
            Self::Data(BadGfx::Malformed { problems }) => problems.clone(),
            Self::Mapping(bad) => bad.problems.iter().map(|(row, why)| format!("row {row}: {why}")).collect(),
            other => vec![other.to_string()],
        }
    }

    pub fn fix(&self) -> String {
        match self {
            Self::Data(BadGfx::TooLarge { .. }) => "put images into files, and write their paths into the data".into(),
            Self::Data(_) => "correct the data; the guide of renders shows what it looks like".into(),
            Self::NoComposition => "add composition_name to the data, or give the composition beside it".into(),
            Self::Composition(_) => "rename the composition in the template and in its profile".into(),
            Self::UnknownComposition { name, known } => format!(
                "{}see `tidemill render profile list`, or add one: `tidemill render profile import FILE`",
                did_you_mean(name, known)
            ),
            Self::Mapping(_) => "import the mapping again: `tidemill render mapping import FILE`".into(),
            Self::Document(bad) => match bad.code() {
                Code::FieldsNotMapped => {
                    "add the fields to the mapping or to the data; `tidemill render mapping list` shows what is mapped".into()
                }
                Code::NotOnAllowList => {
                    "correct the path, or allow it: render.template_folders, render.asset_folders, render.schemes".into()
                }
                _ => "correct the data, the mapping or the profile".into(),
            },
            Self::Store(error) => error.fix(),
        }
    }
}

impl Material {
    /// Reads the data, and loads profile and mapping of the given composition, or of the one that the data names.
    #[crate::boxed]
    pub async fn read(tx: &mut Tx, text: &str, composition: Option<&str>) -> Result<Self, BadMaterial> {
        let (gfx, name) = understand(text, composition)?;
        let Some(profile) = tx.renders().profile(&name).await? else {
            return Err(unknown(&name, &tx.renders().profiles().await?));
        };
        let rows = tx.renders().field_mappings(Some(&name)).await?;
        Self::of(text, gfx, profile, &rows)
    }

    /// [`read`](Self::read) with profiles and mappings that are not in the database.
    pub fn of_files(
        text: &str,
        composition: Option<&str>,
        profiles: &[Profile],
        rows: &[MappingRow],
    ) -> Result<Self, BadMaterial> {
        let (gfx, name) = understand(text, composition)?;
        let profile = profiles.iter().find(|profile| profile.composition == name);
        let profile = profile.ok_or_else(|| unknown(&name, profiles))?.clone();
        let rows: Vec<MappingRow> = rows.iter().filter(|row| row.composition == name).cloned().collect();
        Self::of(text, gfx, profile, &rows)
    }

    fn of(text: &str, gfx: GfxData, profile: Profile, rows: &[MappingRow]) -> Result<Self, BadMaterial> {
        let mapping = mapping::read(rows)?.remove(&profile.composition).unwrap_or_default();
        let data = serde_json::from_str(text).map_err(|error| BadGfx::NotJson { why: error.to_string() })?;
        Ok(Self { data, gfx, profile, mapping })
    }

    /// What of the template stays empty.
    pub fn warnings(&self) -> Vec<String> {
        blank::warnings(&self.gfx, &self.mapping)
    }

    /// Whether everything fits together. Without an allow list, workers check what may be used.
    pub fn check(&self, allow: Option<&AllowList>) -> Result<(), BadMaterial> {
        let anything = AllowList::default();
        let staging = NodePath::parse("/").expect("the root is a path");
        let ingredients = Ingredients {
            uid: Uid::new(RenderId::new(0), Epoch::new(0)),
            gfx: &self.gfx,
            mapping: &self.mapping,
            profile: &self.profile,
            staging: &staging,
            allow: allow.unwrap_or(&anything),
            priority: 0,
            tags: None,
        };
        let Err(mut bad) = build(ingredients) else { return Ok(()) };
        if allow.is_none() {
            bad.problems.retain(|problem| problem.code() != Code::NotOnAllowList);
        }
        if bad.problems.is_empty() { Ok(()) } else { Err(bad.into()) }
    }
}

fn unknown(name: &str, profiles: &[Profile]) -> BadMaterial {
    let known = profiles.iter().map(|profile| profile.composition.clone()).collect();
    BadMaterial::UnknownComposition { name: name.to_owned(), known }
}

fn understand(text: &str, composition: Option<&str>) -> Result<(GfxData, String), BadMaterial> {
    let gfx = gfx::read(text)?;
    let name = composition.or(gfx.composition.as_deref()).ok_or(BadMaterial::NoComposition)?.to_owned();
    check_composition(&name)?;
    Ok((gfx, name))
}
