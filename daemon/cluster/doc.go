// Package cluster runs programs as pods of a Kubernetes cluster: it is host.Launch, Adopt and Shell over package kube.
//
// Each run is one bare pod, which nothing starts again but berth. The pods are the memory: an Engine keeps what a watch
// tells, and a daemon that starts finds the runs of the one before by their labels. How far a log was read is kept with
// the log (logs.Log.Take).
//
// An end goes so: the watch tells that the pod is over, the log is read to its end, Wait returns, and only after a while,
// when the host has recorded the exit, is the pod removed. A daemon that dies before finds it, and the host knows that
// exit by its run.
//
// Nothing starts that may be the second program of an application: not while the cluster tells nothing, not while a pod
// of it is there that may run, and not after a request of which nobody knows what came of it.
//
// Nothing starts either before a pod on each machine has tried what programs reach there (reach.go): who reaches the
// server of the volume reaches the files of all.
package cluster
