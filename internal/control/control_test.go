// SPDX-License-Identifier: Apache-2.0

package control

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/status"

	"github.com/kvbench/kvbench/internal/control/workerpb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	goodToken  = "correct-horse-battery-staple"
	otherToken = "incorrect-horse-battery-staple"
)

// worker is a service that answers Hello, and Collect without end.
type worker struct {
	workerpb.UnimplementedWorkerServer
}

func (worker) Hello(context.Context, *workerpb.HelloRequest) (*workerpb.HelloResponse, error) {
	return &workerpb.HelloResponse{Name: "w"}, nil
}

func (worker) ListRuns(context.Context, *workerpb.ListRunsRequest) (*workerpb.ListRunsResponse, error) {
	panic("on purpose")
}

func (worker) Collect(_ *workerpb.CollectRequest, s grpc.ServerStreamingServer[workerpb.CollectResponse]) error {
	data := make([]byte, 64<<10)
	for {
		if err := s.Send(&workerpb.CollectResponse{Data: data}); err != nil {
			return err
		}
	}
}

// logged is a log that tests read.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), text)
}

func (l *logged) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// serve starts a worker and returns its address.
func serve(t *testing.T, sec Security, log *logged, stall time.Duration) string {
	t.Helper()
	s, err := NewServer(worker{}, sec, log.logger())
	if err != nil {
		t.Fatal(err)
	}
	if stall > 0 {
		s.stall = stall
	}
	l, err := Listen("127.0.0.1:0", sec, log.logger())
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return l.Addr().String()
}

func dial(t *testing.T, address string, sec Security) workerpb.WorkerClient {
	t.Helper()
	c, err := Dial(address, "127.0.0.1", sec, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return workerpb.NewWorkerClient(c)
}

func hello(t *testing.T, c workerpb.WorkerClient) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	_, err := c.Hello(ctx, &workerpb.HelloRequest{})
	return err
}

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	write(t, path, text)
	return path
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not within 10 s: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// certificates makes a folder of them, and returns both sides' security.
func certificates(t *testing.T, valid time.Duration) (dir string, server, client Security) {
	t.Helper()
	dir = t.TempDir()
	if err := MakeCertificates(dir, []string{"127.0.0.1", "kvbench"}, valid); err != nil {
		t.Fatal(err)
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	server = Security{CertFile: in(ServerCertFile), KeyFile: in(ServerKeyFile), CAFile: in(CACertFile)}
	client = Security{CertFile: in(ClientCertFile), KeyFile: in(ClientKeyFile), CAFile: in(CACertFile)}
	return dir, server, client
}

func TestWhoMaySpeak(t *testing.T) {
	t.Parallel()
	_, server, client := certificates(t, time.Hour)
	_, foreignServer, foreign := certificates(t, time.Hour)
	expiredDir, _, _ := certificates(t, time.Hour)
	if err := MakeCertificates(expiredDir, []string{"127.0.0.1"}, time.Nanosecond); err != nil {
		t.Fatal(err)
	}
	expiredServer := Security{CertFile: filepath.Join(expiredDir, ServerCertFile), KeyFile: filepath.Join(expiredDir, ServerKeyFile), CAFile: filepath.Join(expiredDir, CACertFile)}
	expiredClient := Security{CertFile: filepath.Join(expiredDir, ClientCertFile), KeyFile: filepath.Join(expiredDir, ClientKeyFile), CAFile: filepath.Join(expiredDir, CACertFile)}
	// Trusts the right authority, but shows what another one has signed.
	impostor := Security{CertFile: foreign.CertFile, KeyFile: foreign.KeyFile, CAFile: client.CAFile}

	withToken := func(s Security, token string) Security { s.TokenFile = file(t, token); return s }
	otherName := func(s Security, name string) Security { s.ServerName = name; return s }
	renamed := otherName(client, "kvbench")

	tests := []struct {
		name           string
		server, client Security
		want           codes.Code
		logged         string // by the worker; empty: nothing
	}{
		{name: "open"},
		{name: "token", server: withToken(Security{}, goodToken), client: withToken(Security{}, goodToken+"\n")},
		{name: "token that is not in a file", server: withToken(Security{}, goodToken), client: Security{Token: goodToken}},
		{name: "wrong token", server: withToken(Security{}, goodToken), client: withToken(Security{}, otherToken), want: codes.Unauthenticated, logged: "wrong token"},
		{name: "missing token", server: withToken(Security{}, goodToken), want: codes.Unauthenticated, logged: "no token"},
		{name: "mutual TLS", server: server, client: client},
		{name: "mutual TLS without files", server: server, client: Security{Cert: content(t, client.CertFile), Key: content(t, client.KeyFile), CA: content(t, client.CAFile)}},
		{name: "mutual TLS by another name", server: server, client: renamed},
		{name: "mutual TLS by a wrong name", server: server, client: otherName(client, "elsewhere"), want: codes.Unavailable, logged: "no TLS session"},
		{name: "mutual TLS and token", server: withToken(server, goodToken), client: withToken(client, goodToken)},
		{name: "mutual TLS, wrong token", server: withToken(server, goodToken), client: withToken(client, otherToken), want: codes.Unauthenticated, logged: "wrong token"},
		{name: "no certificate", server: server, client: Security{CAFile: client.CAFile}, want: codes.Unavailable, logged: "no TLS session"},
		{name: "foreign certificate", server: server, client: impostor, want: codes.Unavailable, logged: "no TLS session"},
		{name: "foreign worker", server: foreignServer, client: client, want: codes.Unavailable, logged: "no TLS session"},
		{name: "expired certificate", server: expiredServer, client: expiredClient, want: codes.Unavailable, logged: "no TLS session"},
		{name: "server's certificate shown by a client", server: server, client: Security{CertFile: server.CertFile, KeyFile: server.KeyFile, CAFile: server.CAFile}, want: codes.Unavailable, logged: "no TLS session"},
		{name: "plain client on a TLS port", server: server, want: codes.Unavailable, logged: "no TLS session"},
		{name: "TLS client on a plain port", client: client, want: codes.Unavailable, logged: "it speaks TLS"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var log logged
			c := dial(t, serve(t, tt.server, &log, 0), tt.client)
			for range 3 {
				if got := status.Code(hello(t, c)); got != tt.want {
					t.Fatalf("code %v, want %v", got, tt.want)
				}
			}
			if tt.logged == "" {
				if n := log.count("level=WARN"); n > 0 {
					t.Errorf("%d warnings:\n%s", n, log.b.String())
				}
				return
			}
			eventually(t, "logged: "+tt.logged, func() bool { return log.count(tt.logged) > 0 })
			if n := log.count("refused"); n > 2 { // the reason, and "refused (logged once"
				t.Errorf("logged %d times:\n%s", n, log.b.String())
			}
			if log.count(goodToken)+log.count(otherToken) > 0 {
				t.Error("the log holds a token")
			}
		})
	}
}

func TestSecurityIsChecked(t *testing.T) {
	t.Parallel()
	_, server, client := certificates(t, time.Hour)
	dir := t.TempDir()
	garbage := file(t, "garbage")
	tests := []struct {
		name   string
		sec    Security
		worker bool
		want   string
	}{
		{"key without certificate", Security{KeyFile: server.KeyFile}, true, "only one of them"},
		{"CA without certificate", Security{CAFile: server.CAFile}, true, "certificate and key files too"},
		{"certificate without CA", Security{CertFile: client.CertFile, KeyFile: client.KeyFile}, false, "CA file"},
		{"another's key", Security{CertFile: server.CertFile, KeyFile: client.KeyFile, CAFile: server.CAFile}, true, client.KeyFile},
		{"CA file is not PEM", Security{CertFile: server.CertFile, KeyFile: server.KeyFile, CAFile: garbage}, true, "no PEM certificate"},
		{"no CA file", Security{CAFile: filepath.Join(dir, "none")}, false, "none"},
		{"no token file", Security{TokenFile: filepath.Join(dir, "none")}, true, "none"},
		{"short token", Security{TokenFile: file(t, "secret")}, true, "6 characters"},
		{"empty token", Security{TokenFile: file(t, " \n")}, false, "0 characters"},
		{"two words", Security{TokenFile: file(t, goodToken+" "+goodToken)}, false, "one word"},
		{"not ASCII", Security{Token: strings.Repeat("é", minToken)}, false, "ASCII"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var err error
			if tt.worker {
				_, err = NewServer(worker{}, tt.sec, slog.New(slog.DiscardHandler))
			} else {
				_, err = Dial("127.0.0.1:1", "w", tt.sec, nil, slog.New(slog.DiscardHandler))
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("error %v, want one with %q", err, tt.want)
			}
			if strings.Contains(err.Error(), goodToken) {
				t.Error("the error holds the token")
			}
		})
	}
}

// A worker that is told to end before it serves has not failed.
func TestCloseBeforeServe(t *testing.T) {
	t.Parallel()
	s, err := NewServer(worker{}, Security{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	l, err := Listen("127.0.0.1:0", Security{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	if err := s.Serve(l); err != nil {
		t.Errorf("Serve: %v", err)
	}
}

func TestListenBeyondLoopback(t *testing.T) {
	t.Parallel()
	_, server, _ := certificates(t, time.Hour)
	tests := []struct {
		name    string
		address string
		sec     Security
		want    error
	}{
		{"loopback", "127.0.0.1:0", Security{}, nil},
		{"loopback by name", "localhost:0", Security{}, nil},
		{"everywhere", ":0", Security{}, ErrOpenDoor},
		{"everywhere, said twice", "0.0.0.0:0", Security{}, ErrOpenDoor},
		{"TLS that lets anybody in", "0.0.0.0:0", Security{CertFile: server.CertFile, KeyFile: server.KeyFile}, ErrOpenDoor},
		{"insecure", "0.0.0.0:0", Security{Insecure: true}, nil},
		{"token", "0.0.0.0:0", Security{TokenFile: file(t, goodToken)}, nil},
		{"mutual TLS", "0.0.0.0:0", server, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l, err := Listen(tt.address, tt.sec, slog.New(slog.DiscardHandler))
			if !errors.Is(err, tt.want) {
				t.Fatalf("error %v, want %v", err, tt.want)
			}
			if err == nil {
				l.Close()
			}
		})
	}
}

func TestTokenIsReadAgain(t *testing.T) {
	t.Parallel()
	var log logged
	path := file(t, goodToken)
	address := serve(t, Security{TokenFile: path}, &log, 0)
	before, after := dial(t, address, Security{Token: goodToken}), dial(t, address, Security{Token: otherToken})
	if err := hello(t, before); err != nil {
		t.Fatal(err)
	}
	write(t, path, otherToken)
	if err := hello(t, after); err != nil {
		t.Errorf("the new token: %v", err)
	}
	if got := status.Code(hello(t, before)); got != codes.Unauthenticated {
		t.Errorf("the old token: %v", got)
	}
	// A file that cannot be used changes nothing, and is reported once.
	write(t, path, "")
	for range 3 {
		if err := hello(t, after); err != nil {
			t.Errorf("while the file is empty: %v", err)
		}
	}
	if n := log.count("cannot be used"); n != 1 {
		t.Errorf("reported %d times", n)
	}
}

func TestCertificatesAreReadAgain(t *testing.T) {
	t.Parallel()
	var log logged
	dir, server, client := certificates(t, time.Hour)
	address := serve(t, server, &log, 0)
	if err := hello(t, dial(t, address, client)); err != nil {
		t.Fatal(err)
	}
	// A new authority altogether: what it has signed is accepted from now on.
	for _, name := range []string{CACertFile, CAKeyFile} {
		if err := os.Rename(filepath.Join(dir, name), filepath.Join(dir, "old-"+name)); err != nil {
			t.Fatal(err)
		}
	}
	stale := client
	stale.CAFile = filepath.Join(dir, "old-"+CACertFile)
	if err := MakeCertificates(dir, []string{"127.0.0.1"}, time.Hour); err != nil {
		t.Fatal(err)
	}
	if err := hello(t, dial(t, address, client)); err != nil {
		t.Errorf("the new certificate: %v", err)
	}
	if got := status.Code(hello(t, dial(t, address, stale))); got != codes.Unavailable {
		t.Errorf("the old authority: %v", got)
	}
}

func TestMakeCertificates(t *testing.T) {
	t.Parallel()
	dir, _, _ := certificates(t, time.Hour)
	for _, name := range []string{CAKeyFile, ServerKeyFile, ClientKeyFile} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
	}
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	ca, cert := read(CACertFile), read(ServerCertFile)
	if err := MakeCertificates(dir, []string{"kvbench"}, time.Hour); err != nil {
		t.Fatal(err)
	}
	if read(CACertFile) != ca || read(ServerCertFile) == cert {
		t.Error("a second call must keep the authority and renew the certificates")
	}
	if err := os.Remove(filepath.Join(dir, CAKeyFile)); err != nil {
		t.Fatal(err)
	}
	if err := MakeCertificates(dir, []string{"kvbench"}, time.Hour); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("half an authority: %v", err)
	}
	if MakeCertificates(t.TempDir(), nil, time.Hour) == nil || MakeCertificates(t.TempDir(), []string{"a"}, 0) == nil {
		t.Error("no hosts, or no time, must be refused")
	}
}

// raw is a codec that sends bytes as they are.
type raw struct{}

func (raw) Marshal(v any) ([]byte, error)      { return v.([]byte), nil }
func (raw) Unmarshal(data []byte, v any) error { *v.(*[]byte) = data; return nil }
func (raw) Name() string                       { return "proto" }

var _ encoding.Codec = raw{}

func TestBadMessages(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		method string
		msg    []byte
		want   codes.Code
	}{
		{"oversize", "Hello", make([]byte, MaxRequest+1), codes.ResourceExhausted},
		{"malformed", "Hello", []byte{0xff, 0xff, 0xff}, codes.Internal},
		{"unknown method", "Nothing", nil, codes.Unimplemented},
		{"panic", "ListRuns", nil, codes.Internal},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var log logged
			address := serve(t, Security{}, &log, 0)
			c, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			for range 3 {
				var reply []byte
				err = c.Invoke(t.Context(), "/kvbench.v1.Worker/"+tt.method, tt.msg, &reply, grpc.ForceCodec(raw{}))
				if status.Code(err) != tt.want {
					t.Fatalf("error %v, want %v", err, tt.want)
				}
			}
			if tt.want != codes.Unimplemented { // which gRPC answers by itself
				eventually(t, "a line in the log", func() bool { return log.count("refused (logged once") == 1 })
			}
			if err := hello(t, dial(t, address, Security{})); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestGarbage(t *testing.T) {
	t.Parallel()
	_, server, client := certificates(t, time.Hour)
	tests := []struct {
		name string
		sec  Security
		send string
	}{
		{"HTTP/1 on a plain port", Security{}, "GET / HTTP/1.1\r\nHost: a.b.c.d\r\n\r\n"},
		{"noise on a plain port", Security{}, strings.Repeat("\x00\xff", 100)},
		{"noise on a TLS port", server, strings.Repeat("\x00\xff", 100)},
		{"a frame that is too long", Security{}, preface + "\xff\xff\xff\x01\x04\x00\x00\x00\x01"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var log logged
			address := serve(t, tt.sec, &log, 0)
			for range 3 {
				c, err := net.Dial("tcp", address)
				if err != nil {
					t.Fatal(err)
				}
				io.WriteString(c, tt.send)
				c.SetReadDeadline(time.Now().Add(10 * time.Second))
				if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
					t.Error("the worker keeps the connection")
				}
				c.Close()
			}
			if n := log.count("refused (logged once"); n > 1 {
				t.Errorf("logged %d times", n)
			}
			sec := Security{}
			if tt.sec.CAFile != "" {
				sec = client
			}
			if err := hello(t, dial(t, address, sec)); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestSlowReader(t *testing.T) {
	t.Parallel()
	var log logged
	address := serve(t, Security{}, &log, 100*time.Millisecond)
	c := dial(t, address, Security{})
	stream, err := c.Collect(t.Context(), &workerpb.CollectRequest{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the slow reader is cut off", func() bool { return log.count("slow reader") == 1 })
	for err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("error %v", err)
	}
}

// TestManyConnections opens far more than are allowed, and leaves them silent.
func TestManyConnections(t *testing.T) {
	t.Parallel()
	var log logged
	address := serve(t, Security{TokenFile: file(t, goodToken)}, &log, 0)
	good := Security{TokenFile: file(t, goodToken)}
	here := dial(t, address, good)
	if err := hello(t, here); err != nil {
		t.Fatal(err)
	}
	const many = 500
	var silent []net.Conn
	for range many {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		silent = append(silent, c)
	}
	// Who says nothing, or nothing that is taken, makes room for who does.
	stranger := dial(t, address, Security{TokenFile: file(t, otherToken)})
	if err := hello(t, stranger); status.Code(err) != codes.Unauthenticated {
		t.Errorf("a stranger: %v", err)
	}
	clients := []workerpb.WorkerClient{here}
	for len(clients) < maxConnectionsPerPeer {
		c := dial(t, address, good)
		if err := hello(t, c); err != nil {
			t.Fatalf("client %d was locked out: %v", len(clients), err)
		}
		clients = append(clients, c)
	}
	for _, c := range silent {
		c.SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("a silent connection is still open: %v", err)
		}
	}
	// Those that are known are not closed to make room.
	if err := hello(t, dial(t, address, good)); status.Code(err) != codes.Unavailable && status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("one more than there may be: %v", err)
	}
	for i, c := range clients {
		if err := hello(t, c); err != nil {
			t.Errorf("client %d, who was here before: %v", i, err)
		}
	}
	for _, reason := range []string{"too many connections", "silent connections"} {
		if n := log.count(reason); n != 1 {
			t.Errorf("%s: logged %d times", reason, n)
		}
	}
}

func TestPeerLogIsBounded(t *testing.T) {
	t.Parallel()
	var log logged
	p := newPeerLog(log.logger())
	for i := range 3 * maxRefusals {
		p.refused(&net.TCPAddr{IP: net.IPv4(10, 0, byte(i>>8), byte(i))}, "reason", tls.AlertError(0))
	}
	if n := log.count("level=WARN"); n != maxRefusals {
		t.Errorf("%d lines, want %d", n, maxRefusals)
	}
	if len(p.seen) != maxRefusals {
		t.Errorf("%d peers kept", len(p.seen))
	}
	p.refused(nil, "reason", fmt.Errorf("from nowhere"))
}

// FuzzHandshake sends whatever to a worker's door: it never panics, never waits
// for more than it needs, and lets only HTTP/2 pass, of which it loses no byte.
func FuzzHandshake(f *testing.F) {
	f.Add([]byte(""))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Add([]byte(preface + "and more"))
	f.Add([]byte(preface[:10]))
	f.Add([]byte{tlsHandshakeRecord, 3, 1, 0, 200, 1})
	f.Fuzz(func(t *testing.T, sent []byte) {
		ours, theirs := net.Pipe()
		var sending sync.WaitGroup
		sending.Go(func() {
			theirs.Write(sent)
			theirs.Close()
		})
		defer sending.Wait()
		defer ours.Close()
		door := &transport{log: newPeerLog(slog.New(slog.DiscardHandler))}
		conn, _, err := door.ServerHandshake(ours)
		if passes := bytes.HasPrefix(sent, []byte(preface)); passes != (err == nil) {
			t.Fatalf("%q: %v", sent, err)
		}
		if err != nil {
			return
		}
		got, err := io.ReadAll(conn)
		if err != nil || !bytes.Equal(got, sent) {
			t.Errorf("%q became %q, %v", sent, got, err)
		}
	})
}

func FuzzToken(f *testing.F) {
	f.Add(goodToken + "\n")
	f.Add("short")
	f.Add(goodToken + "\x00")
	f.Fuzz(func(t *testing.T, text string) {
		token, err := checkToken(text)
		if err != nil {
			return
		}
		if len(token) < minToken || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
			t.Errorf("%q passes as %q", text, token)
		}
	})
}

func content(t *testing.T, file string) []byte {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestMakeToken(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "token")
	if err := MakeToken(path); err != nil {
		t.Fatal(err)
	}
	made, err := readToken(path)
	if err != nil || len(made) < minToken {
		t.Errorf("token %q, %v", made, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if err := MakeToken(path); err == nil || !strings.Contains(err.Error(), "is there already") {
		t.Errorf("made twice: %v", err)
	}
	if again, err := readToken(path); again != made {
		t.Errorf("token %q, %v", again, err)
	}
}
