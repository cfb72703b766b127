// Package daemon is berth serving. It opens the data directory, the control
// groups, the walls and the sockets; takes over the programs of the daemon before
// it; wires policy (host), mechanisms (files, proc, db) and edges (httpapi, web);
// serves; and ends, or hands over to the next binary. It decides nothing about
// applications and parses no command line.
//
// Serve is the way in. What only looks (Check, Certificates) or opens the records
// beside a daemon (OpenDatabase) is for the commands of the host.
package daemon
