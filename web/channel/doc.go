// Package channel brings a message to where an account's owner looks: Discord, Slack, Telegram, ntfy,
// e-mail, or any address by Standard Webhooks 1.0.0. Each service has a file, which says how an address
// of its kind looks (Check), what of it may be shown (Mask), and how a message is written there.
//
// It decides nothing of when and what: a Sender tries once, in 15 seconds at most, and the
// Receipt says how that ended. Everything but mail goes through package egress. Mail goes to the
// server of the host's settings.
//
// What a message says may be a program's output, so it is made harmless for each service: no control
// characters, no mention that would ring at somebody's, no code fence that ends before its text, no more than
// the service takes. An excerpt keeps its end, where the error is. Lengths are counted as UTF-16 does,
// which is as strict as any service. No part of an answer's body comes into a Receipt, for an answer is
// the receiver's text, and no address does, for an address is a secret.
package channel
