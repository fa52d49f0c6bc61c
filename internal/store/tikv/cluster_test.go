// SPDX-License-Identifier: Apache-2.0

package tikv_test

import (
	"bytes"
	"cmp"
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/pdpb"
	"github.com/pingcap/log"
	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"github.com/kvbench/kvbench/internal/playground"
	"github.com/kvbench/kvbench/internal/store/storetest"
	"github.com/kvbench/kvbench/internal/store/tikv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T, o playground.Options) *playground.Cluster {
	pg, err := playground.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pg.Close(); err != nil {
			t.Error(err)
		}
	})
	return pg
}

// connect connects, or returns the error. What it opens is closed when the test ends.
func connect(t *testing.T, c tikv.Config) (*tikv.Cluster, error) {
	begin := time.Now()
	cl, err := tikv.Connect(t.Context(), c)
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		if err := cl.Close(); err != nil {
			t.Error(err)
		}
	})
	return cl, nil
}

func TestInfo(t *testing.T) {
	pg := start(t, playground.Options{})
	cl, err := connect(t, tikv.Config{PD: []string{"http://" + pg.PDAddr(), "127.0.0.1:1"}}) // one that is down does no harm
	if err != nil {
		t.Fatal(err)
	}
	info := cl.Info()
	if info.ClusterID != pg.ClusterID() || len(info.PD) != 1 || !info.PD[0].Leader || info.PD[0].Version == "" || len(info.Stores) != 3 {
		t.Errorf("%+v", info)
	}
	for i, s := range info.Stores {
		if s.Address != pg.StoreAddrs()[i] || s.State != "Up" || s.Version == "" {
			t.Errorf("store %+v", s)
		}
	}
}

// Every way in which a cluster cannot be used has an error that says which, and what to do.
func TestConnectFails(t *testing.T) {
	down := start(t, playground.Options{})
	for id := range down.StoreAddrs() {
		if err := down.StopStore(uint64(id + 1)); err != nil {
			t.Fatal(err)
		}
	}
	v1 := start(t, playground.Options{})
	v2 := start(t, playground.Options{APIVersion: playground.V2})
	files := storetest.Certificates(t)
	secret := start(t, playground.Options{TLS: files})
	empty := servePD(t, &pdServer{})
	old := servePD(t, &pdServer{stores: []string{"127.0.0.1:1"}})
	other := servePD(t, nil)
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and never answers
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	for _, test := range []struct {
		name   string
		config tikv.Config
		want   []string
	}{
		{"no address", tikv.Config{}, []string{"no PD address"}},
		{"nobody listens", tikv.Config{PD: []string{"127.0.0.1:1"}}, []string{"127.0.0.1:1", "refused"}},
		{"nobody answers", tikv.Config{PD: []string{silent.Addr().String()}}, []string{silent.Addr().String()}},
		{"no such host", tikv.Config{PD: []string{"no-such-host.invalid:2379"}}, []string{"no-such-host.invalid:2379"}},
		{"TLS is missing", tikv.Config{PD: []string{secret.PDAddr()}}, []string{secret.PDAddr(), "TLS"}},
		{"a CA alone", tikv.Config{PD: []string{secret.PDAddr()}, CA: files.CA}, []string{"certificate"}},
		{"TLS for nothing", tikv.Config{PD: []string{v2.PDAddr()}, CA: files.CA, Cert: files.Cert, Key: files.Key}, []string{"the cluster must use TLS"}},
		{"an address that is none", tikv.Config{PD: []string{"not an address"}}, []string{"not an address"}},
		{"no store can be reached", tikv.Config{PD: []string{down.PDAddr()}}, append(down.StoreAddrs(), "advertised")},
		{"no TiKV has joined", tikv.Config{PD: []string{empty}}, []string{empty + " answers, but no TiKV has joined the cluster yet"}},
		{"another service", tikv.Config{PD: []string{other}}, []string{other + " answers, but not as it should", "unknown service pdpb.PD"}},
		{"one is another service", tikv.Config{PD: []string{"127.0.0.1:1", other}}, []string{"answers, but not as it should", "127.0.0.1:1: dial tcp", other + ": unknown service"}},
		{"no keyspaces", tikv.Config{PD: []string{old}, APIVersion: "V2"}, []string{"PD knows no keyspaces", "tikv.apiversion=V2"}},
		{"no times to live", tikv.Config{PD: []string{v1.PDAddr()}, TTL: true}, []string{"does not keep times to live", "storage.enable-ttl"}},
		{"no such keyspace", tikv.Config{PD: []string{v2.PDAddr()}, APIVersion: "V2", Keyspace: "nowhere"}, []string{"keyspace nowhere"}},
		{"no such version", tikv.Config{PD: []string{v2.PDAddr()}, APIVersion: "V3"}, []string{"V3", "V1TTL"}},
		{"a keyspace without V2", tikv.Config{PD: []string{v2.PDAddr()}, Keyspace: "x"}, []string{"V2"}},
		{"a column family with V2", tikv.Config{PD: []string{v2.PDAddr()}, APIVersion: "V2", ColumnFamily: "lock"}, []string{"lock"}},
		{"half of TLS", tikv.Config{PD: []string{v2.PDAddr()}, Cert: "c", Key: "k"}, []string{"certificate"}},
		{"TLS files that are not there", tikv.Config{PD: []string{v2.PDAddr()}, CA: "/no/ca", Cert: "/no/cert", Key: "/no/key"}, []string{"/no/ca"}},
		{"negative counts", tikv.Config{PD: []string{v2.PDAddr()}, Clients: -1}, []string{"negative"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := connect(t, test.config)
			if err == nil {
				t.Fatal("it connected")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is missing in: %v", want, err)
				}
			}
		})
	}
}

// A store that keeps times to live is asked, and all is well.
func TestTimesToLive(t *testing.T) {
	pg := start(t, playground.Options{APIVersion: playground.V1TTL})
	if _, err := connect(t, tikv.Config{PD: []string{pg.PDAddr()}, APIVersion: "V1TTL", TTL: true}); err != nil {
		t.Error(err)
	}
}

// pdServer is a PD that says of its cluster what a test needs; without stores no TiKV has joined.
type pdServer struct {
	pdpb.PDServer
	leader string // advertised; empty: where it listens
	stores []string
}

// servePD serves p on loopback, or no service at all.
func servePD(t *testing.T, p *pdServer) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	if p != nil {
		p.leader = cmp.Or(p.leader, l.Addr().String())
		pdpb.RegisterPDServer(server, p)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		<-ended
	})
	return l.Addr().String()
}

func (p *pdServer) GetMembers(context.Context, *pdpb.GetMembersRequest) (*pdpb.GetMembersResponse, error) {
	leader := &pdpb.Member{Name: "pd-0", MemberId: 1, ClientUrls: []string{"http://" + p.leader}}
	return &pdpb.GetMembersResponse{Header: &pdpb.ResponseHeader{ClusterId: 7}, Members: []*pdpb.Member{leader}, Leader: leader}, nil
}

func (p *pdServer) GetAllStores(context.Context, *pdpb.GetAllStoresRequest) (*pdpb.GetAllStoresResponse, error) {
	if p.stores == nil {
		e := &pdpb.Error{Type: pdpb.ErrorType_NOT_BOOTSTRAPPED, Message: "cluster is not bootstrapped"}
		return &pdpb.GetAllStoresResponse{Header: &pdpb.ResponseHeader{ClusterId: 7, Error: e}}, nil
	}
	resp := &pdpb.GetAllStoresResponse{Header: &pdpb.ResponseHeader{ClusterId: 7}}
	for i, address := range p.stores {
		resp.Stores = append(resp.Stores, &metapb.Store{Id: uint64(i + 1), Address: address})
	}
	return resp, nil
}

// A connection that is being made ends with its context.
func TestConnectCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	begin := time.Now()
	if _, err := tikv.Connect(ctx, tikv.Config{PD: []string{"127.0.0.1:1"}}); err == nil {
		t.Fatal("it connected")
	}
	if took := time.Since(begin); took > 2*time.Second {
		t.Errorf("it took %v", took)
	}
}

// It is said that there is a proxy in the way, also when only an address that PD advertises goes through it.
func TestProxyHint(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://user:secret@proxy.invalid:3128")
	for named, pd := range map[string]string{
		"pd.invalid:2379":    "pd.invalid:2379",
		"pd-0.invalid:2379":  servePD(t, &pdServer{leader: "pd-0.invalid:2379"}),
		"store.invalid:2016": servePD(t, &pdServer{stores: []string{"store.invalid:2016"}}),
	} {
		_, err := connect(t, tikv.Config{PD: []string{pd}})
		for _, want := range []string{"Connections to " + named, "proxy.invalid:3128", "NO_PROXY"} {
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%s: want %s in %v", named, want, err)
			}
		}
	}
}

// client-go has one set of settings for the process, so clusters open at the same time must agree.
func TestSettingsAreShared(t *testing.T) {
	pg := start(t, playground.Options{})
	one := tikv.Config{PD: []string{pg.PDAddr()}, MaxBatchSize: 16}
	first, err := tikv.Connect(t.Context(), one)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := connect(t, one); err != nil {
		t.Errorf("the same again: %v", err)
	}
	other := one
	other.MaxBatchSize = 17
	if _, err := tikv.Connect(t.Context(), other); err == nil || !strings.Contains(err.Error(), "other settings") {
		t.Errorf("other settings: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
}

// The log of client-go and of the PD client goes where it is told, from warnings on.
func TestLog(t *testing.T) {
	pg := start(t, playground.Options{})
	var text lockedBuffer
	if _, err := connect(t, tikv.Config{PD: []string{pg.PDAddr()}, Log: &text}); err != nil {
		t.Fatal(err)
	}
	log.Info("a detail")
	log.Warn("a warning")
	if got := text.String(); !strings.HasPrefix(got, "{") || !strings.Contains(got, `"msg":"a warning"`) || strings.Contains(got, "a detail") {
		t.Errorf("the log holds %q", got)
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
