// Package doctor examines a host: which limits its kernel enforces, which walls
// programs get, which languages it has, and whether the disk, the ports and the
// certificates are as the settings want them. It proves rather than believes: it
// starts a child and lets the kernel kill it for its memory. It changes nothing
// that stays. The command berth doctor prints what it finds, and the panel shows
// it.
package doctor
