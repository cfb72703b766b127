// Package web holds what every edge does with the requests it takes: it counts
// those that run, so that an end or an upgrade can wait for them. The edges
// themselves are httpapi and the packages below.
package web
