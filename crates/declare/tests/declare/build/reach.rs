//! What values of parameters can reach: files of other folders and options of programs only where the author allows it.

use super::Stand;
use std::fs;
use std::os::unix::fs::symlink;
use tidemill_declare::build::Reach;
use tidemill_domain::code::Code;
use tidemill_engine::job::{Job, JobError};
use tidemill_engine::testing::TestRun;
use tidemill_store::scratch::Scratch;

/// A folder `in`, beside a file that nobody may have.
async fn stand() -> Stand {
    let stand = Stand::on(Scratch::memory()).await;
    fs::create_dir(stand.path().join("in")).unwrap();
    stand.write("in/a.jsonl", "{\"a\":1}\n");
    stand.write("secret.jsonl", "{\"s\":1}\n");
    stand
}

/// Copies a file that `path` names to `target`; `name` is declared as told.
fn copy(path: &str, target: &str, name: &str) -> String {
    format!(
        "job: copy\nparameters: {{ name: {{ {name} }} }}\nsteps:\n  - name: copy\n    chunk: 1\n    \
         read: {{ jsonl: {{ path: \"{path}\" }} }}\n    write: {{ jsonl: {{ path: \"{target}\" }} }}\n"
    )
}

fn code_of(run: Result<TestRun, JobError>) -> Option<Code> {
    match run {
        Ok(run) => run.end.code,
        Err(error) => Some(error.code()),
    }
}

async fn given(stand: &Stand, job: &Job, value: &str) -> Option<Code> {
    code_of(stand.launch(job, &[&format!("name={value},string")]).await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_value_does_not_lead_out_of_the_folder_that_the_file_names() {
    let stand = stand().await;
    let read = stand.job(&[&copy("@/in/${name}.jsonl", "@/out.jsonl", "type: string")]);
    let write = stand.job(&[&copy("@/in/a.jsonl", "@/in/${name}.out", "type: string")]);

    for value in ["../secret", "in/../../secret", "..", ".", "a/b", "a\\b", "/etc/passwd"] {
        let refused = stand.launch(&read, &[&format!("name={value},string")]).await.unwrap_err();
        assert_eq!(refused.code(), Code::BadJobParameters, "{value}");
        assert!(refused.to_string().contains("\"name\" becomes a part of a path"), "{refused}");
        assert_eq!(given(&stand, &write, value).await, Some(Code::BadJobParameters), "{value}");
    }
    assert_eq!(given(&stand, &read, "a").await, None);
    assert_eq!(given(&stand, &write, "a-b_1 서울").await, None);
    assert_eq!(stand.content("in/a-b_1 서울.out"), "{\"a\":1}\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_a_pattern_and_an_allowance_say_what_is_accepted() {
    let stand = stand().await;
    let job = |name: &str| stand.job(&[&copy("@/${name}.jsonl", "@/out-${name}.jsonl", name)]);
    fs::create_dir(stand.path().join("out-in")).unwrap();

    let listed = job("type: string, one_of: [in/a, secret]");
    assert_eq!(given(&stand, &listed, "in/a").await, None);
    assert_eq!(given(&stand, &listed, "in/b").await, Some(Code::BadJobParameters));
    let matching = job("type: string, pattern: '[a-z]+|in/.*'");
    assert_eq!(given(&stand, &matching, "secret").await, None);
    assert_eq!(given(&stand, &matching, "SECRET").await, Some(Code::BadJobParameters));
    assert_eq!(given(&stand, &matching, "in/b").await, Some(Code::BadJobParameters), "no path by itself");
    stand.write("in/b.jsonl", "{}\n");
    let allowed = job("type: string, pattern: 'in/[a-z]+', allow: path");
    assert_eq!(given(&stand, &allowed, "in/b").await, None);
    assert_eq!(given(&stand, &allowed, "../x").await, Some(Code::BadJobParameters));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_gets_no_option_and_no_folder_that_its_author_did_not_mean() {
    let stand = stand().await;
    let told = |name: &str| {
        stand.job(&[&format!(
            "job: say\nparameters: {{ name: {{ {name} }} }}\nsteps:\n  - name: say\n    \
             command: [sh, -c, 'echo \"$0 $1\" > @/told', \"${{name}}\", \"--day=${{name}}\"]\n"
        )])
    };

    assert_eq!(given(&stand, &told("type: string"), "--delete").await, Some(Code::BadJobParameters));
    assert_eq!(given(&stand, &told("type: string"), "a/-b").await, None);
    assert_eq!(stand.content("told"), "a/-b --day=a/-b\n");
    assert_eq!(given(&stand, &told("type: string, allow: option"), "--delete").await, None);
    let number = stand.launch(&told("type: long"), &["name=-5"]).await.unwrap();
    assert!(number.is_completed(), "{:?}", number.end);
    let folder = stand.job(&["job: where\nparameters: { name: {} }\nsteps:\n  - name: where\n    \
         command: [pwd]\n    folder: \"@/${name}\"\n"]);
    assert_eq!(given(&stand, &folder, "../..").await, Some(Code::BadJobParameters));
    assert_eq!(given(&stand, &folder, "in").await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_others_launch_stays_in_the_folder_that_stands_before_the_parameter() {
    let stand = stand().await;
    symlink(stand.path().join("secret.jsonl"), stand.path().join("in/link.jsonl")).unwrap();
    symlink(stand.path().join("secret.jsonl"), stand.path().join("in/own.jsonl")).unwrap();
    symlink(stand.path(), stand.path().join("in/up")).unwrap();
    let any = "type: string, allow: path";
    let read = |path: &str, reach: &Reach| stand.reaching(reach, &[&copy(path, "@/in/${name}.out", any)]);
    let named = read("@/in/${name}.jsonl", &Reach::Named);

    for value in ["../secret", "link", "up/secret", "../nowhere"] {
        assert_eq!(given(&stand, &named, value).await, Some(Code::FileNotAllowed), "{value}");
    }
    assert_eq!(given(&stand, &named, "a").await, None);
    // Without a folder of its own it has to be in that of the job file, or in the working folder.
    let bare = stand.reaching(&Reach::Named, &[&copy("${name}", "@/bare.jsonl", any)]);
    let secret = stand.path().join("secret.jsonl");
    assert_eq!(given(&stand, &bare, secret.to_str().unwrap()).await, Some(Code::FileNotAllowed));
    // What the file names by itself is its author's choice, and whoever runs the process chooses freely.
    let fixed = stand.reaching(&Reach::Named, &[&copy("@/secret.jsonl", "@/fixed.jsonl", any)]);
    assert_eq!(given(&stand, &fixed, "x").await, None);
    let own = stand.job(&[&copy("@/in/${name}.jsonl", "@/own.jsonl", any)]);
    assert_eq!(given(&stand, &own, "own").await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_job_writes_outside_of_the_folders_that_were_named() {
    let stand = stand().await;
    fs::create_dir(stand.path().join("out")).unwrap();
    let roots = Reach::Within(vec![stand.path().join("in"), stand.path().join("out")]);
    let to = |target: &str| stand.reaching(&roots, &[&copy("@/in/a.jsonl", target, "type: string")]);

    assert_eq!(given(&stand, &to("@/out/b.jsonl"), "1").await, None);
    assert_eq!(given(&stand, &to("@/b.jsonl"), "2").await, Some(Code::FileNotAllowed));
    assert!(!stand.path().join("b.jsonl.part").exists());
    // A link where the unfinished file would be leads elsewhere.
    symlink(stand.path().join("elsewhere"), stand.path().join("out/c.jsonl.part")).unwrap();
    assert_eq!(given(&stand, &to("@/out/c.jsonl"), "3").await, Some(Code::FileNotAllowed));
    assert!(!stand.path().join("elsewhere").exists());
    let from = stand.reaching(&roots, &[&copy("@/secret.jsonl", "@/out/d.jsonl", "type: string")]);
    assert_eq!(given(&stand, &from, "4").await, Some(Code::FileNotAllowed));
    let reject = copy("@/in/a.jsonl", "@/out/e.jsonl", "type: string")
        + "    process: { map: { a: \"int('x')\" } }\n    skip: { limit: 1, reject: \"@/rejects.csv\" }\n";
    let reject = stand.reaching(&roots, &[&reject]);
    assert_eq!(given(&stand, &reject, "5").await, Some(Code::FileNotAllowed));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partitions_are_files_of_the_folder_that_their_pattern_names() {
    let stand = stand().await;
    stand.write("in/b.jsonl", "{\"a\":2}\n");
    let job = |pattern: &str| {
        stand.reaching(
            &Reach::Named,
            &[&format!(
                "job: parts\nparameters: {{ name: {{ allow: path }} }}\nsteps:\n  - name: parts\n    chunk: 1\n    \
                 partitions: {{ by: file, pattern: \"{pattern}\" }}\n    \
                 read: {{ jsonl: {{ path: \"${{file}}\" }} }}\n    \
                 write: {{ jsonl: {{ path: \"${{file}}.out\" }} }}\n"
            )],
        )
    };

    assert_eq!(given(&stand, &job("@/in/*.jsonl"), "x").await, None);
    assert_eq!(stand.content("in/b.jsonl.out"), "{\"a\":2}\n");
    assert_eq!(given(&stand, &job("@/in/${name}*.jsonl"), "../s").await, Some(Code::FileNotAllowed));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_is_called_checks_what_it_is_given() {
    let stand = stand().await;
    let outer = "job: outer\nparameters: { name: {} }\nsteps:\n  - name: inner\n    job: copy\n    \
                 parameters: { name: \"${name}\" }\n";
    let inner = copy("@/in/${name}.jsonl", "@/inner.jsonl", "type: string");
    let job = stand.job(&[outer, &inner]);

    assert!(given(&stand, &job, "../secret").await.is_some());
    assert!(!stand.path().join("inner.jsonl").exists());
    assert_eq!(given(&stand, &job, "a").await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_finds_of_our_environment_what_its_step_says() {
    let stand = stand().await;
    let env = |words: &str| {
        let text = format!(
            "job: env\nparameters: {{ name: {{}} }}\nsteps:\n  - name: env\n    \
             command: [/bin/sh, -c, 'env > @/told']\n    env: {{ {words}, OWN: \"${{name}}\" }}\n"
        );
        stand.job(&[&text])
    };
    let has = |name: &str| stand.content("told").lines().any(|line| line.starts_with(&format!("{name}=")));
    let is_plain = |name: &String| name.starts_with(['C', 'H', 'L', 'R', 'U']) && name.len() > 3;
    let found: Vec<String> = std::env::vars().map(|(name, _)| name).filter(is_plain).take(2).collect();
    let [ours, other] = found.as_slice() else { panic!("too few variables to test with: {found:?}") };

    assert_eq!(given(&stand, &env("clear: false"), "1").await, None);
    assert!(has(ours) && has(other) && has("OWN"));
    assert_eq!(
        given(&stand, &env(&format!("clear: true, pass: [{ours}, NOBODY_SETS_THIS]")), "2").await,
        None
    );
    assert!(has(ours) && !has(other) && has("OWN") && has("TIDEMILL_JOB"));
}
