// SPDX-License-Identifier: Apache-2.0

package control

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/kvbench/kvbench/internal/atomicfile"
	"github.com/kvbench/kvbench/internal/plainfile"
)

// The files that [MakeCertificates] writes.
const (
	CACertFile     = "ca.crt"
	CAKeyFile      = "ca.key"
	ServerCertFile = "server.crt" // for workers
	ServerKeyFile  = "server.key"
	ClientCertFile = "client.crt" // for coordinators
	ClientKeyFile  = "client.key"
)

// MakeCertificates writes into dir a server certificate for the hosts (names, with
// or without a leading wildcard, and IP addresses) and a client certificate, both
// valid from an hour ago for the time given, with ECDSA P-256 keys that only the
// owner may read. The authority in dir signs them; if there is none, one is made
// first, so that a second call renews the certificates and the others stay trusted.
func MakeCertificates(dir string, hosts []string, valid time.Duration) error {
	if len(hosts) == 0 {
		return errors.New("certificates: name at least one host of the workers, such as kvbench or *.kvbench.default.svc")
	}
	if valid <= 0 {
		return fmt.Errorf("certificates: valid for %v: it must be more than nothing", valid)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("certificates: %w", err)
	}
	now := time.Now()
	template := func(name string, usage ...x509.ExtKeyUsage) *x509.Certificate {
		return &x509.Certificate{
			Subject:     pkix.Name{Organization: []string{"kvbench"}, CommonName: name},
			NotBefore:   now.Add(-time.Hour), // clocks differ
			NotAfter:    now.Add(valid),
			KeyUsage:    x509.KeyUsageDigitalSignature,
			ExtKeyUsage: usage,
		}
	}
	ca, err := loadAuthority(dir)
	if errors.Is(err, fs.ErrNotExist) {
		t := template("kvbench authority")
		t.IsCA, t.BasicConstraintsValid, t.MaxPathLenZero = true, true, true
		t.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
		t.NotAfter = now.Add(10 * valid)
		ca, err = issue(dir, CACertFile, CAKeyFile, t, nil)
	}
	if err != nil {
		return err
	}
	server := template(hosts[0], x509.ExtKeyUsageServerAuth)
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			server.IPAddresses = append(server.IPAddresses, ip)
		} else {
			server.DNSNames = append(server.DNSNames, h)
		}
	}
	if _, err := issue(dir, ServerCertFile, ServerKeyFile, server, ca); err != nil {
		return err
	}
	_, err = issue(dir, ClientCertFile, ClientKeyFile, template("kvbench coordinator", x509.ExtKeyUsageClientAuth), ca)
	return err
}

// authority is who signs.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// loadAuthority reads dir's authority. Half of one is an error: to make a new one
// would break what the other half has signed.
func loadAuthority(dir string) (*authority, error) {
	certPath, keyPath := filepath.Join(dir, CACertFile), filepath.Join(dir, CAKeyFile)
	certPEM, certErr := plainfile.Read(certPath, plainfile.MaxSmall)
	keyPEM, keyErr := plainfile.Read(keyPath, plainfile.MaxSmall)
	if errors.Is(certErr, fs.ErrNotExist) != errors.Is(keyErr, fs.ErrNotExist) {
		return nil, fmt.Errorf("certificates: of %s and %s only one is there: restore the other, or remove both to start anew", certPath, keyPath)
	}
	if err := errors.Join(certErr, keyErr); err != nil {
		return nil, fmt.Errorf("certificates: %w", err)
	}
	certBlock, _ := pem.Decode(certPEM)
	keyBlock, _ := pem.Decode(keyPEM)
	if certBlock == nil || keyBlock == nil {
		return nil, fmt.Errorf("certificates: %s or %s is not PEM", certPath, keyPath)
	}
	cert, err := x509.ParseCertificate(certBlock.Bytes)
	if err != nil {
		return nil, fmt.Errorf("certificates: %s: %w", certPath, err)
	}
	key, err := x509.ParseECPrivateKey(keyBlock.Bytes)
	if err != nil {
		return nil, fmt.Errorf("certificates: %s: %w", keyPath, err)
	}
	return &authority{cert, key}, nil
}

// issue makes a key and a certificate signed by ca (by itself if nil), and writes both.
func issue(dir, certFile, keyFile string, template *x509.Certificate, ca *authority) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("certificates: %w", err)
	}
	template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 126))
	if err != nil {
		return nil, fmt.Errorf("certificates: %w", err)
	}
	if ca == nil {
		ca = &authority{template, key}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, &key.PublicKey, ca.key)
	if err != nil {
		return nil, fmt.Errorf("certificates: %s: %w", certFile, err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("certificates: %s: %w", certFile, err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("certificates: %s: %w", keyFile, err)
	}
	if err := writePEM(filepath.Join(dir, keyFile), "EC PRIVATE KEY", keyDER, 0o600); err != nil {
		return nil, err
	}
	if err := writePEM(filepath.Join(dir, certFile), "CERTIFICATE", der, 0o644); err != nil {
		return nil, err
	}
	return &authority{cert, key}, nil
}

// writePEM replaces a file at once, with the mode it is to have from its first byte.
func writePEM(path, kind string, der []byte, mode fs.FileMode) error {
	if err := atomicfile.Write(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), mode); err != nil {
		return fmt.Errorf("certificates: %w", err)
	}
	return nil
}
