// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"

	"google.golang.org/grpc/credentials"

	"github.com/kvbench/kvbench/internal/plainfile"
	"github.com/kvbench/kvbench/internal/tlsfile"
)

// Security is how one side shows who it is and knows the other: by a token, by
// TLS, or both. The files are read again when they change. The zero value is
// neither, which is fit for loopback only.
type Security struct {
	TokenFile string // a secret of at least 16 printable ASCII characters, the same on both sides
	Token     string // the secret itself, for a coordinator that has it from elsewhere than a file
	CertFile  string // own certificate chain, PEM
	KeyFile   string // its key, PEM
	CAFile    string // the authorities that the other side's certificate must come from, PEM

	// Cert, Key and CA are the same as the files, in PEM, for a coordinator that has
	// them from elsewhere. All or none; not beside the files.
	Cert, Key, CA []byte

	// ServerName is the name that the worker's certificate must carry when it is
	// not the one dialled. Coordinator only.
	ServerName string
	// Insecure allows a worker to listen beyond loopback for anybody. Worker only.
	Insecure bool
}

// authenticates reports whether a worker with this security knows its callers.
func (s Security) authenticates() bool { return s.TokenFile != "" || s.Token != "" || s.CAFile != "" }

// tls reports whether TLS is asked for.
func (s Security) tls() bool { return s.CertFile != "" || s.CAFile != "" || s.Cert != nil }

func (s Security) check(worker bool) error {
	switch {
	case (s.CertFile == "") != (s.KeyFile == ""):
		return errors.New("control: TLS needs a certificate file and a key file: only one of them is given")
	case worker && s.CAFile != "" && s.CertFile == "":
		return errors.New("control: a CA file checks the certificates of coordinators, which takes TLS: give the worker's certificate and key files too")
	case !worker && s.CertFile != "" && s.CAFile == "":
		return errors.New("control: a certificate is only shown over TLS: give the CA file that the workers' certificates come from too")
	}
	return nil
}

// tlsConfig reads the files. It returns nil when TLS is not asked for.
func (s Security) tlsConfig(worker bool) (*tls.Config, error) {
	if !s.tls() {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"}, ServerName: s.ServerName}
	if s.Cert != nil {
		pair, err := tls.X509KeyPair(s.Cert, s.Key)
		if err != nil {
			return nil, fmt.Errorf("control: certificate: %w", err)
		}
		c.Certificates, c.RootCAs = []tls.Certificate{pair}, x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(s.CA) {
			return nil, errors.New("control: the CA is no PEM certificate")
		}
	}
	if s.CertFile != "" {
		pair, err := tlsfile.KeyPair(s.CertFile, s.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("control: certificate or key file: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	if s.CAFile != "" {
		pool, err := tlsfile.Authorities(s.CAFile)
		if err != nil {
			return nil, fmt.Errorf("control: CA file: %w", err)
		}
		if worker {
			c.ClientCAs, c.ClientAuth = pool, tls.RequireAndVerifyClientCert
		} else {
			c.RootCAs = pool
		}
	}
	return c, nil
}

// tlsFiles returns the TLS configuration kept up to date with its files, or nil.
func (s Security) tlsFiles(worker bool, log *slog.Logger) (*reloaded[*tls.Config], error) {
	if !s.tls() {
		return nil, nil
	}
	return newReloaded(log, func() (*tls.Config, error) { return s.tlsConfig(worker) }, s.CertFile, s.KeyFile, s.CAFile)
}

const minToken = 16

// tokenFile returns the token kept up to date with its file, or nil.
func (s Security) tokenFile(log *slog.Logger) (*reloaded[string], error) {
	switch {
	case s.TokenFile != "":
		return newReloaded(log, func() (string, error) { return readToken(s.TokenFile) }, s.TokenFile)
	case s.Token != "":
		return newReloaded(log, func() (string, error) { return checkToken(s.Token) })
	}
	return nil, nil
}

func readToken(path string) (string, error) {
	b, err := plainfile.Read(path, plainfile.MaxSmall)
	if err != nil {
		return "", fmt.Errorf("control: token file: %w", err)
	}
	token, err := checkToken(string(b))
	if err != nil {
		return "", fmt.Errorf("%w (file %s)", err, path)
	}
	return token, nil
}

func checkToken(s string) (string, error) {
	s = strings.TrimSpace(s)
	if len(s) < minToken {
		return "", fmt.Errorf("control: the token has %d characters, it needs at least %d", len(s), minToken)
	}
	if strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", errors.New("control: the token must be one word of printable ASCII")
	}
	return s, nil
}

// MakeToken writes a new random token to a file that only its owner may read. It is an
// error if there is such a file.
func MakeToken(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("token: %s is there already, and workers may use it: remove it first to make another", path)
	}
	if err != nil {
		return fmt.Errorf("token: %w", err)
	}
	_, err = f.WriteString(rand.Text() + "\n")
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("token: %w", err)
	}
	return nil
}

// sameToken compares in constant time, whatever the lengths.
func sameToken(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

const (
	tokenHeader = "authorization"
	tokenScheme = "Bearer "
)

// bearer adds the token to each call.
type bearer struct{ token *reloaded[string] }

var _ credentials.PerRPCCredentials = bearer{}

func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{tokenHeader: tokenScheme + b.token.get()}, nil
}

// RequireTransportSecurity is false: inside a cluster's network, or through a
// forwarded port, a token alone is a choice that the user may make.
func (bearer) RequireTransportSecurity() bool { return false }
