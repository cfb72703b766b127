package settings

import (
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"

	"berth/app"
	"berth/web/provider"
)

// signInSettings are those of providers that people sign in with.
type signInSettings struct {
	DiscordClient, DiscordSecret string // the secret is a path
	OpenIDIssuer, OpenIDName     string
	OpenIDClient, OpenIDSecret   string
	OpenIDRoots                  string // path, may be empty
	SignUpRAM                    app.MB // 0: nobody makes an account
}

// Providers returns those that the settings name, with what the files hold that they name. It fails
// when one lacks something: each needs a client id, a secret, and base_url to lead back to.
func (s Settings) Providers() (all []provider.Config, err error) {
	in := s.SignIn
	if in.DiscordClient != "" {
		c := provider.Config{Name: "discord", Title: "Discord", Issuer: provider.Discord, Client: in.DiscordClient}
		if c.Secret, err = readSecret("sign_in.discord_secret", in.DiscordSecret); err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	if in.OpenIDIssuer != "" {
		c := provider.Config{Name: "openid", Title: in.OpenIDName, Issuer: in.OpenIDIssuer, Client: in.OpenIDClient}
		if c.Client == "" {
			return nil, errors.New("cannot use sign_in.openid_issuer: sign_in.openid_client is not set")
		}
		if c.Secret, err = readSecret("sign_in.openid_secret", in.OpenIDSecret); err != nil {
			return nil, err
		}
		if c.Roots, err = readRoots("sign_in.openid_roots", in.OpenIDRoots); err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	if len(all) > 0 && !strings.HasPrefix(s.BaseURL, "https:") {
		return nil, fmt.Errorf("cannot let people sign in with %s: it leads back to base_url, which must be the https address of the panel", all[0].Title)
	}
	return all, nil
}

// readSecret reads the one line of a file that nobody but its owner may read.
func readSecret(key, path string) (string, error) {
	text, err := readPrivate(key, path)
	if err != nil {
		return "", err
	}
	secret := strings.TrimSpace(text)
	if secret == "" || strings.ContainsAny(secret, "\r\n") {
		err = fmt.Errorf("cannot use %s: %s must hold the secret, on one line", key, path)
	}
	return secret, err
}

// readPrivate reads a file that a setting names, and that others may not read.
func readPrivate(key, path string) (string, error) {
	if path == "" {
		return "", fmt.Errorf("cannot use %s: it is not set", key)
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("cannot read %s: %w", key, err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("cannot use %s: others may read %s; forbid it (chmod 600 %[2]s)", key, path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("cannot read %s: %w", key, err)
	}
	return string(text), nil
}

// readRoots reads the certificates of a file; nil for no path.
func readRoots(key, path string) (*x509.CertPool, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", key, err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		err = errors.New("cannot use " + key + ": there is no certificate in " + path)
	}
	return roots, err
}
