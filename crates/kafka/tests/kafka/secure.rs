//! TLS and SASL, with a broker that asks for both.

use super::broker::{json, publisher, record, topic};
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tidemill_engine::outbox::{Outcome, Publisher};
use tidemill_kafka::{Mechanism, Sasl, Security, Tls};
use tidemill_testkit::kafka::{Secure, find_home};
use tidemill_testkit::skip::require;
use tidemill_testkit::{KafkaOptions, PrivateKafka};

const PASSWORD: &str = "open-sesame";

/// Makes a key with a certificate that vouches for itself.
fn keystore(folder: &Path) -> Secure {
    let (keystore, certificate) = (folder.join("broker.p12"), folder.join("ca.pem"));
    let keytool = |arguments: &[&str]| {
        let mut command = Command::new("keytool");
        command.args(arguments).arg("-keystore").arg(&keystore);
        command.args(["-storetype", "PKCS12", "-storepass", PASSWORD, "-alias", "broker"]);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    };
    let names = ["-dname", "CN=127.0.0.1", "-ext", "san=ip:127.0.0.1", "-validity", "2", "-keyalg", "EC"];
    keytool(&[&["-genkeypair"], &names[..]].concat());
    keytool(&["-exportcert", "-rfc", "-file", certificate.to_str().unwrap()]);
    Secure {
        keystore,
        keystore_password: PASSWORD.into(),
        user: "shop".into(),
        password: "let me in".replace(' ', "-"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_asks_who_is_there_over_tls_is_told() {
    if require("kafka", find_home()).is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let secure = keystore(folder.path());
    let options = KafkaOptions { secure: Some(secure), ..KafkaOptions::default() };
    let kafka = PrivateKafka::start(&options).unwrap();
    let name = topic(&kafka.bootstrap_servers(), 1, &[]).await;
    let records = [record(1, "a", &name, json("{}"))];
    let tls = Tls { ca: Some(folder.path().join("ca.pem")), ..Tls::default() };
    let attempt = async |mechanism, password: &str, tls: &Tls| {
        let sasl = Sasl { mechanism, user: "shop".into(), password: password.into() };
        let sink = publisher(&kafka.secure_servers(), |options| {
            options.security = Security { tls: Some(tls.clone()), sasl: Some(sasl) };
            options.delivery_timeout = Duration::from_secs(30);
        });
        sink.publish(&records).await.remove(0)
    };

    for mechanism in [Mechanism::Plain, Mechanism::ScramSha256] {
        assert_eq!(attempt(mechanism, "let-me-in", &tls).await, Outcome::Delivered, "{mechanism:?}");
    }
    let refused = attempt(Mechanism::ScramSha256, "guessed", &tls).await;
    let stranger = attempt(Mechanism::Plain, "let-me-in", &Tls::default()).await;

    let Outcome::Unavailable { why } = refused else { panic!("{refused:?}") };
    assert!(why.to_lowercase().contains("auth") && !why.contains("guessed"), "{why}");
    let Outcome::Unavailable { why } = stranger else { panic!("{stranger:?}") };
    assert!(why.contains("SSL") || why.contains("certificate"), "{why}");
}
