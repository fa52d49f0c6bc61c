// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kvbench/kvbench/internal/control"
	"github.com/kvbench/kvbench/internal/control/workerpb"
	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/spec"
	"github.com/kvbench/kvbench/internal/store/memory"
	"github.com/kvbench/kvbench/internal/worker"
)

// The tests here wait most of their time, so that more of them than there are
// cores can run at once.
func TestMain(m *testing.M) {
	if n, err := strconv.Atoi(os.Getenv(asWorkers)); err == nil {
		if err := beWorkers(n, os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

var quiet = slog.New(slog.DiscardHandler)

// process is a worker that listens on loopback, and can be cut off, killed and
// started again.
type process struct {
	t       *testing.T
	cfg     worker.Config
	sec     control.Security
	address string
	worker  *worker.Worker
	server  *control.Server
	serving sync.WaitGroup
	log     *slog.Logger
	faulty  func(workerpb.WorkerServer) workerpb.WorkerServer // what is wrong with it; nil: nothing
}

func newProcess(t *testing.T, name string, db *memory.DB, sec control.Security, log *slog.Logger) *process {
	t.Helper()
	p := &process{t: t, sec: sec, log: log,
		cfg: worker.Config{Name: name, Version: "test", Data: filepath.Join(t.TempDir(), name), Lanes: 1, Open: db.Open, Log: log}}
	p.start()
	p.listen()
	t.Cleanup(func() { p.cutOff(); p.worker.Close(0) })
	return p
}

// start starts the process.
func (p *process) start() {
	p.t.Helper()
	var err error
	if p.worker, err = worker.New(p.cfg); err != nil {
		p.t.Fatal(err)
	}
}

// listen opens its door, always the same one.
func (p *process) listen() {
	p.t.Helper()
	var err error
	var service workerpb.WorkerServer = p.worker
	if p.faulty != nil {
		service = p.faulty(service)
	}
	if p.server, err = control.NewServer(service, p.sec, p.log); err != nil {
		p.t.Fatal(err)
	}
	l, err := control.Listen(cmp.Or(p.address, lastingAddress()), p.sec, p.log)
	for tries := 0; err != nil && p.address == "" && tries < 20; tries++ { // somebody has it
		l, err = control.Listen(lastingAddress(), p.sec, p.log)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	p.address = l.Addr().String()
	server := p.server
	p.serving.Go(func() { server.Serve(l) })
}

// lastingAddress is one that is still free when its listener was closed for a while: systems give no port below 32768 to
// whoever does not mind which.
func lastingAddress() string { return fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(20_000)) }

// cutOff closes the door. The run goes on.
func (p *process) cutOff() {
	p.server.Close()
	p.serving.Wait()
}

// restart replaces the process by a new one with the same disk.
func (p *process) restart() {
	p.t.Helper()
	p.cutOff()
	p.worker.Close(0)
	p.start()
	p.listen()
}

func fleetOf(t *testing.T, sec control.Security, ps ...*process) *Fleet {
	t.Helper()
	var addresses []Address
	for _, p := range ps {
		addresses = append(addresses, Address{Name: p.address})
	}
	f, err := Connect(t.Context(), addresses, Options{Security: sec, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

// properties is a short read run.
func properties(t *testing.T, change map[string]string) *spec.Spec {
	t.Helper()
	p := map[string]string{
		"recordcount": "100", "readproportion": "1", "updateproportion": "0", "tikv.pd": "10.9.8.7:2379",
		"maxexecutiontime": "2", "target": "600", "threadcount": "4", "grace": "1",
		"manifest": "none", // tests count what the database sees
	}
	for k, v := range change {
		p[k] = v
	}
	s, err := spec.ParseMap(p)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		list, want, err string
	}{
		{list: "a:1,b:2", want: "a:1 b:2"},
		{list: " a:1 , ,b:2,", want: "a:1 b:2"},
		{list: "[::1]:7", want: "[::1]:7"},
		{list: "", err: "no workers"},
		{list: "a", err: `"a"`},
		{list: "a:", err: `"a:"`},
		{list: "dns:///:7070", err: "dns:///:7070"},
		{list: "dns:///localhost", err: "dns:///localhost"},
	}
	for _, tt := range tests {
		addresses, err := Addresses(t.Context(), tt.list)
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) || exitcode.Of(err) != exitcode.Usage {
				t.Errorf("%q: %v", tt.list, err)
			}
			continue
		}
		var got []string
		for _, a := range addresses {
			got = append(got, a.Name)
		}
		if err != nil || strings.Join(got, " ") != tt.want {
			t.Errorf("%q: %v %v, want %s", tt.list, got, err, tt.want)
		}
	}
	// A name stands for all of its addresses, and certificates must carry the name.
	addresses, err := Addresses(t.Context(), "dns:///localhost:7070")
	if err != nil || len(addresses) == 0 {
		t.Fatal(addresses, err)
	}
	for _, a := range addresses {
		host, _, _ := net.SplitHostPort(a.Name)
		if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() || a.Host != "localhost" {
			t.Errorf("%+v", a)
		}
	}
}

// other is a worker of another version.
type other struct {
	workerpb.UnimplementedWorkerServer
}

func (other) Hello(context.Context, *workerpb.HelloRequest) (*workerpb.HelloResponse, error) {
	return &workerpb.HelloResponse{Protocol: 99, Version: "v9"}, nil
}

func TestConnectRefuses(t *testing.T) {
	t.Parallel()
	db := &memory.DB{}
	a := newProcess(t, "a", db, control.Security{}, quiet)

	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := closed.Addr().String()
	closed.Close()

	server, err := control.NewServer(other{}, control.Security{}, quiet)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() { server.Serve(l) })
	defer serving.Wait()
	defer server.Close()

	tests := []struct {
		name      string
		addresses []string
		code      int
		want      []string
	}{
		{"nobody there", []string{a.address, nobody}, exitcode.Unreachable, []string{nobody, "refused"}},
		{"another version", []string{a.address, l.Addr().String()}, exitcode.Unreachable, []string{"v9", "version 99", "same kvbench"}},
		{"the same twice", []string{a.address, "localhost:" + a.address[strings.LastIndex(a.address, ":")+1:]}, exitcode.Usage, []string{"the same worker"}},
	}
	for _, tt := range tests {
		var addresses []Address
		for _, name := range tt.addresses {
			addresses = append(addresses, Address{Name: name})
		}
		_, err := Connect(t.Context(), addresses, Options{Log: quiet})
		if exitcode.Of(err) != tt.code {
			t.Errorf("%s: %v, code %d, want %d", tt.name, err, exitcode.Of(err), tt.code)
			continue
		}
		for _, want := range tt.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want one with %q", tt.name, err, want)
			}
		}
	}
}

// TestOtherBuilds: builds of one protocol work together, and which are not ours is said.
func TestOtherBuilds(t *testing.T) {
	t.Parallel()
	db := &memory.DB{}
	var ps []*process
	for _, name := range []string{"w0", "w1", "w2"} { // all are version "test"
		ps = append(ps, newProcess(t, name, db, control.Security{}, quiet))
	}
	ps[1].cfg.Version = "v7"
	ps[1].restart()
	f := fleetOf(t, control.Security{}, ps...)
	for ours, want := range map[string]string{
		"v7-dirty": "w0, w2: kvbench test, this is v7-dirty; both speak version %d of the protocol\nw1: kvbench v7, this is v7-dirty; both speak version %d of the protocol",
		"test":     "w1: kvbench v7, this is test; both speak version %d of the protocol",
		"":         "",
	} {
		want = strings.ReplaceAll(want, "%d", strconv.Itoa(control.Protocol))
		if got := strings.Join(f.otherBuilds(ours), "\n"); got != want {
			t.Errorf("this is %q: got\n%s\nwant\n%s", ours, got, want)
		}
	}
	var warned []string
	_, err := f.Run(t.Context(), Job{
		Spec: properties(t, map[string]string{"target": "0", "maxexecutiontime": "0", "operationcount": "30"}),
		Out:  t.TempDir(), Versions: map[string]string{"kvbench": "test-dirty"},
		Warn: func(w string) { warned = append(warned, w) },
	})
	if err != nil || !slices.ContainsFunc(warned, func(w string) bool { return strings.Contains(w, "w1: kvbench v7, this is test-dirty") }) {
		t.Errorf("%v, warnings %q", err, warned)
	}
	if n := db.Gets.Load(); n < 30 {
		t.Errorf("%d operations, want 30", n)
	}
}

// TestCause: what is shown of an error that gRPC wrapped has neither its words nor its quotes.
func TestCause(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`connection error: desc = "transport: Error while dialing: pods \"kvbench-1\" not found"`:                          `pods "kvbench-1" not found`,
		`last connection error: connection error: desc = "transport: authentication handshake failed: EOF"`:                "authentication handshake failed: EOF",
		`rpc error: code = Unavailable desc = connection error: desc = "transport: Error while dialing: a \"b\" in \"c\""`: `a "b" in "c"`,
		"nothing of it": "nothing of it",
	} {
		if got := cause(text); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", text, got, want)
		}
	}
}

func TestNamesAreUnique(t *testing.T) {
	t.Parallel()
	db := &memory.DB{}
	var ps []*process
	for _, name := range []string{"host", "host", "pod-0"} {
		ps = append(ps, newProcess(t, name, db, control.Security{}, quiet))
	}
	f := fleetOf(t, control.Security{}, ps...)
	var names []string
	for _, m := range f.members {
		names = append(names, m.name)
	}
	if got := strings.Join(names, " "); got != "host-0 host-1 pod-0" {
		t.Errorf("names %s", got)
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	same := errors.New("the same")
	err := failures(map[string]error{"b": same, "a": same, "c": exitcode.With(exitcode.Usage, errors.New("another"))}, 4)
	if err.Error() != "a, b: the same\nc: another" || exitcode.Of(err) != exitcode.Usage {
		t.Errorf("%q, code %d", err, exitcode.Of(err))
	}
	err = failures(map[string]error{"b": same, "a": same}, 2)
	if err.Error() != "all 2 workers: the same" || exitcode.Of(err) != exitcode.Unreachable {
		t.Errorf("%q, code %d", err, exitcode.Of(err))
	}
}

func TestOffsetIsMeasured(t *testing.T) {
	t.Parallel()
	p := newProcess(t, "a", &memory.DB{}, control.Security{}, quiet)
	f := fleetOf(t, control.Security{}, p)
	o, err := measureOffset(t.Context(), f.members[0].client)
	if err != nil {
		t.Fatal(err)
	}
	if o.roundTrip <= 0 || o.roundTrip > time.Second || o.ahead.Abs() > o.roundTrip/2+time.Millisecond {
		t.Errorf("%+v on one machine", o)
	}
}
