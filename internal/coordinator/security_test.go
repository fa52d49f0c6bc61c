// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kvbench/kvbench/internal/control"
	"github.com/kvbench/kvbench/internal/results"
	"github.com/kvbench/kvbench/internal/store/memory"
)

// workersLog is a log that tests read.
type workersLog struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *workersLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *workersLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestStrangersDoNotDisturb lets everybody knock who has no business there, while
// a run goes on: nobody gets in, everybody is logged once, and the run does not notice.
func TestStrangersDoNotDisturb(t *testing.T) {
	t.Parallel()
	certificates := func(valid time.Duration) (dir string, client control.Security) {
		dir = t.TempDir()
		if err := control.MakeCertificates(dir, []string{"127.0.0.1"}, valid); err != nil {
			t.Fatal(err)
		}
		return dir, control.Security{CertFile: filepath.Join(dir, control.ClientCertFile), KeyFile: filepath.Join(dir, control.ClientKeyFile), CAFile: filepath.Join(dir, control.CACertFile)}
	}
	tokenFile := func(text string) string {
		path := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const secret, guess = "the-secret-of-this-test", "a-guess-at-what-it-may-be"
	dir, known := certificates(time.Hour)
	_, foreign := certificates(time.Hour)
	foreign.CAFile = known.CAFile
	worker := control.Security{
		CertFile: filepath.Join(dir, control.ServerCertFile), KeyFile: filepath.Join(dir, control.ServerKeyFile),
		CAFile: known.CAFile, TokenFile: tokenFile(secret),
	}
	owner := known
	owner.TokenFile = tokenFile(secret)
	guesser, nameless := known, control.Security{CAFile: known.CAFile, Token: secret}
	guesser.Token = guess

	db := &memory.DB{Delay: time.Millisecond}
	var log workersLog
	p := newProcess(t, "w", db, worker, slog.New(slog.NewTextHandler(&log, nil)))
	f := fleetOf(t, owner, p)

	strangers := func() {
		for name, sec := range map[string]control.Security{
			"wrong token": guesser, "no token": known, "no certificate": nameless, "foreign certificate": foreign, "plain": {Token: secret},
		} {
			for range 3 {
				if f, err := Connect(t.Context(), []Address{{Name: p.address}}, Options{Security: sec, Log: quiet}); err == nil {
					t.Errorf("%s: was let in", name)
					f.Close()
				}
			}
		}
		var wg sync.WaitGroup
		for range 2000 { // more connections than are served
			wg.Go(func() {
				c, err := net.Dial("tcp", p.address)
				if err != nil {
					return
				}
				defer c.Close()
				io.WriteString(c, strings.Repeat("\x00noise", 10))
				c.SetReadDeadline(time.Now().Add(time.Second))
				io.Copy(io.Discard, c)
			})
		}
		wg.Wait()
	}
	var once sync.Once
	s, err := f.Run(t.Context(), Job{
		Spec: properties(t, map[string]string{"maxexecutiontime": "4"}), Out: t.TempDir(),
		Progress: func(s *Snapshot) {
			if s.Elapsed > 0 {
				once.Do(strangers)
			}
		},
	})
	if err != nil || s.Run.Fleet[0].State != results.Finished {
		t.Errorf("the run: %v", err)
	}
	if n := slots(t, s.Dir, "w"); n != 2400 {
		t.Errorf("%d slots, want 2400", n)
	}
	text := log.String()
	for _, want := range []string{"wrong token", "no token", "no TLS session"} {
		if n := strings.Count(text, want); n == 0 {
			t.Errorf("nothing is logged of: %s", want)
		}
	}
	if n := strings.Count(text, "refused (logged once"); n > 5 {
		t.Errorf("%d refusals are logged", n)
	}
	for _, s := range []string{secret, guess} {
		if strings.Contains(text, s) {
			t.Error("a token is in the log")
		}
	}
}

// TestRenewedCredentials exchanges certificates and tokens while a fleet is at work.
func TestRenewedCredentials(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	renew := func(token string) {
		if err := control.MakeCertificates(dir, []string{"127.0.0.1"}, time.Hour); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "token"), []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	renew("the-token-of-last-month")
	in := func(name string) string { return filepath.Join(dir, name) }
	worker := control.Security{CertFile: in(control.ServerCertFile), KeyFile: in(control.ServerKeyFile), CAFile: in(control.CACertFile), TokenFile: in("token")}
	owner := control.Security{CertFile: in(control.ClientCertFile), KeyFile: in(control.ClientKeyFile), CAFile: in(control.CACertFile), TokenFile: in("token")}
	p := newProcess(t, "w", &memory.DB{Delay: time.Millisecond}, worker, quiet)
	serial := func() string {
		pair, err := tls.LoadX509KeyPair(owner.CertFile, owner.KeyFile)
		if err != nil {
			t.Fatal(err)
		}
		roots, err := os.ReadFile(owner.CAFile)
		if err != nil {
			t.Fatal(err)
		}
		c := &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: pool(t, roots), NextProtos: []string{"h2"}}
		conn, err := tls.Dial("tcp", p.address, c)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	first := serial()
	var once sync.Once
	_, err := fleetOf(t, owner, p).Run(t.Context(), Job{
		Spec: properties(t, map[string]string{"maxexecutiontime": "3"}), Out: t.TempDir(),
		Progress: func(s *Snapshot) {
			if s.Elapsed > 0 {
				once.Do(func() { renew("the-token-of-this-month") })
			}
		},
	})
	if err != nil {
		t.Errorf("a run over the change: %v", err)
	}
	if serial() == first {
		t.Error("the worker still shows the old certificate")
	}
	fleetOf(t, owner, p)
	stale := owner
	stale.TokenFile, stale.Token = "", "the-token-of-last-month"
	if _, err := Connect(t.Context(), []Address{{Name: p.address}}, Options{Security: stale, Log: quiet}); err == nil {
		t.Error("the old token is still accepted")
	}
}

func pool(t *testing.T, pem []byte) *x509.CertPool {
	t.Helper()
	p := x509.NewCertPool()
	if !p.AppendCertsFromPEM(pem) {
		t.Fatal("no certificate")
	}
	return p
}
