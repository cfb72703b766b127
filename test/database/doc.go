// Package database gives tests a database with the newest schema and nothing in it. To
// make one takes as long as a short test, so each process of tests makes one and copies it.
// Tests of db itself, of its creation and of its migrations use db alone.
package database
