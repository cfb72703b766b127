//go:build cluster

package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// keys are the certificates of a cluster, in files.
type keys struct {
	dir    string
	ca     *x509.Certificate
	key    *ecdsa.PrivateKey
	serial int64
}

func (k *keys) file(name string) string { return filepath.Join(k.dir, name) }

// newKeys makes those of the control plane, and of each machine.
func newKeys(dir string, nodes []*Node) (*keys, error) {
	k := &keys{dir: dir}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	var err error
	if k.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, err
	}
	about := k.about("ca", "")
	about.IsCA, about.BasicConstraintsValid, about.KeyUsage = true, true, x509.KeyUsageCertSign|x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, about, about, &k.key.PublicKey, k.key)
	if err != nil {
		return nil, err
	}
	if k.ca, err = x509.ParseCertificate(der); err != nil {
		return nil, err
	}
	accounts, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	public, err := x509.MarshalPKIXPublicKey(&accounts.PublicKey)
	if err != nil {
		return nil, err
	}
	errs := []error{
		k.write("ca.crt", "CERTIFICATE", der), k.writeKey("accounts.key", accounts), k.write("accounts.pub", "PUBLIC KEY", public),
		k.issue("api", "kube-apiserver", "", "127.0.0.1", api, "10.96.0.1"),
		k.user("admin", "admin", "system:masters"), k.user("controllers", "system:kube-controller-manager", ""),
		k.user("scheduler", "system:kube-scheduler", ""), k.user("kubelets", "apiserver-kubelet-client", "system:masters"),
	}
	for _, n := range nodes {
		errs = append(errs, k.user(n.Name, "system:node:"+n.Name, "system:nodes", n.Address))
	}
	return k, errors.Join(errs...)
}

func (k *keys) about(name, group string) *x509.Certificate {
	k.serial++
	c := &x509.Certificate{
		SerialNumber: big.NewInt(k.serial), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if group != "" {
		c.Subject.Organization = []string{group}
	}
	return c
}

// issue writes FILE.crt and FILE.key.
func (k *keys) issue(file, name, group string, addresses ...string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	about := k.about(name, group)
	about.DNSNames = []string{file, "kubernetes.default.svc"}
	for _, a := range addresses {
		about.IPAddresses = append(about.IPAddresses, net.ParseIP(a))
	}
	der, err := x509.CreateCertificate(rand.Reader, about, k.ca, &key.PublicKey, k.key)
	if err != nil {
		return err
	}
	return errors.Join(k.write(file+".crt", "CERTIFICATE", der), k.writeKey(file+".key", key))
}

// user issues a certificate, and writes FILE.conf, with which a program of Kubernetes is that user.
func (k *keys) user(file, name, group string, addresses ...string) error {
	conf := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://%s:%s", certificate-authority: %s}}]
users: [{name: u, user: {client-certificate: %s, client-key: %s}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`, api, port, k.file("ca.crt"), k.file(file+".crt"), k.file(file+".key"))
	return errors.Join(k.issue(file, name, group, addresses...), os.WriteFile(k.file(file+".conf"), []byte(conf), 0o600))
}

func (k *keys) writeKey(name string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return k.write(name, "EC PRIVATE KEY", der)
}

func (k *keys) write(name, kind string, der []byte) error {
	return os.WriteFile(k.file(name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
