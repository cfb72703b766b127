package command

import (
	"context"
	"net/http"
)

// Host is the berth that runs on this machine, as its owner reaches it.
type Host struct {
	HTTP     *http.Client                                 // to its socket
	URL      string                                       // where browsers find it
	Accounts func(ctx context.Context) ([]string, error)  // the names of all
	Apps     func(ctx context.Context) ([]HostApp, error) // those of all accounts
}

// HostApp is an application of any account of a host.
type HostApp struct{ ID, Name, Account string }
