//! Where the keys of a request come from. moto hands them out; the service to which the request goes is the test's own.

use std::sync::Arc;
use tidemill_aws::{AwsClient, AwsError, Environment, SNS, form};
use tidemill_engine::SystemClock;
use tidemill_testkit::moto::{PYTHON, PrivateMoto};
use tidemill_testkit::{HttpService, Received, Reply, skip};

const REGION: (&str, &str) = ("AWS_REGION", "us-east-1");

/// The headers `Authorization` and `x-amz-security-token` of requests that are signed with these variables.
async fn signed(variables: &[(&str, &str)], calls: usize) -> Result<Vec<(String, String)>, AwsError> {
    let service = HttpService::start(|_, _| Reply::new(200, "{}")).unwrap();
    let endpoint = service.url("/");
    let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let environment = Environment::of(variables);
    let client = AwsClient::new(SNS, None, Some(&endpoint), environment, Arc::new(SystemClock::new()))?;
    for _ in 0..calls {
        client.call(&form(&[("Action", "Publish")])).await?;
    }
    let header = |received: &Received, name| received.header(name).unwrap_or_default().to_owned();
    let both =
        |received: &Received| (header(received, "authorization"), header(received, "x-amz-security-token"));
    Ok(service.received().iter().map(both).collect())
}

#[tokio::test]
async fn the_keys_of_variables_come_first() {
    let found = signed(
        &[
            REGION,
            ("AWS_ACCESS_KEY_ID", "AKIDVARIABLE"),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
            ("AWS_SESSION_TOKEN", "token-of-variables"),
            ("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:1"),
        ],
        1,
    )
    .await;

    let (authorization, token) = found.unwrap().remove(0);

    assert!(authorization.contains("Credential=AKIDVARIABLE/"), "{authorization}");
    assert_eq!(token, "token-of-variables");
}

#[tokio::test]
async fn an_instance_signs_with_the_keys_of_its_role() {
    let Some(python) = skip::require("moto", std::env::var_os(PYTHON)) else { return };
    let moto = PrivateMoto::start(&python).unwrap();

    let found =
        signed(&[REGION, ("AWS_EC2_METADATA_SERVICE_ENDPOINT", moto.endpoint().as_str())], 1).await.unwrap();

    assert!(found[0].0.contains("Credential=test-key/"), "{found:?}");
    assert_eq!(found[0].1, "test-session-token");
}

#[tokio::test]
async fn a_pod_exchanges_the_token_of_its_service_account() {
    let Some(python) = skip::require("moto", std::env::var_os(PYTHON)) else { return };
    let moto = PrivateMoto::start(&python).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "a.service.account\n").unwrap();

    let found = signed(
        &[
            REGION,
            ("AWS_WEB_IDENTITY_TOKEN_FILE", file.to_str().unwrap()),
            ("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/tidemill"),
            ("AWS_ENDPOINT_URL_STS", moto.endpoint().as_str()),
        ],
        1,
    )
    .await;

    let (authorization, token) = found.unwrap().remove(0);
    assert!(authorization.contains("Credential=ASIA") && !token.is_empty(), "{authorization}");
}

#[tokio::test]
async fn the_token_of_a_service_account_is_not_sent_where_others_can_read_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "a.service.account\n").unwrap();

    let error = signed(
        &[
            REGION,
            ("AWS_WEB_IDENTITY_TOKEN_FILE", file.to_str().unwrap()),
            ("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/tidemill"),
            ("AWS_ENDPOINT_URL_STS", "http://10.0.0.1/"),
        ],
        1,
    )
    .await
    .unwrap_err();

    assert!(error.to_string().contains("AWS_ENDPOINT_URL_STS cannot be used"), "{error}");
}

#[tokio::test]
async fn the_keys_of_a_container_are_read_once_while_they_last() {
    let keys = r#"{"AccessKeyId": "AKIDTASK", "SecretAccessKey": "s", "Token": "t", "Expiration": "2099-01-01T00:00:00Z"}"#;
    let container = HttpService::start(move |_, _| Reply::new(200, keys)).unwrap();

    let found = signed(
        &[
            REGION,
            ("AWS_CONTAINER_CREDENTIALS_FULL_URI", container.url("/keys").as_str()),
            ("AWS_CONTAINER_AUTHORIZATION_TOKEN", "of-the-task"),
        ],
        3,
    )
    .await
    .unwrap();

    assert!(
        found.iter().all(|(authorization, _)| authorization.contains("Credential=AKIDTASK/")),
        "{found:?}"
    );
    assert_eq!((found.len(), container.received().len()), (3, 1));
    assert_eq!(container.received()[0].header("authorization"), Some("of-the-task"));
}

#[tokio::test]
async fn who_has_no_keys_learns_what_to_set() {
    let error = signed(&[REGION, ("AWS_EC2_METADATA_DISABLED", "true")], 1).await.unwrap_err();

    assert!(error.to_string().contains("set AWS_ACCESS_KEY_ID"), "{error}");
    let half = signed(&[REGION, ("AWS_ACCESS_KEY_ID", "AKID")], 1).await.unwrap_err();
    assert!(half.to_string().contains("AWS_SECRET_ACCESS_KEY is not"), "{half}");
}
