//! The text of `/metrics` as a request of OTLP: the same names, labels, numbers and bounds.

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics,
    ScopeMetrics, Sum,
};
use opentelemetry_sdk::Resource;
use prost::Message;
use tidemill_domain::time::Timestamp;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) started: Timestamp,
    pub(crate) now: Timestamp,
}

/// None if the text has no numbers.
pub(crate) fn encoded(text: &str, resource: &Resource, times: Times) -> Option<Vec<u8>> {
    let metrics = read(text, times);
    if metrics.is_empty() {
        return None;
    }
    let scope = InstrumentationScope { name: "tidemill".to_owned(), ..InstrumentationScope::default() };
    let scope_metrics = vec![ScopeMetrics { scope: Some(scope), metrics, ..ScopeMetrics::default() }];
    let resource_metrics =
        ResourceMetrics { resource: Some(resource.into()), scope_metrics, ..ResourceMetrics::default() };
    Some(ExportMetricsServiceRequest { resource_metrics: vec![resource_metrics] }.encode_to_vec())
}

fn read(text: &str, times: Times) -> Vec<Metric> {
    let mut metrics: Vec<Metric> = Vec::new();
    let mut about = "";
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            about = rest.split_once(' ').map_or("", |(_, about)| about);
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap_or((rest, ""));
            let (name, description) = (name.to_owned(), std::mem::take(&mut about).to_owned());
            metrics.push(Metric { name, description, data: data(kind), ..Metric::default() });
        } else if let (Some(metric), Some(sample)) = (metrics.last_mut(), Sample::read(line)) {
            sample.add_to(metric, times);
        }
    }
    metrics.retain(|metric| metric.data.is_some());
    metrics
}

fn data(kind: &str) -> Option<Data> {
    let aggregation_temporality = i32::from(AggregationTemporality::Cumulative);
    match kind {
        "counter" => Some(Data::Sum(Sum { aggregation_temporality, is_monotonic: true, ..Sum::default() })),
        "gauge" => Some(Data::Gauge(Gauge::default())),
        "histogram" => Some(Data::Histogram(Histogram { aggregation_temporality, ..Histogram::default() })),
        _ => None,
    }
}

/// One line.
struct Sample<'t> {
    name: &'t str,
    labels: Vec<(&'t str, String)>,
    value: &'t str,
}

impl<'t> Sample<'t> {
    fn read(line: &'t str) -> Option<Self> {
        let end = line.find(['{', ' '])?;
        let (name, mut rest) = line.split_at(end);
        let mut labels = Vec::new();
        while let Some(label) = rest.strip_prefix(['{', ',']) {
            let (name, value) = label.split_once("=\"")?;
            let (value, after) = quoted(value)?;
            labels.push((name, value));
            rest = after;
        }
        let value = rest.strip_prefix('}').unwrap_or(rest).trim();
        (!value.is_empty()).then_some(Self { name, labels, value })
    }

    fn add_to(self, metric: &mut Metric, times: Times) {
        match &mut metric.data {
            Some(Data::Sum(sum)) => {
                let count = self.value.parse().ok().map(Value::AsInt);
                sum.data_points.extend(count.map(|count| self.number(count, times)));
            }
            Some(Data::Gauge(gauge)) => {
                // NaN says that there is no number, such as a share of nothing.
                let level =
                    self.value.parse().ok().filter(|level: &f64| !level.is_nan()).map(Value::AsDouble);
                gauge.data_points.extend(level.map(|level| self.number(level, times)));
            }
            Some(Data::Histogram(histogram)) => {
                let part = self.name.strip_prefix(metric.name.as_str()).unwrap_or_default();
                self.add_part(part, &mut histogram.data_points, times);
            }
            _ => {}
        }
    }

    fn number(&self, value: Value, times: Times) -> NumberDataPoint {
        NumberDataPoint {
            attributes: self.attributes(),
            start_time_unix_nano: nanos(times.started),
            time_unix_nano: nanos(times.now),
            value: Some(value),
            ..NumberDataPoint::default()
        }
    }

    /// The lines of one histogram follow each other: its buckets, each with those below it, then the sum and the count.
    fn add_part(self, part: &str, points: &mut Vec<HistogramDataPoint>, times: Times) {
        let attributes = self.attributes();
        if points.last().is_none_or(|last| last.attributes != attributes) {
            points.push(HistogramDataPoint {
                attributes,
                start_time_unix_nano: nanos(times.started),
                time_unix_nano: nanos(times.now),
                ..HistogramDataPoint::default()
            });
        }
        let Some(point) = points.last_mut() else { return };
        match (part, self.value.parse::<u64>()) {
            ("_bucket", Ok(count)) => {
                let below: u64 = point.bucket_counts.iter().sum();
                point.bucket_counts.push(count.saturating_sub(below));
                point.explicit_bounds.extend(self.bound());
            }
            ("_count", Ok(count)) => point.count = count,
            ("_sum", _) => point.sum = self.value.parse().ok(),
            _ => {}
        }
    }

    /// None for the last bucket, which has none.
    fn bound(&self) -> Option<f64> {
        let (_, bound) = self.labels.iter().find(|(name, _)| *name == "le")?;
        bound.parse().ok().filter(|bound: &f64| bound.is_finite())
    }

    fn attributes(&self) -> Vec<KeyValue> {
        let attribute = |(name, value): &(&str, String)| KeyValue {
            key: (*name).to_owned(),
            value: Some(AnyValue { value: Some(any_value::Value::StringValue(value.clone())) }),
            ..KeyValue::default()
        };
        self.labels.iter().filter(|(name, _)| *name != "le").map(attribute).collect()
    }
}

/// The value of a label, and what comes behind its quotation mark.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => return Some((value, text.get(at + 1..)?)),
            '\\' => match chars.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
    None
}

fn nanos(at: Timestamp) -> u64 {
    u64::try_from(at.as_micros()).unwrap_or_default().saturating_mul(1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMES: Times = Times { started: Timestamp::from_micros(1), now: Timestamp::from_micros(2) };

    const TEXT: &str = "\
# HELP a_total Things.
# TYPE a_total counter
a_total{job=\"lo\\\"ad\\\\\",step=\"1\"} 18446744073
a_total 2

# TYPE b gauge
b{pool=\"A, {B}=\\n\"} -0.5
b{pool=\"C\"} NaN

# HELP c_seconds How long.
# TYPE c_seconds histogram
c_seconds_bucket{job=\"x\",le=\"0.5\"} 1
c_seconds_bucket{job=\"x\",le=\"5\"} 4
c_seconds_bucket{job=\"x\",le=\"+Inf\"} 9
c_seconds_sum{job=\"x\"} 77.5
c_seconds_count{job=\"x\"} 9
c_seconds_bucket{job=\"y\",le=\"0.5\"} 0
c_seconds_bucket{job=\"y\",le=\"5\"} 0
c_seconds_bucket{job=\"y\",le=\"+Inf\"} 1
c_seconds_sum{job=\"y\"} 6
c_seconds_count{job=\"y\"} 1

# TYPE d summary
d{quantile=\"0.5\"} 1
";

    fn labels(attributes: &[KeyValue]) -> Vec<(String, String)> {
        let text = |value: &Option<AnyValue>| match &value.as_ref().unwrap().value {
            Some(any_value::Value::StringValue(text)) => text.clone(),
            other => panic!("{other:?}"),
        };
        attributes.iter().map(|one| (one.key.clone(), text(&one.value))).collect()
    }

    fn pair(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn counters_and_gauges_have_their_labels_and_numbers() {
        let metrics = read(TEXT, TIMES);

        let names: Vec<&str> = metrics.iter().map(|metric| metric.name.as_str()).collect();
        assert_eq!(names, ["a_total", "b", "c_seconds"]);
        assert_eq!((metrics[0].description.as_str(), metrics[1].description.as_str()), ("Things.", ""));
        let Some(Data::Sum(sum)) = &metrics[0].data else { panic!("{metrics:?}") };
        assert!(sum.is_monotonic && sum.aggregation_temporality == 2);
        assert_eq!(labels(&sum.data_points[0].attributes), [pair("job", "lo\"ad\\"), pair("step", "1")]);
        assert_eq!(sum.data_points[0].value, Some(Value::AsInt(18_446_744_073)));
        assert_eq!(sum.data_points[1].value, Some(Value::AsInt(2)));
        let (first, at) = (sum.data_points[0].start_time_unix_nano, sum.data_points[0].time_unix_nano);
        assert_eq!((first, at), (1_000, 2_000));
        let Some(Data::Gauge(gauge)) = &metrics[1].data else { panic!("{metrics:?}") };
        assert_eq!(labels(&gauge.data_points[0].attributes), [pair("pool", "A, {B}=\n")]);
        assert_eq!(gauge.data_points[0].value, Some(Value::AsDouble(-0.5)));
        assert_eq!(gauge.data_points.len(), 1, "one that is unknown is left out");
    }

    #[test]
    fn a_bucket_has_only_what_is_above_the_one_before() {
        let metrics = read(TEXT, TIMES);

        let Some(Data::Histogram(histogram)) = &metrics[2].data else { panic!("{metrics:?}") };
        let [x, y] = histogram.data_points.as_slice() else { panic!("{histogram:?}") };
        assert_eq!(
            (x.bucket_counts.as_slice(), x.explicit_bounds.as_slice()),
            (&[1, 3, 5][..], &[0.5, 5.0][..])
        );
        assert_eq!((x.count, x.sum), (9, Some(77.5)));
        assert_eq!((y.bucket_counts.as_slice(), y.count), (&[0, 0, 1][..], 1));
        assert_eq!(labels(&y.attributes), [pair("job", "y")]);
    }

    #[test]
    fn nothing_is_sent_for_a_text_without_numbers() {
        let resource = Resource::builder_empty().build();

        assert_eq!(encoded("", &resource, TIMES), None);
        assert_eq!(encoded("# TYPE d summary\nd 1\n", &resource, TIMES), None);
        let sent = encoded(TEXT, &resource, TIMES).unwrap();
        let read_back = ExportMetricsServiceRequest::decode(sent.as_slice()).unwrap();
        assert_eq!(read_back.resource_metrics[0].scope_metrics[0].metrics, read(TEXT, TIMES));
    }
}
