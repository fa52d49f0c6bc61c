// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tikv/client-go/v2/config"
	"github.com/tikv/client-go/v2/rawkv"
)

// writeTLS makes a CA, and a certificate of it that serves both sides on the loopback interface.
func writeTLS(t *testing.T) TLS {
	t.Helper()
	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	newKey := func() *ecdsa.PrivateKey {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	template := func(serial int64) *x509.Certificate {
		return &x509.Certificate{
			SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "playground test"},
			NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		}
	}
	caKey, key := newKey(), newKey()
	ca := template(1)
	ca.IsCA, ca.BasicConstraintsValid = true, true
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	if err != nil {
		t.Fatal(err)
	}
	leaf := template(2)
	leaf.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	leaf.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, ca, &key.PublicKey, caKey)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return TLS{
		CA: write("ca.pem", "CERTIFICATE", caDER), Cert: write("cert.pem", "CERTIFICATE", leafDER), Key: write("key.pem", "PRIVATE KEY", keyDER),
	}
}

func TestTLS(t *testing.T) {
	files := writeTLS(t)
	c := start(t, Options{TLS: files, AdminAddr: "127.0.0.1:0"})
	security := config.NewSecurity(files.CA, files.Cert, files.Key, nil)
	// The client's health checks read the global configuration.
	t.Cleanup(config.UpdateGlobal(func(conf *config.Config) { conf.Security = security }))
	client := connect(t, c, rawkv.WithSecurity(security))
	for i := range 10 {
		if err := client.Put(t.Context(), key(i), value(i)); err != nil {
			t.Fatal(err)
		}
	}
	keys, _, err := client.Scan(t.Context(), nil, nil, 100)
	if err != nil || len(keys) != 10 {
		t.Errorf("Scan = %q, %v", keys, err)
	}
	ctl, err := Control(c.AdminAddr(), files)
	if err != nil {
		t.Fatal(err)
	}
	if st, err := ctl.State(t.Context()); err != nil || st.ClusterID != c.ClusterID() {
		t.Errorf("state = %+v, %v", st, err)
	}
	plain, err := Control(c.AdminAddr(), TLS{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := plain.State(t.Context()); err == nil {
		t.Error("the admin endpoint answers without TLS")
	}
}
