package provider

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"berth/app"
)

// Discord is the issuer of a Config for Discord, which is no OpenID provider: its API says whose
// an access token is.
const Discord = "discord"

// Config is a provider that the owner of the host has chosen.
type Config struct {
	Name           string         // in addresses, of letters, digits and '-'
	Title          string         // for people
	Issuer         string         // an address exactly as the provider writes it, or Discord
	Client, Secret string         // what the provider knows this host by
	Roots          *x509.CertPool // whose certificates are believed; nil: those of the system
	discordBase    string         // of tests
}

const (
	discordBase  = "https://discord.com"
	maxSubject   = 255 // OpenID Connect Core 1.0, section 2
	maxShown     = 100 // bytes of a name
	metadataLife = time.Hour
	failureLife  = 30 * time.Second // that a provider that is down slows nobody twice
	metadataTime = 5 * time.Second
	exchangeTime = 10 * time.Second
)

// provider is one of them, with what it says of itself. It is safe for concurrent use.
type provider struct {
	Config
	client *http.Client
	turn   chan struct{} // who holds it may read and write the rest
	oauth  oauth2.Config
	keys   *oidc.IDTokenVerifier
	issues bool // the provider says that answers name it (RFC 9207)
	until  time.Time
	failed error
}

func newProvider(c Config, base string) *provider {
	p := &provider{Config: c, client: newClient(c.Roots), turn: make(chan struct{}, 1)}
	p.oauth = oauth2.Config{
		ClientID: c.Client, ClientSecret: c.Secret, Scopes: []string{oidc.ScopeOpenID, "profile"},
		RedirectURL: strings.TrimSuffix(base, "/") + "/sign-in/" + c.Name + "/callback",
	}
	if c.Issuer == Discord {
		p.oauth.Scopes = []string{"identify"}
		p.discordBase = cmp.Or(c.discordBase, discordBase)
	}
	return p
}

// issuer is what an identity has as its issuer.
func (p *provider) issuer() string {
	if p.Issuer == Discord {
		return discordBase
	}
	return p.Issuer
}

// errDown is the error of a provider that does not do what it should. cause is for the log.
func (p *provider) errDown(cause error) error {
	return &failure{app.Errorf(app.Unavailable, "cannot sign you in by %s: it does not answer as it should; try again later, or sign in with your password", p.Title), cause}
}

// errLie is the error of an answer that proves nothing.
func (p *provider) errLie(cause error) error {
	return &failure{app.Errorf(app.Unauthorized, "cannot sign you in by %s: its answer does not prove who you are; begin again", p.Title), cause}
}

// failure is a sentence for a person. Its cause has bytes of the provider: it is for the log.
type failure struct{ sentence, cause error }

// Error implements error, without the cause.
func (f *failure) Error() string { return f.sentence.Error() }

// Unwrap returns the sentence.
func (f *failure) Unwrap() error { return f.sentence }

// Cause returns why a provider failed, nil for another error. It may quote the provider, and no
// token.
func Cause(err error) error {
	if f, ok := errors.AsType[*failure](err); ok {
		return f.cause
	}
	return nil
}

// known is what a provider says of itself, at one moment.
type known struct {
	oauth  oauth2.Config
	keys   *oidc.IDTokenVerifier
	issues bool
}

// learn returns what the provider says of itself, from memory for an hour, and a failure for
// half a minute.
func (p *provider) learn(ctx context.Context) (known, error) {
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return known{}, p.errDown(ctx.Err())
	}
	if !time.Now().Before(p.until) {
		// Whoever closes the browser now does not make it fail for those who wait.
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), metadataTime)
		defer cancel()
		p.failed = p.ask(oidc.ClientContext(within, p.client))
		p.until = time.Now().Add(metadataLife)
		if p.failed != nil {
			p.until = time.Now().Add(failureLife)
		}
	}
	if p.failed != nil {
		return known{}, p.errDown(p.failed)
	}
	return known{p.oauth, p.keys, p.issues}, nil
}

// ask asks the provider what it is.
func (p *provider) ask(ctx context.Context) error {
	if p.Issuer == Discord {
		p.oauth.Endpoint = oauth2.Endpoint{
			AuthURL: p.discordBase + "/oauth2/authorize", TokenURL: p.discordBase + "/api/oauth2/token", AuthStyle: oauth2.AuthStyleInHeader,
		}
		return nil
	}
	found, err := oidc.NewProvider(ctx, p.Issuer)
	if err != nil {
		return err
	}
	var more struct {
		Methods []string `json:"token_endpoint_auth_methods_supported"`
		Issues  bool     `json:"authorization_response_iss_parameter_supported"`
		Keys    string   `json:"jwks_uri"`
	}
	if err := found.Claims(&more); err != nil {
		return err
	}
	p.oauth.Endpoint = found.Endpoint()
	for _, address := range []string{p.oauth.Endpoint.AuthURL, p.oauth.Endpoint.TokenURL, more.Keys} {
		u, err := url.Parse(address)
		if err != nil || !p.safe(u) {
			return errors.New("one of its addresses is not https")
		}
	}
	// Named, so that no code goes out twice: who guesses tries one way, then the other.
	p.oauth.Endpoint.AuthStyle = oauth2.AuthStyleInHeader
	if len(more.Methods) > 0 && !slices.Contains(more.Methods, "client_secret_basic") {
		p.oauth.Endpoint.AuthStyle = oauth2.AuthStyleInParams
	}
	p.issues = more.Issues
	p.keys = found.Verifier(&oidc.Config{ClientID: p.Client})
	return nil
}

func (p *provider) safe(u *url.URL) bool {
	return u.Host != "" && u.User == nil && u.Scheme == "https"
}

// identity exchanges a code for who somebody is.
func (p *provider) identity(ctx context.Context, k known, code string, w waiting) (app.Identity, error) {
	ctx, cancel := context.WithTimeout(oidc.ClientContext(ctx, p.client), exchangeTime)
	defer cancel()
	token, err := k.oauth.Exchange(ctx, code, oauth2.VerifierOption(w.verifier))
	if err != nil {
		if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok { // its text has the whole answer
			return app.Identity{}, p.errLie(fmt.Errorf("the token endpoint refused: %.100q", refused.ErrorCode))
		}
		return app.Identity{}, p.errDown(errors.New("the token endpoint did not answer with a token"))
	}
	if p.Issuer == Discord {
		return p.discordIdentity(ctx, token)
	}
	text, _ := token.Extra("id_token").(string)
	proof, err := k.keys.Verify(ctx, text)
	if err != nil {
		return app.Identity{}, p.errLie(err)
	}
	var claims struct {
		Party    string `json:"azp"`
		Name     string `json:"name"`
		Username string `json:"preferred_username"`
		AuthTime int64  `json:"auth_time"`
	}
	if err := proof.Claims(&claims); err != nil {
		return app.Identity{}, p.errLie(err)
	}
	switch {
	case proof.Nonce != w.nonce:
		return app.Identity{}, p.errLie(errors.New("the id token is of another sign-in"))
	case len(proof.Audience) > 1 && claims.Party == "", claims.Party != "" && claims.Party != p.Client:
		return app.Identity{}, p.errLie(errors.New("the id token was made for another client"))
	case w.purpose.Prove && claims.AuthTime != 0 && time.Since(time.Unix(claims.AuthTime, 0)) > Life:
		return app.Identity{}, p.errLie(errors.New("the provider did not ask the person again"))
	}
	if claims.Name == "" {
		claims.Name = claims.Username
	}
	return p.person(proof.Subject, claims.Name)
}

// discordIdentity asks Discord whose an access token is.
func (p *provider) discordIdentity(ctx context.Context, token *oauth2.Token) (app.Identity, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.discordBase+"/api/v10/users/@me", http.NoBody)
	if err != nil {
		return app.Identity{}, p.errDown(err)
	}
	request.Header.Set("Authorization", "Bearer "+token.AccessToken)
	response, err := p.client.Do(request)
	if err != nil {
		return app.Identity{}, p.errDown(err)
	}
	defer response.Body.Close()
	var user struct {
		ID       string `json:"id"`
		Username string `json:"username"`
		Global   string `json:"global_name"`
		Bot      bool   `json:"bot"`
	}
	if response.StatusCode != http.StatusOK {
		return app.Identity{}, p.errDown(fmt.Errorf("users/@me answered %d", response.StatusCode))
	}
	if err := json.NewDecoder(response.Body).Decode(&user); err != nil {
		return app.Identity{}, p.errDown(err)
	}
	if strings.Trim(user.ID, "0123456789") != "" || user.Bot {
		return app.Identity{}, p.errLie(errors.New("the user of Discord has no id of a person"))
	}
	if user.Global == "" {
		user.Global = user.Username
	}
	return p.person(user.ID, user.Global)
}

// person checks what a provider says of somebody.
func (p *provider) person(subject, name string) (app.Identity, error) {
	if subject == "" || len(subject) > maxSubject || strings.ContainsFunc(subject, func(r rune) bool { return r < ' ' || r > '~' }) {
		return app.Identity{}, p.errLie(errors.New("the subject is empty, too long or not ASCII"))
	}
	return app.Identity{Issuer: p.issuer(), Subject: subject, Name: strings.ToValidUTF8(name[:min(len(name), maxShown)], "")}, nil
}
