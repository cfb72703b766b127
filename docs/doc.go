// Package docs is the documentation of this version: the Markdown files beside it, as
// pages of HTML with their sections, and a search in them.
//
// The panel shows it to who is signed in, so an owner reads what this version does, also
// where no other host can be reached. The files are read and rendered when they are asked for, and
// nothing of them is kept: an idle daemon holds none of it.
package docs
