// Package importer reads what other ways to run programs know of them: the dump of PM2, unit
// files of systemd, and backups of the hosted Application Hosting Service. It makes one
// Candidate of each program: what berth takes over, and what it cannot take over and why.
//
// It changes nothing, starts nothing and asks no network. It reads files through a Machine
// alone, so that it is the same on every system, and takes all that it reads for hostile: sizes
// are bounded, and no error and no note repeats the value of an environment variable. Command
// lines can hold secrets too; Hide covers those that look like one.
package importer
