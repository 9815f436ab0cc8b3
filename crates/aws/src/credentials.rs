//! The keys that requests are signed with: from variables, from the role of a Kubernetes service account, from the role of a
//! container, or from that of the instance, as programs of AWS look for them.

use crate::client::{FORM, between, checked, encoded, usual_endpoint};
use crate::error::AwsError;
use reqwest::{Client, RequestBuilder};
use serde_json::Value;
use std::collections::HashMap;
use std::fmt;
use std::time::Duration;
use tidemill_domain::error_chain::ErrorChain;
use tidemill_domain::time::Timestamp;
use tokio::sync::Mutex;

/// How long before their end temporary keys are replaced.
const RENEWED_BEFORE: Duration = Duration::from_secs(5 * 60);

/// The services that hand out keys are on this host or near it.
const TIMEOUT: Duration = Duration::from_secs(5);

const CONTAINER: &str = "http://169.254.170.2";
const INSTANCE: &str = "http://169.254.169.254";
const ROLES: &str = "/latest/meta-data/iam/security-credentials/";

/// The variables that configure programs of AWS.
#[derive(Clone, Default)]
pub struct Environment(HashMap<String, String>);

impl Environment {
    /// Those of this process.
    pub fn of_process() -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self::of(std::env::vars_os().filter_map(text))
    }

    /// Empty ones count as not set.
    pub fn of(variables: impl IntoIterator<Item = (String, String)>) -> Self {
        let is_ours = |(name, value): &(String, String)| name.starts_with("AWS_") && !value.is_empty();
        Self(variables.into_iter().filter(is_ours).collect())
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub(crate) fn region(&self) -> Option<&str> {
        self.get("AWS_REGION").or_else(|| self.get("AWS_DEFAULT_REGION"))
    }
}

/// Names only, because values may be secret.
impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

#[derive(Clone)]
pub(crate) struct Keys {
    pub(crate) id: String,
    pub(crate) secret: String,
    pub(crate) token: Option<String>,
    /// None for those of variables.
    pub(crate) ends: Option<Timestamp>,
}

impl Keys {
    fn are_valid_at(&self, instant: Timestamp) -> bool {
        self.ends.is_none_or(|ends| instant < ends)
    }
}

/// Where keys come from, and those that were read last.
pub(crate) struct Credentials {
    environment: Environment,
    /// The region, in whose STS tokens of Kubernetes are exchanged.
    region: String,
    read: Mutex<Option<Keys>>,
}

impl Credentials {
    pub(crate) fn new(environment: Environment, region: &str) -> Self {
        Self { environment, region: region.to_owned(), read: Mutex::new(None) }
    }

    /// Keys that are valid now.
    pub(crate) async fn keys(&self, http: &Client, now: Timestamp) -> Result<Keys, AwsError> {
        let mut read = self.read.lock().await;
        if let Some(keys) = read.as_ref().filter(|keys| keys.are_valid_at(now.plus(RENEWED_BEFORE))) {
            return Ok(keys.clone());
        }
        match self.find(http).await {
            Ok(keys) => Ok(read.insert(keys).clone()),
            // The service that hands them out may be back before the old ones end.
            Err(why) => {
                let old = read.as_ref().filter(|keys| keys.are_valid_at(now)).cloned();
                old.ok_or(AwsError::NoCredentials { why })
            }
        }
    }

    /// Reads keys anew next time.
    pub(crate) async fn forget(&self) {
        *self.read.lock().await = None;
    }

    async fn find(&self, http: &Client) -> Result<Keys, String> {
        let variable = |name| self.environment.get(name);
        if let Some(id) = variable("AWS_ACCESS_KEY_ID") {
            let secret = variable("AWS_SECRET_ACCESS_KEY")
                .ok_or("AWS_ACCESS_KEY_ID is set, and AWS_SECRET_ACCESS_KEY is not")?;
            let token = variable("AWS_SESSION_TOKEN").map(str::to_owned);
            return Ok(Keys { id: id.to_owned(), secret: secret.to_owned(), token, ends: None });
        }
        if let (Some(file), Some(role)) = (variable("AWS_WEB_IDENTITY_TOKEN_FILE"), variable("AWS_ROLE_ARN"))
        {
            return self.of_service_account(http, file, role).await;
        }
        let relative = variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
        let relative = relative.map(|path| format!("{CONTAINER}{path}"));
        let full = || variable("AWS_CONTAINER_CREDENTIALS_FULL_URI").map(str::to_owned);
        if let Some(url) = relative.or_else(full) {
            return self.of_container(http, &url).await;
        }
        if variable("AWS_EC2_METADATA_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return Err("no variable names any".to_owned());
        }
        self.of_instance(http).await
    }

    /// Exchanges the token of a Kubernetes service account.
    async fn of_service_account(&self, http: &Client, file: &str, role: &str) -> Result<Keys, String> {
        let url = match self.environment.get("AWS_ENDPOINT_URL_STS") {
            Some(url) => url.to_owned(),
            None => usual_endpoint("sts", &self.region),
        };
        let url = checked(&url, &self.environment)
            .map_err(|why| format!("AWS_ENDPOINT_URL_STS cannot be used: {why}"))?;
        let token = read_token(file)?;
        let session = self.environment.get("AWS_ROLE_SESSION_NAME").unwrap_or("tidemill");
        let body = encoded(&[
            ("Action", "AssumeRoleWithWebIdentity"),
            ("Version", "2011-06-15"),
            ("RoleArn", role),
            ("RoleSessionName", session),
            ("WebIdentityToken", token.as_str()),
        ]);
        let call = http.post(url).header("content-type", FORM).body(body);
        let text = answer(call, "the token service").await?;
        let part = |name: &str| between(&text, name).map(str::to_owned);
        let ends = part("Expiration").and_then(|text| text.parse().ok());
        let keys = (part("AccessKeyId"), part("SecretAccessKey"));
        let (Some(id), Some(secret)) = keys else {
            return Err("the answer of the token service has no keys".to_owned());
        };
        Ok(Keys { id, secret, token: part("SessionToken"), ends })
    }

    /// The role of a task of ECS, or of a pod of EKS.
    async fn of_container(&self, http: &Client, url: &str) -> Result<Keys, String> {
        let token = match self.environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE") {
            Some(file) => Some(read_token(file)?),
            None => self.environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN").map(str::to_owned),
        };
        let mut call = http.get(url);
        if let Some(token) = token {
            call = call.header("authorization", token);
        }
        parsed(&answer(call, "the container's credentials service").await?)
    }

    /// The role of the instance, by its metadata service (version 2).
    async fn of_instance(&self, http: &Client) -> Result<Keys, String> {
        let service = "the metadata service of the instance";
        let base = self.environment.get("AWS_EC2_METADATA_SERVICE_ENDPOINT").unwrap_or(INSTANCE);
        let base = base.trim_end_matches('/');
        let call = http
            .put(format!("{base}/latest/api/token"))
            .header("x-aws-ec2-metadata-token-ttl-seconds", "300");
        let token = answer(call, service).await?;
        let get = |path: String| {
            http.get(format!("{base}{path}")).header("x-aws-ec2-metadata-token", token.as_str())
        };
        let roles = answer(get(ROLES.to_owned()), service).await?;
        let role = roles.lines().next().map(str::trim).filter(|role| !role.is_empty());
        let role = role.ok_or("the instance has no role")?;
        parsed(&answer(get(format!("{ROLES}{role}")), service).await?)
    }
}

fn read_token(file: &str) -> Result<String, String> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("cannot read {file}: {error}"))?;
    Ok(text.trim().to_owned())
}

/// The body of a successful answer. Errors do not quote it, because it may contain keys.
async fn answer(call: RequestBuilder, service: &str) -> Result<String, String> {
    let failed =
        |error: reqwest::Error| format!("{service} cannot be reached ({})", ErrorChain(&error.without_url()));
    let response = call.timeout(TIMEOUT).send().await.map_err(failed)?;
    let status = response.status();
    if !status.is_success() {
        return Err(format!("{service} answered {}", status.as_u16()));
    }
    response.text().await.map_err(failed)
}

fn parsed(text: &str) -> Result<Keys, String> {
    let fields: Value = serde_json::from_str(text).unwrap_or_default();
    let field = |name: &str| fields[name].as_str().map(str::to_owned);
    let (Some(id), Some(secret)) = (field("AccessKeyId"), field("SecretAccessKey")) else {
        return Err("the service that hands out keys answered without keys".to_owned());
    };
    let ends = field("Expiration").and_then(|text| text.parse().ok());
    Ok(Keys { id, secret, token: field("Token"), ends })
}
