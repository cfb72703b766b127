// Package icon makes the icon of an application from a picture that somebody brings: a PNG, JPEG or
// WebP of at most MaxBytes and MaxSide pixels a side becomes a PNG of at most Side pixels.
//
// The picture is hostile. What its headers say is checked before anything is decoded, and a child process decodes it,
// so that a decoder's memory and mistakes are not the daemon's: at most 56 MB were seen for the worst picture, 15 MB
// for an ordinary one. Nothing of the file goes into the icon but the colours of its pixels: neither metadata nor what
// stands behind the picture. There is no SVG, and nothing is fetched.
package icon
