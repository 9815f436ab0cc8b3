//! JSON schemas of the objects of Kubernetes, made of the description that its API server gives, and of those of the Prometheus
//! operator, made of its own definitions. They are strict: a field that the description does not have is refused.

use serde_json::{Map, Value, json};
use std::fs;
use std::path::Path;

/// The objects of the chart, by their name in the description of the API.
const KINDS: [&str; 7] = [
    "io.k8s.api.apps.v1.Deployment",
    "io.k8s.api.batch.v1.Job",
    "io.k8s.api.core.v1.ConfigMap",
    "io.k8s.api.core.v1.Secret",
    "io.k8s.api.core.v1.Service",
    "io.k8s.api.networking.v1.Ingress",
    "io.k8s.api.policy.v1.PodDisruptionBudget",
];

/// Writes a file for each kind, under the name by which kubeconform asks for it.
pub(crate) fn write(tools: &Path, folder: &Path) {
    let read =
        |name: &str| -> Value { serde_json::from_slice(&fs::read(tools.join(name)).unwrap()).unwrap() };
    let api = read("swagger.json");
    for kind in KINDS {
        let mut definitions = Map::new();
        collect(kind, &api["definitions"], &mut definitions);
        let of = &api["definitions"][kind]["x-kubernetes-group-version-kind"][0];
        let group = of["group"].as_str().unwrap().split('.').next().unwrap();
        let file = [of["kind"].as_str().unwrap(), group, of["version"].as_str().unwrap()];
        let schema = json!({ "$ref": format!("#/definitions/{kind}"), "definitions": definitions });
        save(folder, &file, &schema);
    }
    for name in ["podmonitors-crd.json", "prometheusrules-crd.json"] {
        let definition = read(name);
        let version = &definition["spec"]["versions"][0];
        let mut schema = version["schema"]["openAPIV3Schema"].clone();
        make_strict(&mut schema);
        let kind = definition["spec"]["names"]["kind"].as_str().unwrap();
        save(folder, &[kind, "monitoring", version["name"].as_str().unwrap()], &schema);
    }
}

fn save(folder: &Path, name: &[&str], schema: &Value) {
    let parts: Vec<String> =
        name.iter().filter(|part| !part.is_empty()).map(|part| part.to_lowercase()).collect();
    fs::write(folder.join(format!("{}.json", parts.join("-"))), schema.to_string()).unwrap();
}

/// A definition and all that it refers to.
fn collect(name: &str, all: &Value, found: &mut Map<String, Value>) {
    if found.contains_key(name) {
        return;
    }
    let mut definition = all[name].clone();
    let text = definition.to_string();
    make_strict(&mut definition);
    found.insert(name.to_owned(), definition);
    for rest in text.split("\"#/definitions/").skip(1) {
        collect(rest.split('"').next().unwrap(), all, found);
    }
}

fn make_strict(schema: &mut Value) {
    if schema["format"] == "int-or-string" {
        *schema = json!({ "type": ["integer", "string"] });
    }
    let Value::Object(fields) = schema else { return };
    // Formats such as int32 are those of Go.
    fields.remove("format");
    let is_open = fields.contains_key("additionalProperties");
    if let Some(Value::Object(properties)) = fields.get_mut("properties") {
        properties.values_mut().for_each(make_strict);
        if !is_open {
            fields.insert("additionalProperties".to_owned(), false.into());
        }
    }
    for inner in ["items", "additionalProperties"] {
        fields.get_mut(inner).into_iter().for_each(make_strict);
    }
}
