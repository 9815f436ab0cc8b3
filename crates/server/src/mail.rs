//! The alert channel that sends e-mail through an SMTP server, with STARTTLS or TLS, and with a login if there is one.

use lettre::message::header::{ContentType, HeaderName, HeaderValue};
use lettre::message::{Mailbox, Message as Letter};
use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::transport::smtp::client::{Certificate, Tls, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use lettre::transport::smtp::{Error, SMTP_PORT, SUBMISSION_PORT, SUBMISSIONS_PORT};
use lettre::{AsyncSmtpTransport, AsyncTransport, Tokio1Executor};
use std::error::Error as _;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;
use tidemill_domain::alert::Notice;
use tidemill_domain::job::notify::JOB_END;
use tidemill_domain::render::notify::RENDER_END;
use tidemill_engine::alert::channel::{Channel, Delivering, DeliveryError};
use tidemill_engine::alert::message::{Announcement, Message};

/// For each command. The deliverer limits the whole attempt.
const TIMEOUT: Duration = Duration::from_secs(5);

const ANSWER_CHARS_MAX: usize = 200;

tidemill_domain::words! {
    /// How the connection is encrypted.
    pub enum Security {
        /// Begins in the clear; refuses to go on without TLS.
        StartTls = "starttls",
        Tls = "tls",
        None = "none",
    }
}

/// Where and how to send.
pub struct MailOptions {
    pub host: String,
    /// The usual port of the security if none.
    pub port: Option<u16>,
    pub security: Security,
    /// A PEM file with further CA certificates.
    pub ca: Option<PathBuf>,
    /// User and password.
    pub login: Option<(String, String)>,
    pub from: String,
    /// One address, or several with commas between them.
    pub to: String,
}

#[derive(Debug, thiserror::Error)]
#[error("the mail channel {name} cannot be used: {why}")]
pub struct BadMail {
    name: String,
    why: String,
}

pub struct Mail {
    name: String,
    from: Mailbox,
    to: Vec<Mailbox>,
    transport: AsyncSmtpTransport<Tokio1Executor>,
}

impl Mail {
    /// Reads the CA certificates. Connects to nothing yet.
    pub fn new(name: &str, options: MailOptions) -> Result<Self, BadMail> {
        let bad = |why: String| BadMail { name: name.to_owned(), why };
        let MailOptions { host, port, security, ca, login, from, to } = options;
        if login.is_some() && security == Security::None {
            return Err(bad("without TLS, the password could be read on the network; set tls".to_owned()));
        }
        let from = mailbox(&from).map_err(bad)?;
        let to: Vec<Mailbox> = to.split(',').map(mailbox).collect::<Result<_, _>>().map_err(bad)?;
        let tls = || tls_parameters(&host, ca.as_ref());
        let (tls, usual_port) = match security {
            Security::StartTls => (Tls::Required(tls().map_err(bad)?), SUBMISSION_PORT),
            Security::Tls => (Tls::Wrapper(tls().map_err(bad)?), SUBMISSIONS_PORT),
            Security::None => (Tls::None, SMTP_PORT),
        };
        let mut builder = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(&host)
            .port(port.unwrap_or(usual_port))
            .tls(tls)
            .hello_name(own_name())
            .timeout(Some(TIMEOUT));
        if let Some((user, password)) = login {
            let mechanisms = vec![Mechanism::Plain, Mechanism::Login];
            builder = builder.credentials(Credentials::new(user, password)).authentication(mechanisms);
        }
        Ok(Self { name: name.to_owned(), from, to, transport: builder.build() })
    }

    async fn send(&self, message: &Message) -> Result<(), DeliveryError> {
        let letter = self.letter(message).map_err(|error| DeliveryError::permanent(error.to_string()))?;
        self.transport.send(letter).await.map(drop).map_err(|error| failed(&error))
    }

    /// Every attempt has the same id, so that the receiver can tell a duplicate.
    fn letter(&self, message: &Message) -> Result<Letter, lettre::error::Error> {
        let announcement = &message.announcement;
        let (rule, subject) = (&announcement.rule, &announcement.subject);
        let state = match announcement.notice {
            Notice::Fired => announcement.severity.as_str(),
            Notice::Resolved => announcement.notice.as_str(),
        };
        let title = match rule.as_str() {
            JOB_END | RENDER_END => format!("[Tidemill] {}", announcement.summary),
            rule => format!("[Tidemill] {state}: {rule} for {subject}"),
        };
        let (at, domain) = (announcement.at.as_micros(), self.from.email.domain());
        let mut letter = Letter::builder()
            .from(self.from.clone())
            .subject(title)
            .message_id(Some(format!("<tidemill-alert-{}-{at}@{domain}>", message.id)))
            .header(ContentType::TEXT_PLAIN);
        if let Ok(name) = HeaderName::new_from_ascii("Auto-Submitted".to_owned()) {
            letter = letter.raw_header(HeaderValue::new(name, "auto-generated".to_owned()));
        }
        for to in &self.to {
            letter = letter.to(to.clone());
        }
        letter.body(text(announcement))
    }
}

fn text(announcement: &Announcement) -> String {
    let Announcement { rule, subject, severity, notice, since, at, summary, .. } = announcement;
    format!(
        "{summary}\n\n\
         Rule:     {rule}\n\
         Subject:  {subject}\n\
         Severity: {severity}\n\
         Notice:   {notice}\n\
         Since:    {since}\n\
         At:       {at}\n"
    )
}

/// The parser ignores what follows an address, so the address has to be at the end.
fn mailbox(text: &str) -> Result<Mailbox, String> {
    let text = text.trim();
    let whole = |found: &Mailbox| text.trim_end_matches('>').ends_with(&found.email.to_string());
    let parsed: Option<Mailbox> = text.parse().ok().filter(whole);
    parsed
        .ok_or_else(|| format!("{text:?} is not an address such as ops@example.com or Ops <ops@example.com>"))
}

fn tls_parameters(host: &str, ca: Option<&PathBuf>) -> Result<TlsParameters, String> {
    let mut builder = TlsParameters::builder(host.to_owned());
    if let Some(path) = ca {
        let file = path.display();
        let pem = std::fs::read(path).map_err(|error| format!("cannot read {file}: {error}"))?;
        let is_pem = pem.windows(17).any(|line| line == b"BEGIN CERTIFICATE");
        let ca = Certificate::from_pem(&pem).ok().filter(|_| is_pem);
        builder =
            builder.add_root_certificate(ca.ok_or_else(|| format!("{file} has no certificate in PEM"))?);
    }
    builder.build().map_err(|error| error.to_string())
}

/// The name of this host, if a mail server accepts it.
fn own_name() -> ClientId {
    let host = tidemill_engine::system::host_name();
    let is_plain = |name: &String| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.'))
    };
    Some(host).filter(is_plain).map_or_else(ClientId::default, ClientId::Domain)
}

/// A server that refuses for good, or that cannot do what is needed, is not tried again.
fn failed(error: &Error) -> DeliveryError {
    let source = error.source().map(ToString::to_string).unwrap_or_default();
    let source = source.chars().map(|c| if c.is_control() { ' ' } else { c }).take(ANSWER_CHARS_MAX);
    let why = match error.status().map(|code| code.to_string()) {
        // The answer to a login might repeat it.
        Some(code) if code.starts_with("53") => format!("the mail server refused the login ({code})"),
        Some(code) => format!("the mail server answered {code} {}", source.collect::<String>()),
        None if error.is_timeout() => "the mail server did not answer in time".to_owned(),
        None if error.is_tls() => format!("TLS failed: {}", source.collect::<String>()),
        None => format!("the mail was not sent: {}", source.collect::<String>()),
    };
    let is_final = error.is_permanent() || error.is_client();
    if is_final { DeliveryError::permanent(why) } else { DeliveryError::temporary(why) }
}

impl Channel for Mail {
    fn name(&self) -> &str {
        &self.name
    }

    fn deliver<'a>(&'a self, message: &'a Message) -> Delivering<'a> {
        Box::pin(self.send(message))
    }
}

/// Keeps the login out of logs.
impl fmt::Debug for Mail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mail({})", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mail(to: &str, security: Security) -> Result<Mail, BadMail> {
        let login = Some(("tidemill".to_owned(), "geheim".to_owned()));
        let (host, from) = ("mail.example.com".to_owned(), "Tidemill <tidemill@example.com>".to_owned());
        let options = MailOptions { host, port: None, security, ca: None, login, from, to: to.to_owned() };
        Mail::new("ops", options)
    }

    #[test]
    fn addresses_are_checked_at_the_start() {
        let good = mail("ops@example.com, On Call <oncall@example.com>", Security::StartTls).unwrap();
        assert_eq!(good.to.len(), 2);
        assert_eq!(format!("{good:?}"), "Mail(ops)");

        for to in ["", "ops", "ops@example.com,", "ops@example.com x", "ops@example.com\r\nBcc: x@y.z"] {
            let error = mail(to, Security::Tls).unwrap_err();
            assert!(error.to_string().contains("is not an address"), "{to:?}: {error}");
        }
    }

    #[test]
    fn a_password_is_never_sent_in_the_clear() {
        let error = mail("ops@example.com", Security::None).unwrap_err();

        assert!(error.to_string().contains("set tls") && !error.to_string().contains("geheim"), "{error}");
    }
}
