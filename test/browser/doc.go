// Package browser shows the built daemon to a real Chromium: what a visitor of a
// site gets, its pages and streams included, and the control panel as people use it.
// It is a module of its own, so that what drives Chromium is no part of what berth is
// built from.
//
// A test calls launch for a daemon, chromium for a browser with an empty profile
// that finds the daemon's sites by their names, and tab for a page that collects
// whatever goes wrong in it. With BERTH_SCREENSHOTS=DIR the pictures stay there.
package browser
