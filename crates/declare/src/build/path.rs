//! Paths of files: which values they may contain, and where the files may be.

use super::names::rendered;
use super::{Builder, Built};
use crate::expression::CONTEXT;
use crate::model::{At, ChunkFile, Names, PartitionBy};
use crate::template::Template;
use std::path::{Path, PathBuf};
use tidemill_domain::code::Code;
use tidemill_domain::item::{ErrorKind, ItemError, Value};
use tidemill_domain::job::JobParameters;
use tidemill_domain::job::parameter::{ParameterSpec, leaves_folder};
use tidemill_engine::item::Roots;
use tidemill_engine::job::StepScope;

/// Which files the steps of a job may read and write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reach {
    /// All, because the user who gives the parameters runs the process.
    Any,
    /// Those that the job file names. A path with parameters must lead to the folder before the first parameter, the
    /// folder of the job file, or the working folder.
    Named,
    /// Those in these folders, whatever the job file says.
    Within(Vec<PathBuf>),
}

#[derive(Clone, Debug)]
pub(super) struct FilePath {
    template: Template,
    specs: Vec<ParameterSpec>,
    pub(super) roots: Option<Roots>,
}

impl Builder<'_> {
    /// `chunk` tells how the step is divided.
    pub(super) fn path(&self, text: &At<String>, chunk: Option<&ChunkFile>) -> Built<FilePath> {
        let template = self.template(text)?;
        let by = chunk.and_then(|chunk| chunk.partitions.as_ref()).map(|partitions| &partitions.value.by);
        let pattern = match by {
            Some(PartitionBy::File { pattern } | PartitionBy::RowGroup { pattern }) => {
                Some(self.template(pattern)?)
            }
            _ => None,
        };
        let roots = self.roots(&template, pattern.as_ref());
        Ok(FilePath { template, specs: self.file.specs(), roots })
    }

    fn roots(&self, template: &Template, pattern: Option<&Template>) -> Option<Roots> {
        match self.building.reach {
            Reach::Any => None,
            Reach::Within(folders) => Some(Roots::new(folders)),
            Reach::Named if template.names().is_empty() => None,
            Reach::Named => {
                // `${file}` of a partition is one of the files of the pattern.
                let named =
                    [Some(template), pattern].into_iter().flatten().filter_map(Template::fixed_folder);
                let beside = self.file.path.parent().filter(|folder| !folder.as_os_str().is_empty());
                let own = beside.into_iter().chain([Path::new(".")]).filter(|folder| !is_everything(folder));
                Some(Roots::new(named.map(Path::new).chain(own)))
            }
        }
    }
}

/// Whether it is the root folder. A service without a working folder runs there.
fn is_everything(folder: &Path) -> bool {
    folder.canonicalize().is_ok_and(|folder| folder.parent().is_none())
}

impl FilePath {
    pub(super) fn rendered(&self, scope: &StepScope, names: &Names) -> Result<String, ItemError> {
        let is_of_partition = |name: &str| scope.context().get(name).is_some();
        let used = self.template.names().iter().map(|(name, _)| name.as_str());
        let used = used.filter(|name| !(*name == "file" && is_of_partition(name)));
        accepted(used.clone(), scope.parameters(), &self.specs)?;
        for name in used.filter(|name| !self.specs.iter().any(|spec| spec.name == **name)) {
            // Data of other people may be in it, as in a parameter.
            let value = name.strip_prefix(CONTEXT).and_then(|name| scope.job_context().get(name));
            let text = value.map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
            if let Some(what) = text.as_deref().and_then(leaves_folder) {
                let text = format!("the value {name} becomes a part of a path and must not {what}");
                return Err(ItemError::new(ErrorKind::FATAL, text));
            }
        }
        rendered(&self.template, names)
    }

    /// Keeps a reader or writer within the roots.
    pub(super) fn limit<T>(&self, of: T, within: impl FnOnce(T, Roots) -> T) -> T {
        match &self.roots {
            Some(roots) => within(of, roots.clone()),
            None => of,
        }
    }

    /// The roots, if parameters are part of the path.
    pub(super) fn roots_of_values(&self) -> Option<&Roots> {
        self.roots.as_ref().filter(|_| !self.template.names().is_empty())
    }
}

pub(super) fn argument(
    template: &Template,
    scope: &StepScope,
    names: &Names,
    specs: &[ParameterSpec],
) -> Result<String, ItemError> {
    accepted(template.first_names(), scope.parameters(), specs)?;
    let is_option = |name: &&str| match names.get(*name) {
        Some(Value::Text(text)) => name.starts_with(CONTEXT) && text.starts_with('-'),
        _ => false,
    };
    if let Some(name) = template.first_names().find(is_option) {
        let text = format!("the value {name} begins with -, so the program would take it for an option");
        return Err(ItemError::fatal(text));
    }
    rendered(template, names)
}

/// Refuses unsafe values. A launch refuses them too; this is for values that came into the database by another way.
fn accepted<'n>(
    names: impl Iterator<Item = &'n str>,
    parameters: &JobParameters,
    specs: &[ParameterSpec],
) -> Result<(), ItemError> {
    for name in names {
        let spec = specs.iter().find(|spec| spec.name == name);
        if let (Some(spec), Some(parameter)) = (spec, parameters.get(name))
            && let Err(refusal) = spec.accepted.check(&parameter.value)
        {
            let text = format!("the parameter {name:?} {refusal}");
            return Err(ItemError::fatal(text).coded(Code::BadJobParameters));
        }
    }
    Ok(())
}
