// Package kube runs pods in one namespace of a Kubernetes cluster, by plain REST: it makes, lists, watches, resizes,
// finishes and deletes them, reads what they print, runs commands in them, and asks their machines what they use.
//
// The structs hold what berth writes and reads of the API (v1, Kubernetes 1.33 on), by the API's names. There is no
// cache: who wants to know everything keeps what Watch tells. A Client waits for nothing but an answer, and repeats
// nothing, except Watch, which waits out a server that is away.
//
// Errors are of two kinds: ErrAway, when nothing is known of what was asked, and Error, a refusal with its code. What
// came of a change that ended with ErrAway is not known either: names and uids make it safe to ask again.
//
// What a cluster does not say of itself, and what follows (tried in test/cluster):
//
//   - A followed log may end early without an error. Read it again from the Place, also after the exit.
//   - Delete takes the log away within seconds. Finish first, then read, then delete.
//   - A program that is process 1 ignores SIGTERM. Pods share their process namespace.
//   - On control groups v1 the death of a helper marks a container OOMKilled that ends well. It was killed for its
//     memory only with the code 137.
//   - A command outlives its stream. Whoever runs one gives it a shell that ends with its input.
//   - Deleting without grace makes a cluster forget a pod that still runs on a machine that is cut off. Only a person may
//     ask for that (cluster.Forget).
package kube
