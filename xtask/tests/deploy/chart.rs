//! The Helm chart: Helm lints and renders it, and kubeconform compares the objects with the API of Kubernetes.

use crate::{Said, read, run, schemas, tools};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const CHART: &str = "helm/tidemill";

/// Sets of values, each with the kinds of objects that come of it.
const SETS: [(&str, &str, &[&str]); 5] = [
    (
        "the least that there must be",
        "database: { url: 'postgres://tidemill@db/app' }",
        &["Deployment", "Job", "PodDisruptionBudget", "Service"],
    ),
    (
        "a password in the values, and an owner who migrates",
        "database:
  url: postgres://tidemill@db/app
  password: first-word
  migrate: { url: 'postgres://owner@db/app', password: second-word }
podDisruptionBudget: { enabled: false }",
        &["Deployment", "Job", "Secret", "Secret", "Service"],
    ),
    (
        "Secrets of one's own",
        "database:
  url: postgres://tidemill@db/app
  existingSecret: { name: mine }
  migrate: { url: 'postgres://owner@db/app', existingSecret: { name: owner, key: word } }
migrate: { resources: { limits: { memory: 64Mi } } }
imagePullSecrets: [{ name: registry }]
server: { replicas: 3, data: { persistentVolumeClaim: { claimName: output } }, service: { type: LoadBalancer, port: 8080 } }",
        &["Deployment", "Job", "PodDisruptionBudget", "Service"],
    ),
    (
        "everything",
        "database: { url: 'postgres://tidemill@db/app', password: one }
config: |
  [server]
  instance = \"night\"
env: [{ name: KAFKA_BOOTSTRAP_SERVERS, value: 'kafka:9092' }]
jobs: { a.yaml: \"job: a\" }
relay: { replicas: 2 }
render:
  replicas: 1
  url: http://nexrender:3000
  existingSecret: { name: nexrender }
  nas: { nfs: { server: nas, path: /video } }
server: { ingress: { enabled: true, host: tidemill.example.com, tlsSecret: web, className: nginx } }
metrics:
  podMonitor: { enabled: true, tokenSecret: { name: token }, labels: { release: prometheus } }
  rules: { enabled: true }
  dashboards: { enabled: true }
podAnnotations: { a: b }
nodeSelector: { disk: fast }
tolerations: [{ key: night, operator: Exists }]
affinity: { nodeAffinity: {} }
extraVolumes: [{ name: authority, configMap: { name: authority } }]
extraVolumeMounts: [{ name: authority, mountPath: /etc/authority, readOnly: true }]
podSecurityContext: { supplementalGroups: [4000] }",
        &[
            "ConfigMap", "ConfigMap", "ConfigMap", "ConfigMap", "ConfigMap", "ConfigMap", "ConfigMap", "Deployment",
            "Deployment", "Deployment", "Ingress", "Job", "PodDisruptionBudget", "PodDisruptionBudget",
            "PodDisruptionBudget", "PodMonitor", "PrometheusRule", "Secret", "Secret", "Service",
        ],
    ),
    (
        "a database that somebody else migrates",
        "database: { url: 'jdbc:postgresql://db/app?user=tidemill' }
migrate: { enabled: false }
relay: { replicas: 1, sink: 'file:/var/lib/tidemill/events' }
podDisruptionBudget: { enabled: false }",
        &["Deployment", "Deployment", "Service"],
    ),
];

struct Chart {
    tools: PathBuf,
    folder: TempDir,
}

impl Chart {
    fn new() -> Option<Self> {
        let tools = tools()?;
        let folder = tempfile::tempdir().unwrap();
        schemas::write(&tools, folder.path());
        Some(Self { tools, folder })
    }

    fn helm(&self, command: &[&str], values: &str) -> Said {
        let file = self.folder.path().join("values.yaml");
        fs::write(&file, values).unwrap();
        let file = file.display().to_string();
        let arguments = [command, &[CHART, "--values", &file]].concat();
        run(&self.tools.join("helm"), &arguments)
    }

    fn render(&self, values: &str) -> String {
        self.helm(&["template", "night", "--namespace", "batch"], values).succeeds()
    }

    /// Whether the objects are such as Kubernetes knows, and how many of each kind there are.
    fn conform(&self, objects: &str) -> Said {
        let file = self.folder.path().join("objects.yaml");
        fs::write(&file, objects).unwrap();
        let schemas =
            format!("{}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json", self.folder.path().display());
        let file = file.display().to_string();
        let arguments = ["-strict", "-verbose", "-output", "json", "-schema-location", &schemas, &file];
        run(&self.tools.join("kubeconform"), &arguments)
    }
}

fn kinds(report: &str) -> Vec<String> {
    let report: Value = serde_json::from_str(report).unwrap();
    let resources = report["resources"].as_array().unwrap();
    assert!(resources.iter().all(|one| one["status"] == "statusValid"), "{report:#}");
    let mut kinds: Vec<String> =
        resources.iter().map(|one| one["kind"].as_str().unwrap().to_owned()).collect();
    kinds.sort();
    kinds
}

#[test]
fn every_set_of_values_gives_objects_that_kubernetes_knows() {
    let Some(chart) = Chart::new() else { return };
    for (about, values, expected) in SETS {
        let linted = chart.helm(&["lint", "--strict"], values);
        assert!(linted.is_fine, "{about}: {}{}", linted.stdout, linted.stderr);
        let objects = chart.render(values);

        let said = chart.conform(&objects);

        assert!(said.is_fine, "{about}: {}{}", said.stdout, said.stderr);
        assert_eq!(kinds(&said.stdout), expected, "{about}");
    }
}

#[test]
fn kubeconform_would_find_a_field_that_kubernetes_does_not_know() {
    let Some(chart) = Chart::new() else { return };
    let objects = chart.render(SETS[3].1);
    for (from, to, complaint) in [
        ("readOnlyRootFilesystem: true", "readOnlyRootFileSystem: true", "readOnlyRootFileSystem"),
        (
            "terminationGracePeriodSeconds: 40",
            "terminationGracePeriodSeconds: soon",
            "terminationGracePeriodSeconds",
        ),
        ("failureThreshold: 60", "failures: 60", "failures"),
        ("podMetricsEndpoints:", "podMetricEndpoints:", "podMetric"),
        ("backoffLimit: 3", "kind: Job", "kind"),
        ("kind: Ingress", "kind: Ingres", "could not find schema"),
    ] {
        assert!(objects.contains(from), "{from}");

        chart.conform(&objects.replacen(from, to, 1)).fails(complaint);
    }
}

#[test]
fn values_that_are_missing_or_misspelt_are_refused_with_their_names() {
    let Some(chart) = Chart::new() else { return };
    let url = "database: { url: 'postgres://tidemill@db/app' }";
    for (values, complaint) in [
        (String::new(), "database.url is needed"),
        ("database: { url: 'sqlite://tidemill.db' }".to_owned(), "/database/url"),
        (format!("{url}\nservers: {{ replicas: 2 }}"), "servers"),
        (format!("{url}\nserver: {{ replica: 2 }}"), "replica"),
        (format!("{url}\nserver: {{ ingress: {{ enabled: true }} }}"), "server.ingress.host"),
        (format!("{url}\nmetrics: {{ podMonitor: {{ enabled: true }} }}"), "tokenSecret.name"),
        (format!("{url}\nrender: {{ replicas: 1, nas: {{ emptyDir: {{}} }} }}"), "render.url"),
        (format!("{url}\nrender: {{ replicas: 1, url: 'http://n' }}"), "render.nas"),
    ] {
        chart.helm(&["template", "night"], &values).fails(complaint);
    }
}

/// The rendered file of a template.
fn of<'a>(objects: &'a str, template: &str) -> Vec<&'a str> {
    let head = format!("# Source: tidemill/templates/{template}.yaml\n");
    objects.split("\n---\n").filter(|object| object.contains(&head)).collect()
}

#[test]
fn no_container_runs_as_root_or_writes_its_root_file_system() {
    let Some(chart) = Chart::new() else { return };
    let objects = chart.render(SETS[3].1);
    let pods: Vec<&str> = objects.split("\n---\n").filter(|object| object.contains("containers:")).collect();

    assert_eq!(pods.len(), 4);
    for pod in pods {
        for line in [
            "runAsNonRoot: true",
            "runAsUser: 10001",
            "readOnlyRootFilesystem: true",
            "allowPrivilegeEscalation: false",
            "drop: [ALL]",
            "type: RuntimeDefault",
            "automountServiceAccountToken: false",
            "enableServiceLinks: false",
        ] {
            assert!(pod.contains(line), "{line} is not in\n{pod}");
        }
    }
    assert!(read("deploy/Dockerfile").contains("\nUSER 10001:10001\n"));
}

#[test]
fn every_pod_has_what_is_set_for_all_and_none_changes_the_files_of_the_nas() {
    let Some(chart) = Chart::new() else { return };
    let objects = chart.render(SETS[3].1);
    let pods: Vec<&str> = objects.split("\n---\n").filter(|object| object.contains("containers:")).collect();

    assert_eq!(pods.len(), 4);
    for pod in pods {
        for line in [
            "name: KAFKA_BOOTSTRAP_SERVERS",
            "disk: fast",
            "key: night",
            "nodeAffinity: {}",
            "mountPath: /etc/authority",
            "configMap:",
            "- 4000",
        ] {
            assert!(pod.contains(line), "{line} is not in\n{pod}");
        }
        let is_render = pod.contains("app.kubernetes.io/component: render");
        assert_eq!(pod.contains("fsGroup: 10001"), !is_render, "{pod}");
        assert_eq!(pod.contains("fsGroupChangePolicy: OnRootMismatch"), !is_render, "{pod}");
    }
}

#[test]
fn a_new_password_in_the_values_replaces_the_pods() {
    let Some(chart) = Chart::new() else { return };
    let checksum = |values: &str| {
        let objects = chart.render(values);
        objects.lines().find(|line| line.contains("checksum/config")).unwrap().to_owned()
    };

    let changed = SETS[1].1.replace("first-word", "another-word");

    assert_ne!(checksum(SETS[1].1), checksum(&changed));
}

#[test]
fn the_schema_is_migrated_first_by_the_owner_with_a_password_that_is_there_by_then() {
    let Some(chart) = Chart::new() else { return };
    let objects = chart.render(SETS[1].1);
    let (migrate, server) = (of(&objects, "migrate"), of(&objects, "server"));

    let job = migrate.iter().find(|object| object.contains("kind: Job")).unwrap();
    let secret = migrate.iter().find(|object| object.contains("kind: Secret")).unwrap();
    assert!(job.contains("helm.sh/hook: pre-install,pre-upgrade") && job.contains("args: [db, migrate]"));
    assert!(job.contains("postgres://owner@db/app") && job.contains("name: night-tidemill-migrate\n"));
    assert!(
        secret.contains("helm.sh/hook: pre-install,pre-upgrade")
            && secret.contains("helm.sh/hook-weight: \"-1\"")
    );
    assert!(
        secret.contains("password: \"second-word\"") && secret.contains("name: night-tidemill-migrate\n")
    );
    let server = server.iter().find(|object| object.contains("kind: Deployment")).unwrap();
    assert!(
        server.contains("postgres://tidemill@db/app")
            && !server.contains("owner")
            && !server.contains("-word")
    );
    let given = chart.render(SETS[2].1);
    assert!(
        !given.contains("kind: Secret") && given.contains("name: mine\n") && given.contains("key: word\n")
    );
}

#[test]
fn the_server_is_probed_and_scraped_where_it_answers() {
    let Some(chart) = Chart::new() else { return };
    let objects = chart.render(SETS[3].1);
    let server = of(&objects, "server").concat();
    let routes = read("docs/reference/http.md");

    for path in ["/healthz/startup", "/healthz/live", "/healthz/ready"] {
        assert!(server.contains(&format!("httpGet: {{ path: {path}, port: http }}")), "{path}");
        assert!(routes.contains(&format!("| `GET` | `{path}` | nothing |")), "{path}");
    }
    assert!(server.contains("containerPort: 7790") && server.contains("\"0.0.0.0:7790\""));
    let monitor =
        of(&objects, "metrics").into_iter().find(|object| object.contains("kind: PodMonitor")).unwrap();
    let selector = "app.kubernetes.io/component: server";
    assert!(monitor.contains("path: /metrics") && monitor.matches(selector).count() == 2, "{monitor}");
}

/// The metrics have the label `job`, which Prometheus would replace by its own.
#[test]
fn prometheus_keeps_the_label_job_of_the_metrics() {
    let template = read(&format!("deploy/{CHART}/templates/metrics.yaml"));
    assert_eq!(
        template.matches("\n    - port: ").count(),
        template.matches("\n      honorLabels: true\n").count()
    );

    let page = read("docs/reference/metrics.md");
    assert_eq!(page.matches("- job_name: ").count(), page.matches("\n    honor_labels: true").count());
}

#[test]
fn the_chart_has_the_version_of_the_program() {
    let version = format!("ersion: {}\n", env!("CARGO_PKG_VERSION"));

    assert_eq!(read(&format!("deploy/{CHART}/Chart.yaml")).matches(&version).count(), 2);
    assert!(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy").join(CHART).join("files/rules.yaml").exists()
    );
}

/// The block of a guide that is the file of this name.
fn shown<'a>(guide: &'a str, name: &str) -> &'a str {
    let (_, rest) = guide.split_once(&format!("<!-- file: {name} -->\n```yaml\n")).unwrap();
    rest.split("```").next().unwrap()
}

#[test]
fn the_values_of_the_guide_are_values_of_the_chart() {
    let Some(chart) = Chart::new() else { return };
    let guide = read("docs/guide/kubernetes.md");

    let objects = chart.render(shown(&guide, "values.yaml"));

    kinds(&chart.conform(&objects).succeeds());
    // What its commands name is there.
    let objects = objects.replace("night-tidemill", "tidemill");
    for (_, name) in
        guide.match_indices("deploy/tidemill-").map(|(at, _)| guide[at..].split_once('/').unwrap())
    {
        let name =
            name.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-').next().unwrap();
        assert!(objects.contains(&format!("kind: Deployment\nmetadata:\n  name: {name}\n")), "{name}");
    }
}
