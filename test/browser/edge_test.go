package browser

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// certificate writes a certificate of all sites and its key into a directory,
// which it returns.
func certificate(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"*." + domain}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, about, about, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, block := range map[string]*pem.Block{"sites.crt": {Type: "CERTIFICATE", Bytes: der}, "sites.key": {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// At the edge pages come by HTTP/2, with a WebSocket and a stream of events beside
// an upload on the same connection.
func TestSitesAtTheEdge(t *testing.T) {
	t.Parallel()
	d := launch(t, "--proxy-mode", "edge", "--proxy-https", "127.0.0.1:0", "--proxy-http", "127.0.0.1:0", "--proxy-domain", domain, "--proxy-cert", certificate(t))
	files := load(t, "node", "page.html", "page.js")
	files["discloud.config"] = config("shop", "index.js", 128)
	d.upload(files)
	pages := load(t, "static")
	pages["discloud.config"] = config("pages", "index.html", 32)
	d.upload(pages)
	b := chromium(t, d.sites(), "--ignore-certificate-errors")
	p := b.tab()
	p.open("https://shop."+domain+"/", 200)
	p.until(`result.who && result.closed && result.events.length >= 3 && result.length`)
	if got, want := eval[string](p, `JSON.stringify([result.who, result.socket, result.closed, result.length])`), `["node for shop.`+domain+`","over the wire",1000,"3000000"]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := eval[string](p, `performance.getEntriesByType("resource").concat(performance.getEntriesByType("navigation")).map((e) => e.nextHopProtocol).filter((name, i, all) => all.indexOf(name) === i).join()`); got != "h2" {
		t.Errorf("the page came by %s", got)
	}
	p.clean()
	p = b.tab()
	p.open("https://pages."+domain+"/", 200)
	p.until(`document.querySelector("p").textContent == "static at /"`)
	p.clean()
	p = b.tab()
	p.open("https://nobody."+domain+"/", 404)
	p.clean()
}
