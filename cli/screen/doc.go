// Package screen is what a terminal shows: how wide it is, and what strangers' bytes may
// do on it. What programs print, names and notes are others' words on a terminal that is
// often root's, so every command prints them through here.
package screen
