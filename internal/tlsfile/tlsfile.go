// SPDX-License-Identifier: Apache-2.0

// Package tlsfile reads certificates, keys and authorities from PEM files that the user has named.
package tlsfile

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/kvbench/kvbench/internal/plainfile"
)

// KeyPair reads a certificate chain and its key. Errors name the file.
func KeyPair(cert, key string) (tls.Certificate, error) {
	chain, certErr := plainfile.Read(cert, plainfile.MaxSmall)
	secret, keyErr := plainfile.Read(key, plainfile.MaxSmall)
	if err := errors.Join(certErr, keyErr); err != nil {
		return tls.Certificate{}, err
	}
	pair, err := tls.X509KeyPair(chain, secret)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("certificate %s with key %s: %w", cert, key, err)
	}
	return pair, nil
}

// Authorities reads those that sign certificates. Errors name the file.
func Authorities(path string) (*x509.CertPool, error) {
	text, err := plainfile.Read(path, plainfile.MaxSmall)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s holds no PEM certificate", path)
	}
	return pool, nil
}
