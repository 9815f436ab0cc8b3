//! nexrender over HTTP, in any of its dialects.
//!
//! nexrender accepts the same name twice without an error, and then renders the first of the two forever. So a job is
//! posted at most once: without an answer, look for the job instead of posting it again.

mod address;
mod call;

use address::Address;
use call::{Caller, NoAnswer};
use reqwest::Method;
use serde_json::{Value, json};
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tidemill_domain::render::answer::{
    Absence, Dialect, FarmCall, LearnedAbsence, Manner, RemoteJob, is_about, is_another, is_of_another, read,
};
use tidemill_domain::render::{Failure, Trouble, Uid};
use tidemill_engine::render::{Asking, Farm};

/// A job that never exists: our ids begin with 1.
const NOBODY: &str = "rq-0-0";

/// The pauses before each search for a job whose answer was lost. A busy server may accept it late.
const SEARCHES: [Duration; 4] =
    [Duration::ZERO, Duration::from_millis(200), Duration::from_secs(1), Duration::from_secs(3)];

#[derive(Clone)]
pub struct FarmOptions {
    /// With or without the path of its API.
    pub url: String,
    pub secret: Option<String>,
    pub dialect: Dialect,
    pub connect_within: Duration,
    /// For the whole answer.
    pub answer_within: Duration,
}

impl FarmOptions {
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            secret: None,
            dialect: Dialect::Auto,
            connect_within: Duration::from_secs(3),
            answer_within: Duration::from_secs(10),
        }
    }
}

/// Omits the secret.
impl fmt::Debug for FarmOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FarmOptions").field("dialect", &self.dialect).finish_non_exhaustive()
    }
}

/// Options that can never work.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadFarm {
    #[error("the address of nexrender is not one such as http://render01:3000: {why}")]
    Address { why: &'static str },
    #[error("the secret of nexrender has characters other than visible ASCII, which no header can carry")]
    Secret,
    #[error("no HTTP client could be made: {why}")]
    Client { why: String },
}

pub struct NexrenderFarm {
    address: Address,
    caller: Caller,
    dialect: Dialect,
    /// How it says in its checks that it has no such job.
    absence: Mutex<LearnedAbsence>,
}

impl NexrenderFarm {
    pub fn new(options: &FarmOptions) -> Result<Self, BadFarm> {
        let address = Address::parse(&options.url)?;
        let caller = Caller::new(options, address.name.clone())?;
        Ok(Self { address, caller, dialect: options.dialect, absence: Mutex::default() })
    }

    fn manner(&self) -> Manner {
        let manner = Manner::from(self.dialect);
        let learned = || self.absence.lock().unwrap_or_else(PoisonError::into_inner).known();
        Manner { absence: manner.absence.or_else(learned), ..manner }
    }

    /// Whether it is the open server, which gives jobs no names of its own.
    fn keeps_names(&self) -> bool {
        self.manner().absence == Some(Absence::Empty)
    }

    /// Needs the secret, which the health of the open server does not. Learns how it says that it has no such job: who
    /// suddenly says it otherwise is a proxy, and would make every job a lost one.
    async fn look_for_nobody(&self) -> Result<(), Trouble> {
        let Some(url) = self.address.job(NOBODY) else { return Ok(()) };
        let (status, body) = self.caller.call(Method::GET, url, None).await?;
        read(FarmCall::Look, status, &body, self.dialect.into())?;
        let Some(seen) = Absence::of(status, &body) else { return Ok(()) };
        if self.absence.lock().unwrap_or_else(PoisonError::into_inner).learn(seen) {
            return Ok(());
        }
        let message =
            format!("{} said otherwise before that it has no such job ({status})", self.address.name);
        Err(Trouble::new(Failure::NotNexrender, &message))
    }

    /// The job of this name, if nexrender has it. With a document, it has to be that one: another queue may use the
    /// same numbers, and its film must not be published as ours.
    async fn find(&self, name: &str, document: Option<&Value>) -> Result<Option<RemoteJob>, Trouble> {
        let Some(url) = self.address.job(name) else { return Ok(None) };
        let (status, body) = self.caller.call(Method::GET, url, None).await?;
        let job = read(FarmCall::Look, status, &body, self.manner())?;
        if job.is_some() && !is_about(&body, name) {
            let message = format!("nexrender answers about another job than {name}");
            return Err(Trouble::new(Failure::NotNexrender, &message));
        }
        if job.is_some() && document.is_some_and(|document| is_another(&body, document)) {
            let message = format!(
                "nexrender has a job {name} already, which is another one; let each queue have a nexrender of its own, \
                 or take that job out if nobody needs it"
            );
            return Err(Trouble::new(Failure::NameTaken, &message));
        }
        Ok(job)
    }

    /// For a job that nexrender may or may not have.
    async fn search(&self, name: &str, document: &Value, mut trouble: Trouble) -> Result<RemoteJob, Trouble> {
        for pause in SEARCHES {
            tokio::time::sleep(pause).await;
            match self.find(name, Some(document)).await {
                Ok(Some(job)) => return Ok(job),
                Ok(None) => {}
                Err(taken) if taken.failure == Failure::NameTaken => return Err(taken),
                Err(again) => trouble = again,
            }
        }
        let message = format!("whether it has the job {name} is not known: {}", trouble.message);
        Err(Trouble::new(trouble.failure, &message))
    }
}

fn not_nexrender(address: &Address) -> Trouble {
    let message = format!("what answers at {} is not nexrender", address.name);
    Trouble::new(Failure::NotNexrender, &message)
}

/// The job with its name in it, also for servers that choose their own: people find it by ours.
fn named(document: &Value, name: &str) -> Value {
    let mut named = document.clone();
    if let Some(fields) = named.as_object_mut() {
        fields.insert("uid".to_owned(), json!(name));
    }
    named
}

impl From<NoAnswer> for Trouble {
    fn from(no_answer: NoAnswer) -> Self {
        Self::new(Failure::NexrenderDown, &no_answer.words)
    }
}

impl Farm for NexrenderFarm {
    fn name(&self) -> String {
        self.address.name.clone()
    }

    fn check(&self) -> Asking<'_, ()> {
        Box::pin(async move {
            let (status, body) = self.caller.call(Method::GET, self.address.health(), None).await?;
            if self.dialect != Dialect::Cloud && status == 200 && body.trim() == "ok" {
                return self.look_for_nobody().await;
            }
            if self.dialect == Dialect::Oss {
                read(FarmCall::Look, status, &body, self.manner())?;
                return Err(not_nexrender(&self.address));
            }
            let (status, is_json) = self.caller.head_of(self.address.jobs()).await?;
            match status {
                200 if is_json => self.look_for_nobody().await,
                401 | 403 | 408 | 425 | 429 | 500.. => {
                    read(FarmCall::Look, status, "it does not list its jobs", self.manner()).map(drop)
                }
                _ => Err(not_nexrender(&self.address)),
            }
        })
    }

    fn look<'a>(&'a self, job: &'a str) -> Asking<'a, Option<RemoteJob>> {
        Box::pin(self.find(job, None))
    }

    fn submit<'a>(&'a self, uid: Uid, document: &'a Value) -> Asking<'a, RemoteJob> {
        Box::pin(async move {
            let name = uid.to_string();
            if let Some(job) = self.find(&name, Some(document)).await? {
                return Ok(job);
            }
            let body = named(document, &name).to_string();
            let (status, body) = match self.caller.call(Method::POST, self.address.jobs(), Some(body)).await {
                Ok(answer) => answer,
                Err(never) if !never.is_sent => return Err(never.into()),
                Err(lost) => return self.search(&name, document, lost.into()).await,
            };
            match read(FarmCall::Submit, status, &body, self.manner()) {
                Ok(Some(_)) if is_of_another(&body, &name, document, self.keeps_names()) => {
                    let message = format!("nexrender answers about another job than {name}");
                    self.search(&name, document, Trouble::new(Failure::NexrenderDown, &message)).await
                }
                Ok(Some(job)) => Ok(job),
                Ok(None) => Err(Trouble::new(Failure::NotNexrender, "nexrender answers without a job")),
                // It may have accepted the job before it broke.
                Err(trouble) if trouble.failure == Failure::NexrenderDown => {
                    self.search(&name, document, trouble).await
                }
                Err(trouble) => Err(trouble),
            }
        })
    }

    fn remove<'a>(&'a self, job: &'a str) -> Asking<'a, ()> {
        Box::pin(async move {
            let Some(url) = self.address.job(job) else { return Ok(()) };
            let (status, body) = self.caller.call(Method::DELETE, url, None).await?;
            match status {
                // The open server answers 204, never 404, to unknown jobs, and 200 to this.
                204 | 404 | 410 if self.dialect == Dialect::Oss => {}
                200..=299 | 404 | 410 => return Ok(()),
                _ => {}
            }
            // Other statuses mean the same as in a look-up.
            read(FarmCall::Look, status, &body, self.manner()).map(drop)
        })
    }
}

/// Omits the secret.
impl fmt::Debug for NexrenderFarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NexrenderFarm({})", self.address.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_secret_is_shown() {
        let options =
            FarmOptions { secret: Some("geheim".into()), ..FarmOptions::new("http://render01:3000/geheim") };

        let farm = NexrenderFarm::new(&options).unwrap();

        assert!(!format!("{options:?} {farm:?} {}", farm.name()).contains("geheim"), "{farm:?}");
    }

    #[test]
    fn a_secret_that_cannot_be_sent_is_refused_and_not_shown() {
        let options = FarmOptions { secret: Some("ge\nheim".into()), ..FarmOptions::new("http://render01") };

        let bad = NexrenderFarm::new(&options).unwrap_err();

        assert_eq!(bad, BadFarm::Secret);
        assert!(!format!("{bad} {bad:?}").contains("heim"));
    }

    #[test]
    fn a_job_has_our_name_whatever_it_had_before() {
        let job = named(&json!({"uid": "another", "template": {}}), "rq-1-2");

        assert_eq!(job, json!({"uid": "rq-1-2", "template": {}}));
    }
}
