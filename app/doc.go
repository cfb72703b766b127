// Package app is the vocabulary of berth: an application, its account, one run
// and how it ended, the plan for its language, and the kinds of error. It declares what both
// edges ask for (Services), so that each is declared once.
//
// It decides nothing and touches nothing: no file, no process, no clock. Every
// other package may import it, and it imports the standard library alone.
package app
