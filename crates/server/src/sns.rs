//! The alert channel that publishes to a topic of Amazon SNS.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use tidemill_aws::{AwsClient, AwsError, Environment, SNS, form};
use tidemill_domain::time::Clock;
use tidemill_engine::alert::channel::{Channel, Delivering, DeliveryError};
use tidemill_engine::alert::message::Message;
use tidemill_engine::alert::sns::{Owner, alarm, message_id, subject};

/// SNS refuses a subject of 100 characters.
const SUBJECT_CHARS_MAX: usize = 99;

/// How the name of a topic ends whose messages keep their order.
const FIFO: &str = ".fifo";

tidemill_domain::words! {
    /// What subscribers receive.
    #[derive(Default)]
    pub enum SnsFormat {
        /// The notification as it is stored.
        #[default]
        Tidemill = "tidemill",
        /// As CloudWatch reports a change of an alarm.
        CloudWatch = "cloudwatch",
        /// Only the summary, for people who subscribe by e-mail or SMS.
        Text = "text",
    }
}

/// The ARN of a topic: `arn:aws:sns:REGION:ACCOUNT:NAME`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TopicArn {
    text: String,
    region: String,
    account: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a topic is written as arn:aws:sns:REGION:ACCOUNT:NAME")]
pub struct BadTopic;

impl FromStr for TopicArn {
    type Err = BadTopic;

    fn from_str(text: &str) -> Result<Self, BadTopic> {
        let parts: Vec<&str> = text.split(':').collect();
        let &["arn", partition, "sns", region, account, name] = parts.as_slice() else {
            return Err(BadTopic);
        };
        let is_plain = |part: &str| {
            let is_of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            !part.is_empty() && part.chars().all(is_of_name)
        };
        let is_account = account.len() == 12 && account.bytes().all(|byte| byte.is_ascii_digit());
        if !(partition.starts_with("aws") && is_plain(region) && is_account && is_plain(name)) {
            return Err(BadTopic);
        }
        Ok(Self { text: text.to_owned(), region: region.to_owned(), account: account.to_owned() })
    }
}

pub struct Sns {
    name: String,
    topic: TopicArn,
    format: SnsFormat,
    client: AwsClient,
}

impl Sns {
    /// Without an endpoint, that of the variables, or the one of AWS. Connects to nothing yet.
    pub fn new(
        name: &str,
        topic: TopicArn,
        format: SnsFormat,
        endpoint: Option<&str>,
        environment: Environment,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, AwsError> {
        let client = AwsClient::new(SNS, Some(&topic.region), endpoint, environment, clock)?;
        Ok(Self { name: name.to_owned(), topic, format, client })
    }

    async fn publish(&self, message: &Message) -> Result<(), DeliveryError> {
        let announcement = &message.announcement;
        let owner = Owner { region: &self.topic.region, account: &self.topic.account };
        let title = subject(message, SUBJECT_CHARS_MAX);
        let text = match self.format {
            SnsFormat::Tidemill => message.body.clone(),
            SnsFormat::CloudWatch => alarm(message, owner).to_string(),
            SnsFormat::Text => announcement.summary.clone(),
        };
        // By these, a subscription selects what it receives.
        let attributes = [
            ("rule", announcement.rule.as_str()),
            ("subject", announcement.subject.as_str()),
            ("severity", announcement.severity.as_str()),
            ("notice", announcement.notice.as_str()),
        ];
        let numbered: Vec<[(String, &str); 3]> = attributes
            .iter()
            .enumerate()
            .map(|(index, (name, value))| {
                let key = |leaf: &str| format!("MessageAttributes.entry.{}.{leaf}", index + 1);
                [(key("Name"), *name), (key("Value.DataType"), "String"), (key("Value.StringValue"), *value)]
            })
            .collect();
        let mut fields = vec![
            ("Action", "Publish"),
            ("Version", "2010-03-31"),
            ("TopicArn", self.topic.text.as_str()),
            ("Subject", title.as_str()),
            ("Message", text.as_str()),
        ];
        fields.extend(numbered.iter().flatten().map(|(key, value)| (key.as_str(), *value)));
        let id = message_id(message);
        if self.topic.text.ends_with(FIFO) {
            // Those of one alert are sent in order, and SNS drops one that is repeated within 5 minutes.
            fields.extend([
                ("MessageGroupId", announcement.rule.as_str()),
                ("MessageDeduplicationId", id.as_str()),
            ]);
        }
        match self.client.call(&form(&fields)).await {
            Ok(_) => Ok(()),
            Err(error) if error.is_temporary() => Err(DeliveryError::temporary(error.to_string())),
            Err(error) => Err(DeliveryError::permanent(format!("{error} ({})", self.topic.text))),
        }
    }
}

impl Channel for Sns {
    fn name(&self) -> &str {
        &self.name
    }

    fn deliver<'a>(&'a self, message: &'a Message) -> Delivering<'a> {
        Box::pin(self.publish(message))
    }
}

/// Without the credentials.
impl fmt::Debug for Sns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sns({})", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_arn_of_a_topic_is_a_topic() {
        let region = |text: &str| text.parse::<TopicArn>().map(|topic| topic.region);

        assert_eq!(region("arn:aws:sns:eu-central-1:123456789012:ops"), Ok("eu-central-1".to_owned()));
        assert_eq!(region("arn:aws-cn:sns:cn-north-1:123456789012:ops.fifo"), Ok("cn-north-1".to_owned()));
        for text in [
            "",
            "ops",
            "arn:aws:sqs:eu-central-1:123456789012:ops",
            "arn:aws:sns:eu-central-1:1234:ops",
            "arn:aws:sns:evil.example/:123456789012:ops",
            "arn:aws:sns:eu-central-1:123456789012:ops:5ce0f7a4",
        ] {
            assert_eq!(region(text), Err(BadTopic), "{text}");
        }
    }
}
