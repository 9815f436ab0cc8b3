//! Spark steps: an application that is submitted to Spark.

use super::Builder;
use super::names::rendered;
use super::path::argument;
use crate::model::SparkFile;
use crate::template::Template;
use tidemill_engine::job::{SparkSpec, Step};

impl Builder<'_> {
    pub(super) fn spark(&mut self, name: &str, file: &SparkFile) -> Option<Step> {
        let app = self.path(&file.app, None)?;
        let args = self.templates(&file.args)?;
        let conf = self.named_templates(&file.conf)?;
        let master = match &file.master {
            Some(text) => Some(self.template(text)?),
            None => None,
        };
        let (declared, specs, timeout) = (self.parameter_names(), self.specs(), file.timeout);
        Some(Step::spark(name, move |scope| {
            let names = declared.in_step(scope);
            let word = |text: &Template| argument(text, scope, &names, &specs);
            let args: Vec<String> = args.iter().map(word).collect::<Result<_, _>>()?;
            let mut spark = SparkSpec::new(app.rendered(scope, &names)?).args(args);
            if let Some(master) = &master {
                spark = spark.master(word(master)?);
            }
            for (key, text) in &conf {
                spark = spark.conf(key, rendered(text, &names)?);
            }
            Ok(match timeout {
                Some(timeout) => spark.command(move |command| command.timeout(timeout)),
                None => spark,
            })
        }))
    }
}
