-- Where in a distributed trace the execution began, as W3C Trace Context writes it; null without telemetry.
alter table tidemill_job_execution add column traceparent text;
