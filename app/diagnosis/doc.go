// Package diagnosis reads what a program printed before it ended and finds the line that
// says why, and for common first mistakes a sentence with what helps: a package that is not
// installed, a token that is missing, a port that is taken.
//
// It is a table of patterns (rules.go), tried on real output of the runtimes (testdata). It
// knows nothing of the run but its lines, and it may be wrong: what berth itself knows of an exit, such as a
// kill for its RAM, goes before it. Lines are hostile: nothing of them is in a sentence
// but names of a bounded length, quoted.
package diagnosis
