// Package cluster starts a real Kubernetes on this machine for the tests: a control plane and two machines, each in a
// network namespace of its own, of programs that test/scripts/kubernetes builds. Its tests (build tag cluster, make
// test-cluster) try on it what package kube promises.
package cluster
