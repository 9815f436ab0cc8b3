//! Arguments of `spark-submit`.

use super::*;
use proptest::prelude::*;

fn submission(master: &str, units: u32) -> Submission {
    Submission {
        app: "extract.py".into(),
        args: vec!["--day".into(), "2026-11-15".into()],
        master: Some(master.into()),
        conf: BTreeMap::new(),
        granted: Some(Granted { units, hint: Some("/*+ PARALLEL(4) */".into()) }),
    }
}

#[test]
fn options_come_before_the_application_and_its_own_arguments_last() {
    let arguments = submission("local[*]", 4).arguments().unwrap();

    assert_eq!(
        arguments,
        [
            "--master",
            "local[4]",
            "--conf",
            "spark.tidemill.hint=/*+ PARALLEL(4) */",
            "--conf",
            "spark.tidemill.parallelism=4",
            "extract.py",
            "--day",
            "2026-11-15",
        ]
    );
}

#[test]
fn all_cores_of_the_machine_become_what_was_granted() {
    let limited = |master| submission(master, 3).arguments().unwrap()[1].clone();

    assert_eq!(limited("local[*]"), "local[3]");
    assert_eq!(limited("local[*,2]"), "local[3,2]");
    assert_eq!(limited("local[8]"), "local[8]", "a number is the author's own word");
    assert_eq!(limited("local"), "local");
    assert_eq!(limited("yarn"), "yarn");
}

#[test]
fn on_a_cluster_executors_have_no_more_cores_than_were_granted() {
    let mut submission = submission("yarn", 9);
    submission.conf.insert("spark.executor.cores".into(), "4".into());

    let settings = submission.settings().unwrap();

    assert_eq!(settings["spark.executor.instances"], "2");
    assert_eq!(settings["spark.dynamicAllocation.maxExecutors"], "2");
    assert_eq!(settings["spark.cores.max"], "9");
}

#[test]
fn what_the_author_sets_is_left_alone() {
    let mut submission = submission("yarn", 9);
    submission.conf.insert("spark.executor.instances".into(), "20".into());

    assert_eq!(submission.settings().unwrap()["spark.executor.instances"], "20");
}

#[test]
fn without_a_grant_nothing_is_limited() {
    let mut submission = submission("local[*]", 1);
    submission.granted = None;

    assert_eq!(
        submission.arguments().unwrap(),
        ["--master", "local[*]", "extract.py", "--day", "2026-11-15"]
    );
}

#[test]
fn what_would_not_arrive_as_it_is_is_refused() {
    let with = |key: &str, value: &str| {
        let mut submission = submission("yarn", 1);
        submission.conf.insert(key.into(), value.into());
        submission.arguments().unwrap_err()
    };
    let of_app = |app: &str| Submission { app: app.into(), ..Submission::default() }.arguments().unwrap_err();

    assert_eq!(with("a b", "c"), SubmissionRefusal::Key("a b".into()));
    assert_eq!(with("", "c"), SubmissionRefusal::Key(String::new()));
    assert_eq!(with("a", "b\nc"), SubmissionRefusal::Value("a".into()));
    assert_eq!(with(PARALLELISM_KEY, "99"), SubmissionRefusal::OwnKey(PARALLELISM_KEY.into()));
    assert_eq!(of_app(""), SubmissionRefusal::App(String::new()));
    assert_eq!(of_app("--jars"), SubmissionRefusal::App("--jars".into()));
    assert_eq!(submission("yarn", 0).arguments(), Err(SubmissionRefusal::NothingGranted));
    let mut hinted = submission("yarn", 1);
    hinted.granted = Some(Granted { units: 1, hint: Some("--+ FULL(a)\n".into()) });
    assert_eq!(hinted.arguments(), Err(SubmissionRefusal::Value("the hint".into())));
}

#[test]
fn exceptions_are_told_from_chatter() {
    for chatter in [
        "26/11/15 10:00:00 INFO SparkContext: Running Spark version 4.0.5",
        "26/11/15 10:00:00 WARN NativeCodeLoader: Unable to load native-hadoop library",
        "\tat org.apache.spark.sql.Dataset.show(Dataset.scala:1)",
        "\t... 12 more",
        "",
    ] {
        assert!(is_chatter(chatter), "{chatter}");
    }
    for telling in [
        "Traceback (most recent call last):",
        "ValueError: planted",
        "Caused by: java.sql.SQLException: ORA-00018: maximum number of sessions exceeded",
        "26/11/15 10:00:00 ERROR Executor: Exception in task 0.0",
    ] {
        assert!(!is_chatter(telling), "{telling}");
    }
}

proptest! {
    #[test]
    fn cores_never_exceed_what_was_granted_unless_one_executor_does(units in 1..10_000_u32, cores in 1..64_u32) {
        let mut submission = submission("k8s://https://cluster", units);
        submission.conf.insert("spark.executor.cores".into(), cores.to_string());

        let executors: u32 = submission.settings().unwrap()["spark.executor.instances"].parse().unwrap();

        prop_assert!(executors >= 1);
        prop_assert!(executors * cores <= units || executors == 1);
    }

    #[test]
    fn each_setting_is_one_argument_behind_its_option(key in "[a-z.]{1,12}", value in ".{0,40}") {
        let mut submission = submission("yarn", 2);
        submission.conf.insert(key.clone(), value.clone());

        if let Ok(arguments) = submission.arguments() {
            let at = arguments.iter().position(|argument| *argument == format!("{key}={value}")).unwrap();
            prop_assert_eq!(arguments[at - 1].as_str(), "--conf");
            prop_assert!(at < arguments.iter().position(|argument| argument == "extract.py").unwrap());
        }
    }
}
