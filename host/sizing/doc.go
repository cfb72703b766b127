// Package sizing says which RAM fits an application, and how much more RAM a host can
// sell, from what is remembered of the last 30 days.
//
// It is policy, and pure: Right and Plan are functions of points (host/watch/metrics), of
// exits and of figures that the daemon hands in. httpapi, web/panel and the command plan
// show what they return.
//
// # The right size
//
// Right advises more RAM where the kernel killed the program for its RAM, and less where
// 30 days show that less is enough. It never advises what it would take back: the next
// look, with the same use, finds the size right.
//
//   - A size is a power of two, or one and a half times that (64, 96, 128, 192, ...), and
//     at least 1.3 times the highest use. For a language whose heap grows with its limit
//     the factor is 1.6: its collector waits until a part of the limit is used, so that
//     the use shrinks with the limit, and a smaller factor would advise less again and
//     again.
//   - A kill says that the program needed more than its limit. For 30 days no size is
//     advised that is not 1.3 times that limit.
//   - Less is advised after 7 days of measurement, and not while the use still rises.
//   - A program whose use climbed until it was killed, at one limit and again at a larger
//     one, is not helped by more RAM. The answer says so.
//
// The highest use is that of samples, one a minute. Peaks between them are why there is
// spare RAM in each size.
//
// # The plan
//
// A Busiest adds up what all applications used in the same ten minutes, and keeps the
// worst. Plan applies the share of the RAM that was used then to each host.overcommit.
package sizing
