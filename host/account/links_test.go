package account

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"math"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/app"
)

var linkNow = time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)

func testLinks(key byte) *Links {
	return NewLinks(bytes.Repeat([]byte{key}, 32), func() time.Time { return linkNow })
}

func TestLinksRoundTrip(t *testing.T) {
	l := testLinks(1)
	for _, link := range []app.Link{
		{Kind: app.LinkLog, Object: "shop", Expires: linkNow.Add(time.Second)},
		{Kind: app.LinkBackup, Object: "a b/ü?.zip", Version: -3, Expires: linkNow.Add(time.Hour)},
		{Kind: app.LinkBackup, Object: strings.Repeat("o", maxObject), Version: math.MaxInt64, Expires: linkNow.AddDate(900, 0, 0)},
		{Kind: app.LinkLog, Expires: linkNow.Add(time.Hour)},
	} {
		text := l.Sign(link)
		if url.PathEscape(text) != text {
			t.Errorf("%q is not one path segment", text)
		}
		if got, err := l.Verify(text); err != nil || got != link {
			t.Errorf("got %+v, %v; want %+v", got, err, link)
		}
	}
}

func TestVerifyRefuses(t *testing.T) {
	l := testLinks(1)
	link := app.Link{Kind: app.LinkLog, Object: "shop", Version: 7, Expires: linkNow.Add(time.Hour)}
	good := l.Sign(link)
	expired, atOnce, long := link, link, link
	expired.Expires = linkNow.Add(-time.Second)
	atOnce.Expires = linkNow
	long.Object = strings.Repeat("o", maxObject+1)
	for name, text := range map[string]string{
		"empty": "", "no base64": "!!!!", "too short": "AAAA", "padded": good + "=", "line break": good + "\n",
		"expired": l.Sign(expired), "expires now": l.Sign(atOnce), "too long": l.Sign(long), "another key": testLinks(2).Sign(link),
		"cut": good[:len(good)-4], "longer": good + "AAAA", "huge": strings.Repeat("A", 1<<20),
	} {
		_, err := l.Verify(text)
		wantKind(t, name, err, app.NotFound)
	}
}

// TestVerifyNoticesEveryBit also covers the bits that base64 does not use: a
// second spelling of a link is none.
func TestVerifyNoticesEveryBit(t *testing.T) {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	l := testLinks(1)
	for _, object := range []string{"s", "sh", "sho"} { // each length of the last group
		good := l.Sign(app.Link{Kind: app.LinkLog, Object: object, Expires: linkNow.Add(time.Hour)})
		for i := range good {
			for _, c := range []byte(alphabet) {
				if bad := good[:i] + string(c) + good[i+1:]; bad != good {
					if _, err := l.Verify(bad); err == nil {
						t.Fatalf("%q passed for %q", bad, good)
					}
				}
			}
		}
	}
}

func FuzzVerify(f *testing.F) {
	l := testLinks(1)
	good := l.Sign(app.Link{Kind: app.LinkBackup, Object: "a.zip", Expires: linkNow.Add(time.Hour)})
	for _, seed := range []string{"", good, good[1:], good + "A", "AAAA", strings.Repeat("_", 100)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		link, err := l.Verify(text)
		if err != nil {
			wantKind(t, text, err, app.NotFound)
			return
		}
		if l.Sign(link) != text {
			t.Errorf("%q passed but is not what Sign makes of %+v", text, link)
		}
	})
}

// Links and known browsers come of one key, and neither is taken for the other; a link of one
// kind, or of one file, is none of another.
func TestKeysAreByPurpose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key := bytes.Repeat([]byte{1}, 32)
		s, d := newSignIns(t)
		s.key = knownKey(key)
		links := NewLinks(key, time.Now)
		known, err := s.Remember(t.Context(), d.account)
		must(t, err)
		if who, err := s.browser(t.Context(), "ana", known); who == "" || err != nil {
			t.Fatalf("a known browser is not known: %v", err)
		}
		_, err = links.Verify(known)
		wantKind(t, "a known browser as a link", err, app.NotFound)
		b, err := base64.RawURLEncoding.DecodeString(known)
		must(t, err)
		head := b[:len(b)-sha256.Size]
		for what, sum := range map[string][]byte{"the key of links": mac(key, head), "and of the account": mac(key, head, binary.BigEndian.AppendUint64(nil, uint64(d.account.ID)), []byte(d.password))} {
			text := base64.RawURLEncoding.EncodeToString(append(bytes.Clone(head), sum...))
			if who, err := s.browser(t.Context(), "ana", text); who != "" || err != nil {
				t.Errorf("%s makes a known browser: %v", what, err)
			}
		}
		link := app.Link{Kind: app.LinkLog, Object: "shop", Expires: time.Now().Add(time.Hour)}
		text := links.Sign(link)
		if who, err := s.browser(t.Context(), "ana", text); who != "" || err != nil {
			t.Errorf("a link is a known browser: %v", err)
		}
		_, _, err = s.Session(t.Context(), text, home)
		wantKind(t, "a link as a session", err, app.Unauthorized)
		_, _, err = s.Session(t.Context(), known, home)
		wantKind(t, "a known browser as a session", err, app.Unauthorized)
		got, err := links.Verify(text)
		if err != nil || got.Kind != app.LinkLog || got.Object != "shop" {
			t.Errorf("the link is of %+v, %v", got, err)
		}
	})
}
