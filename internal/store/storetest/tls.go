// SPDX-License-Identifier: Apache-2.0

package storetest

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

	"github.com/kvbench/kvbench/internal/playground"
)

func testTLS(t *testing.T, open Opener) {
	files := Certificates(t)
	b := setUp(t, open, func(o *options) {
		o.playground.TLS = files
		o.config.CA, o.config.Cert, o.config.Key = files.CA, files.Cert, files.Key
	})
	verbs(b)
	b.t = t
	// After a broken connection client-go checks the store's health, over TLS too.
	for id := range b.cluster.StoreAddrs() {
		if _, err := b.cluster.ResetConnections(uint64(id + 1)); err != nil {
			t.Fatal(err)
		}
	}
	b.ok(put("a", "1"), put("b", "2"), put("c", "3"), put("d", "4"))
}

// Certificates writes a certificate for 127.0.0.1 that is its own CA.
func Certificates(t *testing.T) playground.TLS {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kvbench test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	file := write("cert.pem", "CERTIFICATE", cert)
	return playground.TLS{CA: file, Cert: file, Key: write("key.pem", "PRIVATE KEY", private)}
}
