//! The commands of the guide for AWS, which need an account, against the description of its services that boto3 has.

use crate::workspace;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tidemill_testkit::skip;

/// Prints what is wrong with commands: a list of lists of words.
const CHECK: &str = "
import json, sys
import botocore.session, botocore.utils
from botocore import xform_name
session = botocore.session.get_session()
wrong = []
for words in json.loads(sys.argv[1]):
    line = ' '.join(words)
    try:
        model = session.get_service_model(words[1])
        names = {xform_name(name, '-'): name for name in model.operation_names}
        shape = model.operation_model(names[words[2]]).input_shape
    except Exception as error:
        wrong.append(f'{line}: {error!r}')
        continue
    known = {'--' + xform_name(name, '-') for name in shape.members} | {'--query', '--output', '--region'}
    # What the command line adds for payloads.
    known |= {'--cli-binary-format'} | ({'--zip-file'} if words[2] == 'create-function' else set())
    given = {word for word in words[3:] if word.startswith('--')}
    needed = {'--' + xform_name(name, '-') for name in shape.required_members}
    if words[1:3] == ['lambda', 'create-function']:
        needed.discard('--code')
    wrong += [f'{line}: unknown {flag}' for flag in sorted(given - known)]
    wrong += [f'{line}: missing {flag}' for flag in sorted(needed - given)]
print(json.dumps(wrong))
";

/// The commands of `aws` in the blocks of a document, as words.
fn commands(document: &str) -> Vec<Vec<String>> {
    let blocks = document.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let lines =
        blocks.flat_map(|block| block.replace("\\\n", " ").lines().map(str::to_owned).collect::<Vec<_>>());
    let commands = lines.filter(|line| line.starts_with("aws "));
    commands.map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
}

fn wrong(python: &Path, commands: &[Vec<String>]) -> Value {
    let asked = Command::new(python).args(["-c", CHECK, &json!(commands).to_string()]).output().unwrap();
    assert!(asked.status.success(), "{}", String::from_utf8_lossy(&asked.stderr));
    serde_json::from_slice(&asked.stdout).unwrap()
}

#[test]
fn the_commands_for_aws_have_the_flags_that_its_services_know() {
    let found = skip::require("boto3", std::env::var_os("TIDEMILL_TEST_BOTO3_PYTHON"));
    let Some(python) = found.map(PathBuf::from) else { return };
    let guide = fs::read_to_string(workspace().join("docs/guide/lambda.md")).unwrap();

    let commands = commands(&guide);

    assert!(commands.len() >= 5, "{commands:?}");
    assert_eq!(wrong(&python, &commands), json!([]));
    for (before, after) in
        [("--memory-size ", "--memry-size "), ("lambda create-function", "lambda make-function")]
    {
        let text = guide.replacen(before, after, 1);
        assert!(
            wrong(&python, &self::commands(&text)).as_array().is_some_and(|all| !all.is_empty()),
            "{after}"
        );
    }
}

#[test]
fn every_variable_of_the_guide_is_one_of_the_function() {
    let guide = fs::read_to_string(workspace().join("docs/guide/lambda.md")).unwrap();
    let source = fs::read_to_string(workspace().join("crates/lambda/src/environment.rs")).unwrap();
    let (source, _) = source.split_once("#[cfg(test)]").unwrap();
    let names = |text: &str| -> Vec<String> {
        let parts = text.split("TIDEMILL_").skip(1);
        let name = |rest: &str| {
            rest.split(|c: char| !c.is_ascii_uppercase() && c != '_').next().unwrap_or_default().to_owned()
        };
        parts.map(name).filter(|name| !name.is_empty()).collect()
    };

    let (told, known) = (names(&guide), names(source));

    let rows: Vec<&String> = known.iter().filter(|name| !told.contains(name) && *name != "TEST_").collect();
    assert_eq!(rows, Vec::<&String>::new(), "not in the guide");
    assert!(told.iter().all(|name| known.contains(name)), "{told:?}");
}
