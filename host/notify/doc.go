// Package notify tells owners what happened: which notices become a message, in which
// words, and when it is sent, and sent again.
//
// It is policy: it keeps nothing of its own but what it can read again from its Store, and
// reaches programs, logs and the services through the functions and interfaces of its
// Config. The daemon wires it; package db stores notices in the transaction of what
// happened, web/channel knows the services.
//
// # One crash
//
//  1. db stores the exit, and with it, in the same transaction, an app.Notice, if the
//     account has a channel. After the commit it calls Notifier.Wake.
//  2. Notifier.Run waits a moment for what happens together with it (moments), and asks for
//     each notice whether it is told now (hear, restraint.go): not within its distance of
//     the last message about the same topic.
//  3. For each channel whose filter lets something through, compose (compose.go) makes one
//     app.Message in the language of the channel, without the secrets of the application
//     (secrets, redact.go).
//  4. Store.Tell stores the messages as deliveries, and takes the notices away, in one
//     transaction: a crash of berth loses none and makes none twice.
//  5. Notifier.deliver (deliver.go) sends what is due, at most one message at once to a channel and
//     three for an account, and stores how that ended. A crash of berth between the two
//     sends a message twice, with the same ID.
//
// # What lasts
//
// A program that crashes again is told of at growing distances (distances), with how often
// it happened meanwhile, and once more when it has run for as long as healthy says. A
// trouble is forgotten when nothing was heard of it for its distance.
package notify
