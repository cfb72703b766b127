// Package metrics is what a monitoring system reads of berth: the page /metrics in the text
// format of Prometheus 0.0.4, and /healthz.
//
// It decides nothing and measures nothing by itself but what Meter counts of events. The
// daemon hands in what is known (Source). Families is the one table of what there is: the
// page, docs/monitoring.md and the tests of deploy/alerts.yml and deploy/grafana.json come
// from it. Names and units are those of
// https://prometheus.io/docs/practices/naming/: base units, _total for what only grows.
//
// Labels are the ids and names of applications, and words of berth. What visitors send is no
// label, so the number of lines grows with the applications alone; MostApps bounds that.
package metrics
