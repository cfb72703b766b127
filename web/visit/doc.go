// Package visit proves that a name of the DNS, or an IP address, leads to this host: it asks
// there for an answer that only this host knows. It compares no addresses with those of
// interfaces, for many hosts are behind a router and do not know under which address others
// reach them.
//
// Answer serves the answers on port 80, for any name. A question proves that this host asks, so
// strangers get no answer: they could learn by it which addresses are of one host. Prover.Prove
// is the visitor. A visit that fails proves nothing: some routers do
// not lead a host back to itself, or answer such visits with a page of their own.
package visit
