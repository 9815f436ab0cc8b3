//! `render init`: writes a configuration with which workers and servers render, and checks it.

use super::Setup;
use crate::commands::init::{refuse_to_replace, write_new};
use crate::commands::prelude::*;
use crate::commands::{Flag, doctor, given};
use crate::config::{self, Kind, Loaded, Origin, Secret, Sources, holds_password, key};
use crate::declared::Definitions;
use crate::system;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, IsTerminal};
use std::path::Path;

#[derive(Args, Debug)]
pub(crate) struct Init {
    /// URL of nexrender, such as http://render01:3000
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Mount point of the NAS on this host
    #[arg(long, value_name = "PATH")]
    mount: Option<String>,
    /// The folder above the output folder, as render nodes see it, such as \\NAS\broadcast
    #[arg(long, value_name = "PATH")]
    nas_on_nodes: Option<String>,
    /// Folder of After Effects projects, as render nodes see it
    #[arg(long, value_name = "PATH")]
    templates: Option<String>,
    /// Name of the worker
    #[arg(long)]
    name: Option<String>,
    /// The mount point is a folder of a local disk
    #[arg(long)]
    local_disk: bool,
    /// Replace existing files
    #[arg(long)]
    force: bool,
}

impl Init {
    pub(super) fn as_flags(&self) -> Vec<Flag> {
        given([
            ("render.url", "--url", &self.url),
            ("render.mount", "--mount", &self.mount),
            ("render.template_folders", "--templates", &self.templates),
            ("render.worker", "--name", &self.name),
            ("render.mount_check", "--local-disk", &self.local_disk.then(|| false.to_string())),
        ])
    }
}

const FILE: &str = "tidemill.toml";
const OLD: &str = "tidemill.toml.old";
const REPLACE: &str = "use another folder, or replace them with --force";

const URL: &str = "render.url";
const SECRET: &str = "render.secret";
const PATHS: &str = "render.paths";

/// Keys of other tables that a worker may need.
const OF_DATABASE: [&str; 2] = ["database.url", "database.password"];

const MOUNT: &str = if cfg!(windows) {
    "Share of the NAS, such as \\\\NAS\\broadcast"
} else {
    "Mount point of the NAS on this host, such as /mnt/nas"
};

/// What is asked on a terminal: key, how to give it without one (empty if it is optional), and question.
const QUESTIONS: [(&str, &str, &str); 4] = [
    (URL, "--url or NEXRENDER_API_URL", "URL of nexrender, such as http://render01:3000"),
    (SECRET, "", "Secret of nexrender; empty if it has none"),
    ("render.mount", "--mount or NAS_MOUNT_PATH", MOUNT),
    (
        "render.template_folders",
        "--templates or AEP_TEMPLATE_DIR",
        "Folder of After Effects projects, as render nodes see it, such as D:\\templates",
    ),
];

/// The values of keys.
type Values = BTreeMap<&'static str, String>;

pub(super) async fn run(arguments: &Init, context: &Context) -> Result<Exit> {
    if !arguments.force {
        refuse_to_replace(Path::new("."), &[FILE], REPLACE)?;
    }
    let mut values = given_values(&context.loaded);
    let is_asked = io::stdin().is_terminal() && io::stderr().is_terminal();
    ask_for_missing(&mut values, is_asked)?;
    map_nas(arguments.nas_on_nodes.clone(), &mut values, is_asked)?;
    let files = files(&values);
    let loaded = tried(&files)?;
    let setup = Setup::read(&loaded.settings.render)?;
    setup
        .check_nodes()
        .map_err(|bad| bad.with_fix("add --nas-on-nodes with that Windows path".to_owned()))?;
    let written: Vec<(&str, &str)> =
        files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    if arguments.force {
        keep_replaced(context)?;
    }
    write_new(Path::new("."), &written, arguments.force, REPLACE)?;
    written.iter().for_each(|(name, _)| context.note(&format!("wrote {name}")));
    if !make_folders(&setup, loaded.settings.render.mount_check) {
        let mount = &setup.mount;
        context.note(&format!(
            "nothing is mounted at {mount}: if it is a folder of a local disk, add --local-disk"
        ));
    }
    let context_after = Context::new(loaded, Definitions::default(), None, Path::new(&context.program));
    let checks = doctor::renders(&context_after).await?;
    doctor::print(&checks, context.output())?;
    if checks.iter().any(|(_, seen)| seen.is_err()) {
        context.note("Fix what failed, and check again with `tidemill doctor`. Then:");
        context.note("  tidemill db migrate\n  tidemill render template scan FILE --import");
        return Ok(Exit::Failure);
    }
    context.done("Next:\n  tidemill db migrate\n  tidemill render template scan FILE --import")
}

/// A configuration that is replaced may have tables of others, such as channels and keys. Only ours are taken over.
fn keep_replaced(context: &Context) -> Result<()> {
    match fs::rename(FILE, OLD) {
        Ok(()) => {
            context.note(&format!("the configuration before is {OLD}; copy what else you need from it"))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => {
            let what = format!("cannot rename {FILE} to {OLD}");
            return Err(Failure::new(Code::OutputFailed, what, "use a writable folder").because(error));
        }
    }
    Ok(())
}

/// The values that flags, variables or a file that is replaced give.
fn given_values(loaded: &Loaded) -> Values {
    let settings = &loaded.settings;
    let replaced = std::env::current_dir().unwrap_or_default().join(FILE);
    let is_given = |origin: &Origin| match origin {
        Origin::Default | Origin::Demo => false,
        Origin::File { path, .. } => *path == replaced,
        Origin::Env(_) | Origin::EnvFile(..) | Origin::Flag(_) => true,
    };
    let text = |secret: &Option<Secret>| secret.as_ref().map(|secret| secret.expose().to_owned());
    let ours = loaded.values.iter().filter(|value| is_given(&value.origin));
    ours.filter(|value| value.path.starts_with("render.") || OF_DATABASE.contains(&value.key.path))
        .filter_map(|value| {
            let text = match value.key.path {
                URL => text(&settings.render.url),
                SECRET => text(&settings.render.secret),
                "database.url" => Some(settings.database.url.expose().to_owned()),
                "database.password" => text(&settings.database.password),
                _ => Some(value.shown.clone()),
            };
            Some((value.key.path, text?))
        })
        .collect()
}

fn ask_for_missing(values: &mut Values, is_asked: bool) -> Result<()> {
    let mut missing = Vec::new();
    for (key, flag, question) in QUESTIONS {
        let is_optional = flag.is_empty();
        if values.contains_key(key) || (!is_asked && is_optional) {
            continue;
        }
        let answer = if is_asked { ask(question, key == SECRET)? } else { None };
        match answer {
            Some(answer) => drop(values.insert(key, answer)),
            None if is_optional => {}
            None => missing.push(format!("{question}: {flag}")),
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let fix = "add these flags, set these variables, or run the command on a terminal, where it asks";
    let what = "the configuration of a worker needs more values";
    Err(Failure::new(Code::BadRenderSettings, what, fix).because(missing.join("\n")))
}

/// Maps the folder above the output folder to what nodes call it.
fn map_nas(given: Option<String>, values: &mut Values, is_asked: bool) -> Result<()> {
    if given.is_none() && (!is_asked || values.contains_key(PATHS)) {
        return Ok(());
    }
    let Some(shared) = Setup::shared(&tried(&files(values))?.settings.render) else { return Ok(()) };
    let nodes = match given {
        Some(nodes) => Some(nodes),
        None => ask(
            &format!("{shared} on render nodes, such as \\\\NAS\\broadcast; empty if they see the same path"),
            false,
        )?,
    };
    if let Some(nodes) = nodes {
        values.insert(PATHS, format!("{nodes}={shared}"));
    }
    Ok(())
}

/// The answer of the terminal; none if it is empty.
fn ask(question: &str, is_secret: bool) -> Result<Option<String>> {
    let answer = system::ask(question, is_secret).map_err(|error| {
        Failure::new(Code::Usage, "the terminal gave no answer", "use flags instead").because(error)
    })?;
    Ok(Some(answer.trim().to_owned()).filter(|answer| !answer.is_empty()))
}

/// The configuration, and a file for each secret that it refers to.
fn files(values: &Values) -> Vec<(String, String)> {
    let mut text =
        "# Written by `tidemill render init`. `tidemill config show --origin` lists every key.\n".to_owned();
    let mut files = Vec::new();
    for table in ["database", "render"] {
        let of_table = values.iter().filter(|(path, _)| path.split('.').next() == Some(table));
        for (index, (path, value)) in of_table.enumerate() {
            if index == 0 {
                let _infallible = writeln!(text, "\n[{table}]");
            }
            let Some(key) = key::find(path) else { continue };
            let is_secret = match key.kind {
                Kind::Secret => true,
                Kind::Url | Kind::WebUrl => holds_password(value),
                _ => false,
            };
            let shown = match key.kind {
                _ if is_secret => {
                    let name = if *path == SECRET { "nexrender".to_owned() } else { path.replace('.', "_") };
                    files.push((format!("{name}.secret"), format!("{value}\n")));
                    format!("\"file:{name}.secret\"")
                }
                Kind::Number(..) | Kind::Decimal | Kind::Truth => value.clone(),
                _ => quoted(value),
            };
            let _infallible = writeln!(text, "{} = {shown}", key.leaf());
        }
    }
    files.insert(0, (FILE.to_owned(), text));
    files
}

/// A text of TOML, without escapes if it needs none.
fn quoted(text: &str) -> String {
    let is_plain = !text.contains('\'') && !text.chars().any(char::is_control);
    // Its escapes are those of JSON, too.
    if is_plain { format!("'{text}'") } else { json!(text).to_string() }
}

/// Loads the configuration without writing it, and with nothing but it and the environment.
fn tried(files: &[(String, String)]) -> Result<Loaded> {
    let failed = |error: io::Error| {
        Failure::new(Code::OutputFailed, "cannot write a temporary file", "free some space").because(error)
    };
    let folder = tempfile::tempdir().map_err(failed)?;
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    write_new(folder.path(), &files, false, REPLACE)?;
    let mut sources = Sources::from_process()?;
    sources.config_file = Some(folder.path().join(FILE));
    Ok(config::load(&sources)?)
}

/// Makes the folders of the NAS, unless nothing is mounted there: that would fill the disk below. The checks tell what could
/// not be made.
fn make_folders(setup: &Setup, mount_check: bool) -> bool {
    if mount_check && !tidemill_nexrender::is_mounted(&setup.mount) {
        return false;
    }
    for folder in
        [Some(&setup.output), Some(&setup.staging), setup.places.posters.as_ref()].into_iter().flatten()
    {
        let _checked_later = fs::create_dir_all(folder.to_string());
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_in_files_of_their_own_and_texts_read_back() {
        let values = Values::from([
            ("database.url", "postgres://t:pw@db/x".to_owned()),
            (SECRET, "it's".to_owned()),
            (URL, "http://render01:3000".to_owned()),
            ("render.mount_check", "false".to_owned()),
            ("render.worker", "Ann's \"box\" \\ 1".to_owned()),
            (PATHS, "\\\\NAS\\broadcast=/mnt/nas/broadcast".to_owned()),
        ]);

        let files = files(&values);
        let settings = tried(&files).unwrap().settings;

        let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["tidemill.toml", "database_url.secret", "nexrender.secret"]);
        assert!(!files[0].1.contains("pw@") && !files[0].1.contains("it's"), "{}", files[0].1);
        assert_eq!(settings.database.url.expose(), "postgres://t:pw@db/x");
        assert_eq!(settings.render.secret.unwrap().expose(), "it's");
        assert_eq!(settings.render.worker.unwrap(), "Ann's \"box\" \\ 1");
        assert_eq!(settings.render.paths.unwrap(), "\\\\NAS\\broadcast=/mnt/nas/broadcast");
        assert!(!settings.render.mount_check);
    }
}
