// Package settings is everything an owner can set. One table has a row for each
// setting: its key, its default, its help and the kind of value it takes. From
// the table come the flags, the environment variables, the keys of the settings
// file, and what every refusal says. A flag beats the environment, the
// environment beats the owner's file, that beats the managed file, which berth
// writes itself (Manage), and that beats the default.
//
// A value that cannot be is an exit.Problem, with the exit code of where it came from.
package settings
