package httpapi

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/oauth2"

	"berth/app"
	"berth/host/account"
)

// shelf is a Store of tokens that keeps none.
type shelf struct{ account.Store }

func (shelf) Tokens(context.Context, app.AccountID) ([]app.Token, error) { return nil, nil }

func (shelf) InsertToken(_ context.Context, _ [32]byte, t app.Token) (app.Token, error) {
	t.ID = 5
	return t, nil
}

// inProcess sends requests to a handler over HTTPS, without a network.
type inProcess struct {
	handler http.Handler
	mu      sync.Mutex
	at      []time.Time // of the requests
}

func (p *inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	p.mu.Lock()
	p.at = append(p.at, time.Now())
	p.mu.Unlock()
	in := httptest.NewRequestWithContext(r.Context(), r.Method, r.URL.String(), r.Body)
	in.Header = r.Header
	rec := httptest.NewRecorder()
	p.handler.ServeHTTP(rec, in)
	return rec.Result(), nil
}

// golang.org/x/oauth2, which knows nothing of berth, gets a token by a code: it waits as
// long as it is told, and hears when the code is denied or has expired.
func TestDeviceFlowOfAnotherClient(t *testing.T) {
	for name, tt := range map[string]struct {
		decide func(*account.Devices, string) error // after a minute
		word   string                               // of the error; "" for a token
		hasty  bool
	}{
		"allowed": {func(d *account.Devices, code string) error { _, err := d.Decide(7, code, true); return err }, "", false},
		"hasty":   {func(d *account.Devices, code string) error { _, err := d.Decide(7, code, true); return err }, "", true},
		"denied":  {func(d *account.Devices, code string) error { _, err := d.Decide(7, code, false); return err }, accessDenied, false},
		"expired": {func(*account.Devices, string) error { return nil }, expiredToken, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				d := account.NewDevices(account.New(shelf{}), func(context.Context, app.AccountID) (app.Account, error) { return w.account, nil })
				w.config.Devices = d
				w.now = time.Now()
				h := w.handler()
				network := &inProcess{handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
					w.advance(time.Since(w.clock()))
					h.ServeHTTP(rw, r)
				})}
				config := oauth2.Config{ClientID: "other", Endpoint: oauth2.Endpoint{
					DeviceAuthURL: "https://berth.example.org/v2/device/authorize", TokenURL: "https://berth.example.org/v2/device/token",
					AuthStyle: oauth2.AuthStyleInParams,
				}}
				ctx := context.WithValue(t.Context(), oauth2.HTTPClient, &http.Client{Transport: network})
				begun, err := config.DeviceAuth(ctx, oauth2.SetAuthURLParam("machine", "build-7"))
				if err != nil {
					t.Fatal(err)
				}
				if begun.VerificationURI != "https://berth.example.org/device" || begun.VerificationURIComplete != "" || begun.Interval != 5 || time.Until(begun.Expiry) != 10*time.Minute {
					t.Errorf("got %+v", begun)
				}
				if tt.hasty {
					begun.Interval = 1
				}
				var decided sync.WaitGroup
				decided.Go(func() {
					time.Sleep(time.Minute)
					if err := tt.decide(d, begun.UserCode); err != nil {
						t.Error(err)
					}
				})
				begun.Expiry = begun.Expiry.Add(time.Minute) // or it would give up by itself
				token, err := config.DeviceAccessToken(ctx, begun)
				decided.Wait()
				refused := (*oauth2.RetrieveError)(nil)
				switch {
				case tt.word == "" && (err != nil || token.AccessToken == "" || token.TokenType != tokenType || time.Until(token.Expiry).Round(time.Hour) != account.DeviceLasts):
					t.Errorf("got %+v, %v", token, err)
				case tt.word != "" && (!errors.As(err, &refused) || refused.ErrorCode != tt.word || refused.ErrorDescription == ""):
					t.Errorf("got %v, want %s", err, tt.word)
				}
				if asked := len(network.at); tt.hasty && asked > 14 {
					t.Errorf("a hasty client asked %d times in a minute", asked)
				}
			})
		})
	}
}
