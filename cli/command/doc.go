// Package command is what the commands of every system share: what they know of the
// process around them, their flags, and how they print and ask.
//
// A command is made by New, gets its flags from JSON, Toggle and Word, and does its work
// in RunE. Results go to Caller.Stdout by Caller.Print, a table for people or JSON for
// programs; everything else goes to Caller.Stderr. An error is an exit.Problem or an
// exit.Misuse where the caller can do something about it.
package command
