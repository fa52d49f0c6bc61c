// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/kvbench/kvbench/internal/tlsfile"
)

// TLS names PEM files. With none, connections are not encrypted. As in TiKV and PD, both sides prove who they are: with a CA,
// a server demands a certificate of its clients.
type TLS struct {
	CA, Cert, Key string
}

func (t TLS) enabled() bool { return t != TLS{} }

// load reads the key pair and the CA.
func (t TLS) load() (tls.Certificate, *x509.CertPool, error) {
	if t.CA == "" || t.Cert == "" || t.Key == "" {
		return tls.Certificate{}, nil, errors.New("TLS needs three files: the CA, the certificate and its key")
	}
	cert, err := tlsfile.KeyPair(t.Cert, t.Key)
	if err != nil {
		return tls.Certificate{}, nil, fmt.Errorf("TLS: %w", err)
	}
	pool, err := tlsfile.Authorities(t.CA)
	if err != nil {
		return tls.Certificate{}, nil, fmt.Errorf("TLS: the CA: %w", err)
	}
	return cert, pool, nil
}

// server returns the configuration of a server, nil without TLS.
func (t TLS) server() (*tls.Config, error) {
	if !t.enabled() {
		return nil, nil
	}
	cert, pool, err := t.load()
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		Certificates: []tls.Certificate{cert}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12,
	}, nil
}

// client returns the configuration of a client, nil without TLS.
func (t TLS) client() (*tls.Config, error) {
	if !t.enabled() {
		return nil, nil
	}
	cert, pool, err := t.load()
	if err != nil {
		return nil, err
	}
	return &tls.Config{Certificates: []tls.Certificate{cert}, RootCAs: pool, MinVersion: tls.VersionTLS12}, nil
}
