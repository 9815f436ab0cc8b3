//! A failure is published to a topic of SNS. A queue of SQS subscribes to it, so that the test can read what arrived. moto
//! checks the signatures as AWS does, with botocore.

use super::{run, stage};
use crate::Stage;
use crate::serve::Served;
use serde_json::Value;
use std::fs;
use std::time::Duration;
use tidemill_testkit::moto::{PYTHON, PrivateMoto};
use tidemill_testkit::skip;

/// Makes a user with a key, and a topic with a queue, and prints them. From then on, keys and signatures are checked.
const SETUP: &str = r#"
import boto3, json, os, urllib.request
iam, sns, sqs = (boto3.client(name) for name in ("iam", "sns", "sqs"))
iam.create_user(UserName="tidemill")
allowed = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
iam.put_user_policy(UserName="tidemill", PolicyName="all", PolicyDocument=json.dumps(allowed))
key = iam.create_access_key(UserName="tidemill")["AccessKey"]
topic = sns.create_topic(Name="ops")["TopicArn"]
queue = sqs.create_queue(QueueName="ops")["QueueUrl"]
arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)
url = os.environ["AWS_ENDPOINT_URL"] + "/moto-api/reset-auth"
call = urllib.request.Request(url, data=b"0", headers={"Content-Type": "text/plain"}, method="POST")
urllib.request.urlopen(call).read()
print(json.dumps({"id": key["AccessKeyId"], "secret": key["SecretAccessKey"], "topic": topic, "queue": queue}))
"#;

/// Prints the messages of the queue, without deleting them.
const RECEIVE: &str = r#"
import boto3, json, os
found = boto3.client("sqs").receive_message(
    QueueUrl=os.environ["QUEUE"], MaxNumberOfMessages=10, VisibilityTimeout=0)
print(json.dumps([json.loads(message["Body"]) for message in found.get("Messages", [])]))
"#;

/// Looks again until there is something. A look may start a program.
fn until<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    for _ in 0..300 {
        if let Some(found) = look() {
            return found;
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    panic!("in vain: {what}");
}

struct Account {
    moto: PrivateMoto,
    id: String,
    secret: String,
    topic: String,
    queue: String,
}

impl Account {
    fn new() -> Option<Self> {
        let python = skip::require("moto", std::env::var_os(PYTHON))?;
        let moto = PrivateMoto::start(&python).unwrap();
        let made: Value = serde_json::from_str(&moto.python(SETUP, &[]).unwrap()).unwrap();
        let [id, secret, topic, queue] =
            ["id", "secret", "topic", "queue"].map(|name| made[name].as_str().unwrap().to_owned());
        Some(Self { moto, id, secret, topic, queue })
    }

    /// A server whose job fails, with a channel of each of these names and topics.
    fn serve(&self, secret: &str, format: &str, channels: &[(&str, &str)]) -> (Stage, Served) {
        let stage = stage().with("AWS_ACCESS_KEY_ID", &self.id).with("AWS_SECRET_ACCESS_KEY", secret);
        let names: Vec<&str> = channels.iter().map(|(name, _)| *name).collect();
        let mut settings = format!("[alert.rules.job_failed]\nchannels = {names:?}\n");
        for (name, topic) in channels {
            let endpoint = self.moto.endpoint();
            settings += &format!(
                "[alert.sns.{name}]\ntopic = \"{topic}\"\nendpoint = \"{endpoint}\"\nformat = \"{format}\"\n"
            );
        }
        fs::write(stage.path("tidemill.toml"), settings).unwrap();
        let served = Served::start(&stage, &["-vvv"]);
        (stage, served)
    }

    fn received(&self) -> Vec<Value> {
        let variables = [
            ("QUEUE", self.queue.as_str()),
            ("AWS_ACCESS_KEY_ID", self.id.as_str()),
            ("AWS_SECRET_ACCESS_KEY", self.secret.as_str()),
        ];
        serde_json::from_str(&self.moto.python(RECEIVE, &variables).unwrap()).unwrap()
    }
}

fn log(stage: &Stage) -> String {
    fs::read_to_string(stage.path("serve.log")).unwrap()
}

#[test]
fn a_failure_is_published_to_a_topic_and_a_topic_that_is_not_there_is_reported() {
    let Some(account) = Account::new() else { return };
    let gone = account.topic.replace("ops", "gone");
    let channels = [("ops", account.topic.as_str()), ("gone", gone.as_str())];
    let (stage, served) = account.serve(&account.secret, "tidemill", &channels);

    assert_eq!(run(&served), "FAILED");
    let line = until("the topic that is not there is given up", || {
        log(&stage).lines().find(|line| line.contains("does not reach gone")).map(str::to_owned)
    });
    until("a message about the failure", || Some(()).filter(|()| !account.received().is_empty()));
    fs::write(stage.path("ok"), "").unwrap();
    assert_eq!(run(&served), "COMPLETED");
    let mut messages =
        until("a message about the end", || Some(account.received()).filter(|all| all.len() >= 2));

    messages.sort_by_key(|message| message["Subject"].to_string());
    assert_eq!(messages[0]["Subject"], "ALARM: \"JobFailed\" job/load");
    assert_eq!(messages[1]["Subject"], "OK: \"JobFailed\" job/load");
    assert_eq!(messages[0]["MessageAttributes"]["severity"]["Value"], "critical");
    let body: Value = serde_json::from_str(messages[0]["Message"].as_str().unwrap()).unwrap();
    assert_eq!((&body["rule"], &body["notice"]), (&"job_failed".into(), &"fired".into()));
    assert!(line.contains("answered 404 NotFound") && line.contains("check its name"), "{line}");
    assert!(!log(&stage).contains(&account.secret), "{}", log(&stage));
}

#[test]
fn a_subscriber_of_cloudwatch_alarms_understands_what_is_published() {
    let Some(account) = Account::new() else { return };
    let (_stage, served) = account.serve(&account.secret, "cloudwatch", &[("ops", account.topic.as_str())]);

    assert_eq!(run(&served), "FAILED");
    let message = until("a message about the failure", || account.received().into_iter().next());

    let alarm: Value = serde_json::from_str(message["Message"].as_str().unwrap()).unwrap();
    assert_eq!((&alarm["AlarmName"], &alarm["NewStateValue"]), (&"JobFailed".into(), &"ALARM".into()));
    assert_eq!((&alarm["Region"], &alarm["AWSAccountId"]), (&"us-east-1".into(), &"123456789012".into()));
}

#[test]
fn a_wrong_secret_is_reported_with_what_to_check() {
    let Some(account) = Account::new() else { return };
    let (stage, served) = account.serve("not-the-secret", "text", &[("ops", account.topic.as_str())]);

    assert_eq!(run(&served), "FAILED");
    let line = until("the topic is given up", || {
        log(&stage).lines().find(|line| line.contains("does not reach ops")).map(str::to_owned)
    });

    assert!(line.contains("SignatureDoesNotMatch") && line.contains("check AWS_SECRET_ACCESS_KEY"), "{line}");
    assert!(account.received().is_empty() && !log(&stage).contains("not-the-secret"), "{line}");
}
